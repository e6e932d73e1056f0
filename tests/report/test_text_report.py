"""The report for people, and the one-line form."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from made_up import empty, result

from cfglint import __version__
from cfglint.report import Options, render
from cfglint.report.terminal import columns, harmless, wants_colour

Golden = Callable[[str, str], None]


@pytest.mark.parametrize(
    ("name", "format", "options"),
    [
        ("text.txt", "text", Options(width=100)),
        ("text-all.txt", "text", Options(width=80, statistics=True, show_files=True, fixed=1)),
        ("text-colour.txt", "text", Options(colour=True, width=100)),
        ("concise.txt", "concise", Options()),
        ("github.txt", "github", Options()),
        ("markdown.md", "markdown", Options(statistics=True)),
        ("gitlab.json", "gitlab", Options()),
        ("junit.xml", "junit", Options()),
        ("report.json", "json", Options(show_files=True)),
        ("report.sarif", "sarif", Options()),
    ],
)
def test_golden(name: str, format: str, options: Options, golden: Golden) -> None:
    golden(name, render(format, result(), options).replace(__version__, "VERSION"))


def test_nothing_recognised_is_said() -> None:
    assert render("text", empty()) == "0 configs recognised in 1 file\n"
    assert render("concise", empty()) == "0 configs recognised in 1 file\n"


def test_quiet_says_nothing_where_there_is_nothing() -> None:
    assert render("text", empty(), Options(quiet=True)) == ""
    assert render("concise", empty(), Options(quiet=True)) == ""


def test_no_escape_sequence_of_a_file_reaches_the_terminal() -> None:
    for format in ("text", "concise", "github", "markdown"):
        assert "\x1b" not in render(format, result())
    assert harmless("a\u202eb\x07c\td") == "a�b�c\td"


def test_long_lines_are_clipped_around_the_mark() -> None:
    text = render("text", result(), Options(width=80))
    (line,) = [line for line in text.splitlines() if "here" in line]
    assert len(line) <= 80
    mark = text.splitlines()[text.splitlines().index(line) + 1]
    assert mark.index("^") == line.index("here")


def test_marks_stand_below_wide_characters() -> None:
    assert columns("aß") == 2
    assert columns("表x") == 3
    assert columns("é") == 1


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert wants_colour(Terminal()) and not wants_colour(io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    assert wants_colour(io.StringIO(), "always")


def test_templates_are_said_to_be_left_alone() -> None:
    from cfglint.report.summary import sentence
    from cfglint.testing import lint_files

    result = lint_files({"deploy.yaml": "name: {{ .Release.Name }}\n", "b.yaml": "lr: @LR@\n", "c.yaml": "a: 1\n"})
    assert sentence(result) == "0 configs recognised in 3 files, 2 templates left alone"
    assert result.findings == []
