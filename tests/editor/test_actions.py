"""The comment that silences a finding goes where the file stays what it is, and silences."""

from __future__ import annotations

import pytest

pytest.importorskip("lsprotocol", reason="the language server needs the extra `lsp`")

from cfglint.editor.actions import ignore_edit
from cfglint.lint.finding import Finding, Place
from cfglint.lint.fixes import edited
from cfglint.source.node import Document, Span
from cfglint.source.text import parse_text

CODE = "MEM001"


def silenced(path: str, text: str, at: str) -> str | None:
    """The text with a finding at the first ``at`` silenced."""
    file = parse_text(path, text)
    start = file.text.index(at)
    document = file.documents[0] if file.documents else Document(file)
    where = Place(document, Span(start, start + len(at)))
    finding = Finding(CODE, "training-out-of-memory", "error", "high", "too large", (where,))
    edit = ignore_edit(finding)
    return None if edit is None else edited(file, [edit])


def test_at_the_end_of_the_line() -> None:
    assert silenced("a.yaml", "a: 1  \nb: 2\n", "a") == "a: 1  # cfglint: ignore[MEM001]\nb: 2\n"


def test_behind_a_comment_that_is_there() -> None:
    assert silenced("a.yaml", "a: 1 # tuned\n", "a") == "a: 1 # tuned  # cfglint: ignore[MEM001]\n"


def test_in_the_brackets_that_are_there() -> None:
    assert silenced("a.yaml", "a: 1 # cfglint: ignore[PRC001] x\n", "a") == "a: 1 # cfglint: ignore[PRC001, MEM001] x\n"


def test_above_a_text_that_goes_over_lines() -> None:
    text = "x:\n  a: 'one\n    two'\n"
    assert silenced("a.yaml", text, "a: ") == "x:\n  # cfglint: ignore[MEM001]\n  a: 'one\n    two'\n"


def test_inside_a_block_of_text_there_is_no_place() -> None:
    assert silenced("a.yaml", "a: |\n  one\n  two\nb: 1\n", "two") is None


def test_toml() -> None:
    assert silenced("a.toml", "[a]\nb = 1\n", "b") == "[a]\nb = 1  # cfglint: ignore[MEM001]\n"


def test_above_the_whole_command_of_a_script() -> None:
    text = "cd /x\n  torchrun --nproc_per_node 8 \\\n    train.py --bf16 true\n"
    wanted = text.replace("  torchrun", "  # cfglint: ignore[MEM001]\n  torchrun")
    assert silenced("run.sh", text, "--bf16") == wanted


def test_json_has_no_comments() -> None:
    assert silenced("a.json", '{"a": 1}', "1") is None


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_stay(line_end: str) -> None:
    text = f"x:{line_end}  a: 'one{line_end}    two'{line_end}"
    assert silenced("a.yaml", text, "a: ") == text.replace("  a:", f"  # cfglint: ignore[MEM001]{line_end}  a:")
