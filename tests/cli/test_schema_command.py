"""``cfglint schema``: what is printed, written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cfglint.cli.main import main


def test_prints_a_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "deepspeed"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "zero_optimization" in exported["properties"]


def test_writes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "sft.json"
    assert main(["schema", "trl", "--variant", "sft", "--output", str(target)]) == 0
    assert capsys.readouterr().out == ""
    properties = json.loads(target.read_text(encoding="utf-8"))["properties"]
    assert "packing" in properties and "num_generations" not in properties


def test_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"axolotl", "deepspeed", "trl", "vllm"} <= set(names)
    assert names[0] == "settings" and names[1:] == sorted(names[1:])


def test_the_schema_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "settings"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {"select", "per-file-ignores", "targets", "jobs"} <= set(content["properties"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["deepsped"], "deepsped: no such format; did you mean deepspeed?"),
        (["trl", "--variant", "SFTConfg"], "SFTConfg: no such variant of trl; did you mean SFTConfig?"),
        (["accelerate", "--variant", "x"], "x: no such variant of accelerate; known: none"),
        (["deepspeed", "--output", "/no/such/folder/x.json"], "/no/such/folder/x.json: No such file or directory"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *arguments]) == 2
    assert message in capsys.readouterr().err
