"""Closed or full streams were internal faults; devices without an end, pipes and deep nesting hung or felled a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cfglint.cli.main import main

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux devices")
CONFIG = (
    "base_model: Qwen/Qwen2.5-7B\nsequence_len: 512\nmicro_batch_size: 1\ndatasets:\n  - path: d\n    type: alpaca\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axolotl.yaml").write_text(CONFIG)
    return tmp_path


def _shell(command: str, folder: Path) -> tuple[int, str]:
    line = command.replace("cfglint", f'"{sys.executable}" -m cfglint', 1)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, cwd=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("cfglint check --format json axolotl.yaml > /dev/full", 2, "standard output: cannot be written"),
        ("cfglint rules > /dev/full", 2, "standard output: cannot be written"),
        ("cfglint check axolotl.yaml >&-", 0, ""),
        ("cfglint estimate axolotl.yaml >&-", 0, ""),
        ("cfglint check nothing.yaml 2>&-", 2, ""),
        ("cfglint check - <&-", 0, "1 file"),
        ("cfglint check --show-files - < /dev/zero", 0, "too-large"),
    ],
)
def test_streams(folder: Path, command: str, code: int, says: str) -> None:
    returned, shown = _shell(command, folder)
    assert (returned, "internal fault" in shown, "Traceback" in shown) == (code, False, False), shown
    assert says in shown


@pytest.mark.parametrize("flag", ("--config", "--baseline"))
def test_a_device_without_an_end_is_no_settings_and_no_baseline(
    folder: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert main(["check", flag, "/dev/zero", "axolotl.yaml"]) == 2
    assert "/dev/zero" in capsys.readouterr().err


@pytest.mark.parametrize("text", ("[" * 100_000, '{"version": 1, "files": {"a": {"b": {"c": 1e999}}}}'))
def test_a_baseline_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (folder / "known.json").write_text(text)
    assert main(["check", "--baseline", "known.json", "axolotl.yaml"]) == 2
    assert "not a baseline" in capsys.readouterr().err


@pytest.mark.parametrize("text", ("x = " + "[" * 100_000, "x = " + "9" * 10_000))
def test_settings_that_no_toml_reader_takes(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (folder / "cfglint.toml").write_text(text)
    assert main(["check", "axolotl.yaml"]) == 2
    assert "cfglint.toml" in capsys.readouterr().err


def test_pipes_where_settings_could_stand_are_not_opened(folder: Path) -> None:
    (folder / ".git").mkdir()
    for name in ("pyproject.toml", ".gitignore"):
        os.mkfifo(folder / name)
    assert _shell("cfglint check .", folder)[0] == 0
