"""TOML: tomllib's values with places."""

from __future__ import annotations

import datetime
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.source.node import Mapping, SourceFile, at, plain
from cfglint.source.toml import parse_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

TEXT = '''# top
title = "x\\ty"   # note
a.b.c = 1
a."d e" = [1, 2, # in
  3,]
[t]
when = 1979-05-27 07:32:00
clock = 07:32:00
lr = 1e-5
s = """
multi "quoted" # no comment
""""
literal = \'\'\'a'b\'\'\'
inline = {x = 1, y.z = {q = []}}
[[arr]]
k = 1
[arr.sub]
z = 0x1F
[[arr]]
k = 2
[[arr.nested]]
q = true
[t.sub.deep]
'''


def parse(text: str) -> SourceFile:
    return parse_toml("x.toml", text)


def test_values_are_tomllibs_and_places_are_known() -> None:
    file = parse(TEXT)
    root = file.documents[0].root
    assert file.problems == []
    assert plain(root) == tomllib.loads(TEXT)
    shown = {
        ("title",): '"x\\ty"',
        ("a", "b"): "a.b.c = 1",
        ("a", "d e", 2): "3",
        ("t", "when"): "1979-05-27 07:32:00",
        ("t", "lr"): "1e-5",
        ("t", "inline", "y", "z"): "{q = []}",
        ("arr", 0): "[[arr]]\nk = 1\n[arr.sub]\nz = 0x1F",
        ("arr", 1, "nested", 0, "q"): "true",
    }
    for route, text in shown.items():
        node = at(root, *route)
        assert node is not None and TEXT[node.span.start : node.span.end] == text
    assert file.documents[0].value("t", "clock") == datetime.time(7, 32)
    assert [c.text for c in file.comments] == ["top", "note", "in"]
    assert isinstance(root, Mapping)
    assert [TEXT[e.key.span.start : e.key.span.end] for e in root.entries] == ["title", "a", "t", "arr"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a = 1\na = 2\n", "SRC002", 2),
        ("[a]\nx = 1\n[a]\n", "SRC002", 3),
        ("a = 1\nb = \n", "SRC001", 2),
        ("a b\n", "SRC001", 1),
        ('x = 1\na = "x\n', "SRC001", 2),
        ("a = 01\n", "SRC001", 1),
        ("\r", "SRC001", 1),
        ("x = 1\nn = " + "9" * 6000, "SRC001", 2),
    ],
)
def test_faults_have_their_line(text: str, code: str, line: int) -> None:
    file = parse(text)
    (problem,) = file.problems
    assert (problem.code, problem.fatal, file.position(problem.span.start).line) == (code, True, line)
    assert file.documents[0].root is None


def test_depth_is_limited() -> None:
    for text in ("a = " + "[" * 5000, "a = " + "[" * 250 + "]" * 250, ".".join("a" * 5000) + " = 1"):
        assert [(p.code, p.fatal) for p in parse(text).problems] == [("SRC007", True)]


def test_templates_and_line_ends() -> None:
    assert parse("x = {{ y }}\n").skipped == "template"
    text = 'a = 1\r\n[b]\r\nc = """x\r\ny"""\r\n'
    assert plain(parse(text).documents[0].root) == tomllib.loads(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", ".", "=", "1", "[", "]", "{", "}", '"', "'", '"""', "\n", " ", ",", "#", "\\", "\r\n", "1.5", "true", "[[", "]]"]), max_size=25))  # fmt: skip
def test_any_text_agrees_with_tomllib(tokens: list[str]) -> None:
    text = "".join(tokens)
    file = parse(text)
    try:
        expected = tomllib.loads(text)
    except ValueError:
        assert file.fatal or file.skipped
        return
    assert file.problems == []
    assert plain(file.documents[0].root) == expected
