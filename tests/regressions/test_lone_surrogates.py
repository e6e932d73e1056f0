"""A lone surrogate (a JSON escape, a file name that is no UTF-8) ended a run: fingerprints and reports took none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cfglint.cli.main import main

FORMATS = ("text", "json", "sarif", "github", "gitlab", "junit", "markdown", "concise")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("format", FORMATS)
def test_a_value_with_a_lone_surrogate_is_reported(folder: Path, format: str) -> None:
    (folder / "ds.json").write_text(
        '{"train_batch_size": "\\ud800", "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "fp\\udfff": 1}'
    )
    main(["check", "--format", format, "--fail-on", "never", "--output-file", "out", "."])
    text = (folder / "out").read_bytes().decode("utf-8")
    if format == "json":
        messages = [f["message"] for f in json.loads(text)["findings"]]
        assert any("\ufffd" in message for message in messages)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_file_name_that_is_no_utf8_is_reported_and_kept_in_a_baseline(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    (folder / name).write_text(
        '{"train_batch_size": 3.5, "zero_optimization": {"stage": 7}, "bf16": {"enabled": true}}'
    )
    assert main(["check", "--format", "json", "--fail-on", "info", "."]) == 1
    found = json.loads(capfd.readouterr().out)["findings"]
    assert {f["path"] for f in found} == {"caf\ufffd.json"}
    assert main(["check", "--baseline", "known.json", "--write-baseline", "."]) == 0
    assert main(["check", "--baseline", "known.json", "--fail-on", "info", "."]) == 0
