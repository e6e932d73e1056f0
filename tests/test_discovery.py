"""Which files a run looks at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cfglint.discovery import discover, is_candidate
from cfglint.settings import SettingsResolver


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(root: Path, *names: str, text: str = "a: 1\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(*paths: str) -> list[str]:
    return discover(paths, SettingsResolver()).files


def test_folders_are_searched_in_a_fixed_order(tree: Path) -> None:
    put(tree, "b.yaml", "a/z.json", "a/y.toml", "run.sh", "Dockerfile", "deploy/api.dockerfile", "notes.md", "x.py")
    put(tree, "node_modules/a.json", "package-lock.json", ".venv/a.yaml", ".github/workflows/ci.yml")
    expected = [
        "Dockerfile",
        "b.yaml",
        "run.sh",
        ".github/workflows/ci.yml",
        "a/y.toml",
        "a/z.json",
        "deploy/api.dockerfile",
    ]
    assert found(".") == expected
    assert found("a", "a/z.json", str(tree / "b.yaml")) == ["a/y.toml", "a/z.json", "b.yaml"]


def test_nested_gitignore_and_info_exclude(tree: Path) -> None:
    put(
        tree,
        "a.yaml",
        "out/b.yaml",
        "sub/keep.yaml",
        "sub/drop.yaml",
        "sub/deep/c.json",
        "secret.yaml",
        "logs/x/l.yaml",
    )
    (tree / ".git" / "info").mkdir(parents=True)
    (tree / ".git" / "info" / "exclude").write_text("secret.yaml\n")
    (tree / ".gitignore").write_text("/out/\n*.json\nlogs/**\n")
    (tree / "sub" / ".gitignore").write_text("drop.yaml\n!c.json\n")
    assert found(".") == ["a.yaml", "sub/keep.yaml", "sub/deep/c.json"]
    # from inside the repository the files above still hold
    os.chdir(tree / "sub")
    assert found(".") == ["keep.yaml", "deep/c.json"]
    # a file named explicitly is looked at
    os.chdir(tree)
    assert found("secret.yaml") == ["secret.yaml"]


def test_exclude_is_honoured_for_named_files(tree: Path) -> None:
    put(tree, "old/a.yaml", "b.yaml")
    (tree / "cfglint.toml").write_text('extend-exclude = ["old/"]\n')
    result = discover(["old/a.yaml", "b.yaml"], SettingsResolver())
    assert (result.files, result.excluded) == (["b.yaml"], ["old/a.yaml"])
    assert found(".") == ["b.yaml", "cfglint.toml"]


def test_symlink_loops_end(tree: Path) -> None:
    put(tree, "a/x.yaml", "elsewhere/y.yaml")
    (tree / "a" / "loop").symlink_to(tree / "a", target_is_directory=True)
    (tree / "a" / "up").symlink_to(tree, target_is_directory=True)
    (tree / "a" / "dangling.yaml").symlink_to(tree / "nothing")
    (tree / "a" / "other").symlink_to(tree / "elsewhere", target_is_directory=True)
    assert found("a") == ["a/x.yaml", "a/other/y.yaml"]


def test_paths_that_are_not_there(tree: Path) -> None:
    result = discover(["none.yaml", "a\0b"], SettingsResolver())
    assert [path for path, _ in result.unreadable] == ["none.yaml", "a\0b"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Dockerfile", True), ("Dockerfile.gpu", True), ("x.Dockerfile", True), ("Dockerfile.md", False), ("a.YAML", True),
     ("job.sbatch", True), ("a.py", False), (".yaml", False)],
)  # fmt: skip
def test_candidates(name: str, wanted: bool) -> None:
    assert is_candidate(name) is wanted
