"""Bytes on disk: encodings, sizes, formats, what is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.source import parse_bytes, parse_text, read_file
from cfglint.source.detect import detect_format
from cfglint.source.node import Position, plain
from cfglint.source.problems import PROBLEMS


@pytest.mark.parametrize(
    ("path", "text", "format"),
    [
        ("a.yaml", "", "yaml"), ("a.YML", "", "yaml"), ("a/b.json", "", "json"), ("a.jsonc", "", "json"),
        ("pyproject.toml", "", "toml"), ("run.sh", "", "shell"), ("job.sbatch", "", "shell"), ("j.slurm", "", "shell"),
        ("Dockerfile", "", "dockerfile"), ("Dockerfile.cuda", "", "dockerfile"), ("x.dockerfile", "", "dockerfile"),
        ("sub\\Containerfile", "", "dockerfile"), ("docker/Dockerfile.yaml", "", "yaml"),
        ("launch", "#!/usr/bin/env bash\n", "shell"), ("job.txt", "#!/bin/sh\n", "shell"),
        ("job", "# x\n#SBATCH --nodes=1\n", "shell"), ("conf", '{"a": 1}', "json"), ("conf", "---\na: 1\n", "yaml"),
        ("conf", "[tool]\nx = 1\n", "toml"), ("build", "# c\nFROM x\n", "dockerfile"),
        ("a.py", "---\n", None), ("README.md", "{", None), ("conf", "hello", None), (".gitignore", "*.pyc\n", None),
    ],
)  # fmt: skip
def test_formats_by_name_then_by_content(path: str, text: str, format: str | None) -> None:
    assert detect_format(path, text) == format


def test_byte_order_mark_is_taken_off_and_remembered(tmp_path: Path) -> None:
    target = tmp_path / "a.yaml"
    target.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    file = read_file(target, "shown.yaml")
    assert (file.path, file.bom, file.encoding, file.problems) == ("shown.yaml", True, "utf-8", [])
    assert file.text == "a: 1\r\nb: 2\r\n"
    assert plain(file.documents[0].root) == {"a": 1, "b": 2}


def test_latin_1_is_reported_at_its_line_and_not_written_back() -> None:
    file = parse_bytes("a.yaml", b"a: 1\nb: caf\xe9 x\n")
    (problem,) = file.problems
    assert (problem.code, file.position(problem.span.start)) == ("SRC006", Position(2, 7))
    assert "0xE9" in problem.message
    assert file.encoding is None
    assert file.documents[0].value("a") == 1
    assert parse_bytes("a.sh", b"# caf\xe9\nrun\n").problems[0].accepted_by == ("bash",)


def test_utf_16_is_decoded_and_reported() -> None:
    file = parse_bytes("a.json", '{"a": 1}'.encode("utf-16"))
    assert [p.code for p in file.problems] == ["SRC006"]
    assert plain(file.documents[0].root) == {"a": 1}
    assert parse_bytes("a.json", b"\xff\xfe\x00").skipped == "binary"


def test_what_is_not_read_says_why(tmp_path: Path) -> None:
    assert parse_bytes("a.yaml", b"a: \x00\n").skipped == "binary"
    big = tmp_path / "big.json"
    big.write_text('"' + "x" * 200 + '"')
    assert read_file(big, size_limit=100).skipped == "too-large"
    assert read_file(big, size_limit=202).skipped is None
    assert read_file(tmp_path / "absent.yaml").skipped == "unreadable"
    assert read_file(tmp_path).skipped == "unreadable"
    unknown = parse_text("notes.md", "# x\n")
    assert (unknown.skipped, unknown.format) == ("unknown-format", "text")
    for file in (read_file(tmp_path / "absent.yaml"), unknown):
        assert [d.root for d in file.documents] == [None]


def test_every_code_has_a_meaning() -> None:
    assert list(PROBLEMS) == [f"SRC{n:03}" for n in range(1, len(PROBLEMS) + 1)]


def test_a_file_named_as_a_template_is_one() -> None:
    from cfglint.source import parse_text

    assert parse_text("conf/x.yaml.j2", "a: {{ b }}\n").skipped == "template"
    assert parse_text("notes.txt", "a\n").skipped == "unknown-format"
