"""YAML: PyYAML's values, places, comments, faults, templates."""

from __future__ import annotations

import datetime
import math
import time
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.source.node import Mapping, Position, Scalar, Sequence, SourceFile, plain
from cfglint.source.yaml import parse_yaml, plain_value


def parse(text: str) -> SourceFile:
    return parse_yaml("x.yaml", text)


def root(text: str) -> Any:
    file = parse(text)
    assert not file.problems
    return file.documents[0].root


def codes(file: SourceFile) -> list[tuple[str, int, bool]]:
    return [(p.code, file.position(p.span.start).line, p.fatal) for p in file.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-5", "2e-5"), ("2.0e-5", 2e-5), ("1e5", "1e5"), ("1.0e+5", 1e5), ("on", True), ("No", False), ("y", "y"),
        ("~", None), ("null", None), ("", None), ("010", 8), ("0o10", "0o10"), ("0x1F", 31), ("1_000", 1000),
        ("190:20:30", 685230), ("1:60", "1:60"), (".inf", math.inf), ("-.INF", -math.inf), ("1.", 1.0), ("123", 123),
        ("2024-01-02", datetime.date(2024, 1, 2)), ("none", "none"), ("True", True), ("!", None),
    ],
)  # fmt: skip
def test_plain_scalars_are_read_as_pyyaml_reads_them(text: str, value: object) -> None:
    got = plain_value(text) if text != "!" else None
    assert got == value
    assert type(got) is type(value)
    if text != "!":
        assert pyyaml.safe_load(f"k: {text}")["k"] == value


def test_nan() -> None:
    value = plain_value(".nan")
    assert isinstance(value, float) and math.isnan(value)


def test_every_key_and_value_knows_its_place() -> None:
    text = 'lr: 2e-5  # note\nname: "é😀 x"\nitems:\n  - a\n  - {k: &anchor 7}\nblock: |\n  x # no comment\n\n\nlast:\n'
    file = parse(text)
    top = file.documents[0].root
    assert isinstance(top, Mapping)
    shown = {e.name: text[e.value.span.start : e.value.span.end] for e in top.entries}
    assert shown == {
        "lr": "2e-5",
        "name": '"é😀 x"',
        "items": "- a\n  - {k: &anchor 7}",
        "block": "|\n  x # no comment",
        "last": "",
    }
    assert [text[e.key.span.start : e.key.span.end] for e in top.entries] == list(shown)
    inner = top.get("items")
    assert isinstance(inner, Sequence) and isinstance(inner.items[1], Mapping)
    seven = inner.items[1].get("k")
    assert isinstance(seven, Scalar) and (seven.raw, seven.value) == ("7", 7)
    assert [c.text for c in file.comments] == ["note"]
    name = top.get("name")
    assert isinstance(name, Scalar) and name.quoted and name.style == "double"


def test_comments_outside_quotes_and_blocks_only() -> None:
    text = "# top\na: 'x # no'\nb: x#no # yes\nc: >  # header\n  text # no\n# end\nd: \"# no\n  # no\"\n"
    file = parse(text)
    assert [c.text for c in file.comments] == ["top", "yes", "header", "end"]
    assert all(text[c.span.start] == "#" for c in file.comments)


def test_documents_are_numbered_and_empty_ones_left_out() -> None:
    file = parse("---\na: 1\n---\n# nothing\n---\nb: 2\n")
    assert [plain(d.root) for d in file.documents] == [{"a": 1}, {"b": 2}]
    assert [d.name for d in file.documents] == ["x.yaml#1", "x.yaml#2"]
    assert parse("---\na: 1\n---\n").documents[0].name == "x.yaml"


def test_an_empty_file_has_one_document_without_root() -> None:
    for text in ("", "\n", "# only a comment\n"):
        file = parse(text)
        assert [d.root for d in file.documents] == [None]
        assert file.problems == []


def test_merge_keys_give_way_to_own_keys_and_the_first_source_wins() -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {a: 3, c: 4}\nz:\n  b: 9\n  <<: [*x, *y]\n"
    top = root(text)
    assert plain(top) == pyyaml.safe_load(text)
    assert {name: e.merged for name, e in top.get("z").index.items()} == {"a": True, "b": False, "c": True}
    assert list(top.get("z").duplicates()) == []


def test_aliases_share_their_node() -> None:
    top = root("a: &n {k: 1}\nb: *n\n")
    assert top.get("a") is top.get("b")


def test_duplicate_keys_are_kept_and_reported() -> None:
    file = parse("a: 1\nb: 2\na: 1\nb: 3\n1: x\n'1': y\n")
    assert codes(file) == [("SRC002", 3, False), ("SRC002", 4, False)]
    assert "same value" in file.problems[0].message
    assert "first is lost" in file.problems[1].message
    assert file.position(file.problems[1].related[0][0].start) == Position(2, 1)
    assert file.problems[0].accepted_by == ("yaml.safe_load",)
    top = file.documents[0].root
    assert isinstance(top, Mapping) and len(top.entries) == 6
    assert top.get("b") is top.entries[3].value


