"""JSON: the values of json.loads, places, and what lenient readers take."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.source.json import parse_json
from cfglint.source.node import Mapping, Position, Scalar, SourceFile, plain, walk


def parse(text: str) -> SourceFile:
    return parse_json("x.json", text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(JSON_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_values_equal_json_loads(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    file = parse(text)
    assert (file.problems, file.skipped) == ([], None)
    assert json.dumps(plain(file.documents[0].root)) == json.dumps(json.loads(text))
    for _, node in walk(file.documents[0].root):
        if isinstance(node, Scalar):
            assert text[node.span.start : node.span.end] == node.raw
            assert json.loads(node.raw) == node.value


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="{}[]:,\"'\\ab1-.e+0 \n\t/*#NaInfty{%$_", max_size=40))
def test_any_text_is_judged_as_json_loads_judges_it(text: str) -> None:
    file = parse(text)
    try:
        expected = json.loads(text)
    except ValueError:
        assert file.problems or file.skipped
        return
    assert not file.fatal
    assert json.dumps(plain(file.documents[0].root)) == json.dumps(expected)


def test_surrogate_escapes() -> None:
    assert plain(parse('["\\ud83d\\ude00", "\\ud83d"]').documents[0].root) == ["😀", "\ud83d"]


def test_what_hjson_takes_is_named_and_the_tree_is_made() -> None:
    file = parse("{\n  // first\n  'a': 1, # second\n  b: [1, 2,],\n  /* third */ \"c\": 3,\n}\n")
    found = {(p.code, file.position(p.span.start).line): p for p in file.problems}
    assert sorted(found) == [("SRC003", 2), ("SRC004", 4), ("SRC004", 5), ("SRC009", 3), ("SRC009", 4)]
    assert not file.fatal
    assert all("hjson" in p.accepted_by and "json.loads" not in p.accepted_by for p in file.problems)
    assert "3 in this file" in found["SRC003", 2].message
    assert plain(file.documents[0].root) == {"a": 1, "b": [1, 2], "c": 3}
    assert [c.text for c in file.comments] == ["first", "second", "third"]


def test_what_json_loads_takes_is_named() -> None:
    file = parse('{"a": 1, "b": 2, "a": 1, "b": [NaN, -Infinity]}')
    assert [p.code for p in file.problems] == ["SRC002", "SRC002", "SRC005", "SRC005"]
    assert all(p.accepted_by == ("json.loads",) for p in file.problems)
    assert "same value" in file.problems[0].message and "lost" in file.problems[1].message
    value = file.documents[0].at("b", 0)
    assert isinstance(value, Scalar) and isinstance(value.value, float) and math.isnan(value.value)


def test_jsonc_files_may_hold_comments() -> None:
    for path in ("a.jsonc", "tsconfig.json", ".vscode/settings.json", "x/.devcontainer/devcontainer.json"):
        assert parse_json(path, '{"a": 1, // x\n}').problems == []
    assert [p.code for p in parse_json("a.json", '{"a": 1, // x\n}').problems] == ["SRC004", "SRC003"]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", (1, 1), "no JSON value"),
        ('{"a": 1,\n "b": }', (2, 7), "expected a value"),
        ('{"a": 01}', (1, 7), "01"),
        ('{"a": 1.}', (1, 7), "1."),
        ('{"a" 1}', (1, 2), "':'"),
        ('{"a": 1', (1, 7), "closed"),
        ('["abc', (1, 2), "never closed"),
        ('["abc\n"]', (1, 2), "end of its line"),
        ('["\\x"]', (1, 3), "escape"),
        ('{"a": 1}}', (1, 9), "too many"),
        ("[1 2]", (1, 4), "','"),
        ('{"a": tru}', (1, 7), "tru"),
        ('{"a": 1} x', (1, 10), "after the end"),
    ],
)
def test_what_does_not_parse_says_where_and_why(text: str, place: tuple[int, int], words: str) -> None:
    file = parse(text)
    (problem,) = file.problems
    assert (problem.code, problem.fatal) == ("SRC001", True)
    assert file.position(problem.span.start) == Position(*place)
    assert words in problem.message


def test_python_constants_and_missing_commas_are_recovered() -> None:
    file = parse('{"a": True,\n "b": None\n "c": 1}')
    assert [(p.code, p.fatal) for p in file.problems] == [("SRC001", False), ("SRC001", False), ("SRC009", False)]
    assert plain(file.documents[0].root) == {"a": True, "b": None, "c": 1}
    assert [p.accepted_by for p in parse('{"a": "x" "b": 1}').problems] == [("hjson",)]
    assert [p.accepted_by for p in parse('{"a": 1 "b": 1}').problems] == [()]


@pytest.mark.parametrize("value", ["CONFIG_LR", "{{ lr }}", "${LR}", "<LR>", "__LR__", "@LR@", "%LR%"])
def test_placeholders_make_a_template(value: str) -> None:
    file = parse(f'{{"lr": {value}, "b": 1}}')
    assert (file.skipped, file.problems) == ("template", [])
    quoted = parse(f'{{"lr": "{value}", "b": 1}}')
    assert (quoted.skipped, quoted.problems) == (None, [])


def test_json_lines() -> None:
    assert parse('{"a": 1}\n{"a": 2}\n').skipped == "json-lines"
    assert parse('{"a": 1}\n{"a": 2\n').fatal


def test_byte_order_mark_and_control_characters() -> None:
    marked = parse('\ufeff{"a": 1}')
    assert (marked.bom, marked.text, [p.code for p in marked.problems]) == (True, '{"a": 1}', ["SRC009"])
    tab = parse('{"a": "x\ty"}')
    assert [(p.code, p.fatal) for p in tab.problems] == [("SRC001", False)]
    assert tab.documents[0].value("a") == "x\ty"


def test_depth_length_and_digits() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000):
        assert [(p.code, p.fatal) for p in parse(text).problems] == [("SRC007", True)]
    digits = parse('{"a": ' + "9" * 6000 + "}")
    assert [(p.code, p.fatal) for p in digits.problems] == [("SRC001", False)]
    started = time.process_time()
    long = parse('["' + "x" * 1_000_000 + '"]')
    assert time.process_time() - started < 1
    root = long.documents[0].root
    assert not isinstance(root, Mapping) and not long.problems
