"""Findings known from before."""

from pathlib import Path

import pytest

from cfglint.lint.baseline import BaselineError, collect, read, write
from cfglint.lint.finding import Finding


def finding(path: str, message: str = "too much", code: str = "MEM001") -> Finding:
    return Finding(code, "n", "error", "high", message, (), path=path)


def test_known_findings_are_marked_and_one_more_is_new(tmp_path: Path) -> None:
    path, config = tmp_path / "baseline.json", str(tmp_path / "configs" / "a.yaml")
    write(collect([finding(config), finding(config), finding(config, "other")], path), path)
    assert "configs/a.yaml" in path.read_text() and str(tmp_path) not in path.read_text()
    now = [finding(config), finding(config), finding(config), finding(config, "other", "MEM002")]
    baseline = read(path)
    baseline.mark(now)
    assert [f.suppressed for f in now] == ["baseline", "baseline", None, None]


def test_stale_entries_of_files_that_were_looked_at_or_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    (tmp_path / "b.yaml").write_text("")
    gone, fixed, elsewhere = str(tmp_path / "gone.yaml"), str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")
    write(collect([finding(gone), finding(fixed), finding(elsewhere)], path), path)
    baseline = read(path)
    baseline.mark([])
    assert sorted(baseline.stale([fixed])) == [("a.yaml", "MEM001", 1), ("gone.yaml", "MEM001", 1)]


def test_silenced_findings_are_not_collected(tmp_path: Path) -> None:
    silenced = finding("a.yaml")
    silenced.suppressed = "comment"
    assert collect([silenced], tmp_path / "b.json").counts == {}


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2, "files": {}}', '{"version": 1, "files": {"a": [1]}}'])
def test_what_is_no_baseline_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match="not a baseline"):
        read(path)