def test_unknown_tags_keep_tag_and_value() -> None:
    top = root("a: !Ref bucket\nb: !reset\nc: !ENV [X, y]\nd: !!float 1e-5\ne: !!str 12\n")
    assert (top.get("a").tag, top.get("a").value, top.get("a").raw) == ("!Ref", "bucket", "bucket")
    assert top.get("c").tag == "!ENV"
    assert (top.get("d").value, top.get("e").value) == (1e-5, "12")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n\tb: 2\n", 2, "tab"),
        ("a:\n  b: 1\n   c: 2\n", 3, "':'"),
        ("a: b: c\n", 1, "quote the value"),
        ("a: 1\nb: 'x\nc: 2\n", 2, "never closed"),
        ("a: @x\n", 1, "cannot begin"),
        ("a: 1\nstray\nb: 2\n", 2, "neither a key"),
        ("a: [1, 2\nb: 3\n", 2, "not closed"),
        ("a: *nowhere\n", 1, "names no anchor"),
        ("a: 1\nb: \x01\n", 2, "U+0001"),
        ("é: ü\nb: \x7f\n", 2, "U+007F"),
        ("- a\nb: 1\n", 2, "list item"),
    ],
)
def test_what_does_not_parse_says_where_and_why(text: str, line: int, words: str) -> None:
    file = parse(text)
    (problem,) = file.problems
    assert (problem.code, problem.fatal, file.position(problem.span.start).line) == ("SRC001", True, line)
    assert words in problem.message
    assert problem.span.end > problem.span.start


def test_documents_before_a_fault_are_kept() -> None:
    file = parse("a: 1\n---\nb: [\n")
    assert plain(file.documents[0].root) == {"a": 1}
    assert file.fatal


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.x }}\na: 1\n{{- end }}\n",
        "a: {{ lr }}\n",
        "{% for x in y %}\n- {{ x }}\n{% endfor %}\n",
        "lr: @LR@\n",
        "a: %MODEL%\n",
    ],
)
def test_templates_are_skipped_not_reported(text: str) -> None:
    file = parse(text)
    assert (file.skipped, file.problems) == ("template", [])
    assert file.documents[0].root is None


def test_jinja_inside_strings_is_content() -> None:
    chat = "chat_template: |\n  {% for m in messages %}{{ m }}{% endfor %}\nx: '{{ y }}'\n"
    assert parse(chat).skipped is None
    broken = parse(chat + "a: b: c\n")
    assert broken.skipped is None
    assert codes(broken) == [("SRC001", 4, True)]


def test_bad_timestamps_and_huge_integers_are_problems_not_crashes() -> None:
    file = parse("a: 2024-13-45\nb: " + "9" * 6000 + "\nc: 1\n")
    assert codes(file) == [("SRC001", 1, False), ("SRC001", 2, False)]
    assert file.documents[0].value("a") == "2024-13-45"
    assert file.documents[0].value("c") == 1


def test_collections_as_keys_are_reported_once_and_kept_as_text() -> None:
    file = parse("? [a, b]\n: c\n")
    assert codes(file) == [("SRC001", 1, False)]
    assert plain(file.documents[0].root) == {"[a, b]": "c"}


def test_nesting_is_limited_without_recursion() -> None:
    for text in ("- " * 5000, "[" * 5000, "{a: " * 100_000, "".join(" " * i + "a:\n" for i in range(1000))):
        file = parse(text)
        assert [(p.code, p.fatal) for p in file.problems] == [("SRC007", True)]


def test_alias_bomb_and_merge_bomb_cost_what_their_text_costs() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    started = time.process_time()
    converted = plain(parse("\n".join(lines)).documents[0].root)
    assert isinstance(converted, dict) and list(converted) == [f"a{i}" for i in range(9)]
    chain = "a0: &a0 {k0: 1}\n" + "".join(f"a{i}: &a{i} {{k{i}: 1, <<: *a{i - 1}}}\n" for i in range(1, 5000))
    assert [p.code for p in parse(chain).problems] == ["SRC007"]
    assert time.process_time() - started < 5


def test_a_mapping_that_merges_itself_keeps_its_own_keys() -> None:
    assert plain(root("a: &a {b: 1, <<: *a}\n")) == {"a": {"b": 1}}


def test_line_ends_and_lone_surrogates() -> None:
    assert plain(root("a: 1\r\nb:\r\n  - x\r\n")) == {"a": 1, "b": ["x"]}
    assert plain(root("a: 1\rb: 2\r")) == {"a": 1, "b": 2}
    assert [p.code for p in parse("a: \ud800").problems] == ["SRC006"]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:-#'\"[]{}&*!|>%@,?. \n\t\r0123é", max_size=60))
def test_any_text_gives_a_tree_or_a_problem_and_spans_inside_it(text: str) -> None:
    file = parse(text)
    assert len(file.documents) >= 1
    for problem in file.problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(text)
    try:
        expected = list(pyyaml.safe_load_all(text))
    except (pyyaml.YAMLError, ValueError):
        return
    assert not file.fatal
    got = [plain(d.root) for d in file.documents if d.root is not None]
    assert _loose(got) == _loose([e for e in expected if e is not None])


def _loose(value: Any) -> Any:
    """Keys as text: the tree has no others."""
    if isinstance(value, dict):
        return [_loose(v) for v in value.values()] if value else {}
    if isinstance(value, (list, tuple)):
        return [_loose(v) for v in value]
    return repr(value)


@pytest.mark.parametrize("text", ["limits: {gpu: ${GPUS}}\n", "a: [1, ${B}, c}\n", "a: __LR__: 2\n", "- <A>: x: y\n"])
def test_a_fault_at_a_placeholder_makes_a_template(text: str) -> None:
    file = parse(text)
    assert (file.skipped, file.problems) == ("template", [])


def test_a_fault_elsewhere_is_one_whatever_is_to_be_filled_in() -> None:
    assert codes(parse("model: ${MODEL}\na: b: c\n")) == [("SRC001", 2, True)]
    assert codes(parse("a: '${X}': c: d\n")) == [("SRC001", 1, True)]
