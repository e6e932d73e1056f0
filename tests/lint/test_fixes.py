"""Edits on the original text, and what stands between them and the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.jobs.facts import Reading
from cfglint.lint import fixes
from cfglint.lint.finding import Edit, Finding, Fix, Place
from cfglint.source.node import Document, Node, Route, SourceFile, Span, at, plain
from cfglint.source.text import parse_bytes, parse_text


def reading(text: str, path: str = "a.yaml", base: Route = ()) -> Reading:
    file = parse_text(path, text)
    document = file.documents[0]
    root = at(document.root, *base)
    assert root is not None
    return Reading("test", document, root, base=base)


def after(edit: Edit | None) -> str:
    assert edit is not None
    made, why = fixes.fault_of(edit.document.file, [edit])
    assert not why
    assert made is not None
    return made.text


@pytest.mark.parametrize(
    ("path", "before", "route", "new", "wanted"),
    [
        ("a.yaml", "a: 1  # why\nb: 2\n", ("a",), "4", "a: 4  # why\nb: 2\n"),
        ("a.yaml", "a:\n  b: {c: 1, d: 2}\n", ("a", "b", "d"), "true", "a:\n  b: {c: 1, d: true}\n"),
        ("a.yaml", "a:  # none\nb: 2\n", ("a",), "4", "a: 4  # none\nb: 2\n"),
        ("a.yaml", "a:\n  - x\n  - y\nb: 1\n", ("a",), "all-linear", "a: all-linear\nb: 1\n"),
        ("a.yaml", "a:\n  - x\n  - y\n", ("a", 1), "z", "a:\n  - x\n  - z\n"),
        ("a.json", '{\r\n  "a": 1,\r\n  "b": 2\r\n}', ("b",), '"x"', '{\r\n  "a": 1,\r\n  "b": "x"\r\n}'),
        ("a.toml", "[t]\na = 1 # c\n", ("t", "a"), "2", "[t]\na = 2 # c\n"),
    ],
)
def test_replace(path: str, before: str, route: Route, new: str, wanted: str) -> None:
    assert after(fixes.replace_value(reading(before, path), route, new)) == wanted


@pytest.mark.parametrize(
    ("path", "before", "route", "wanted"),
    [
        ("a.yaml", "# top\na: 1\nb: 2 # gone\nc: 3\n", ("b",), "# top\na: 1\nc: 3\n"),
        ("a.yaml", "a: 1\nb:\n  c: 1\n  d:\n    - 2\n", ("b",), "a: 1\n"),
        ("a.yaml", "a: 1\nb: 2", ("b",), "a: 1\n"),
        ("a.yaml", "a:\n  b: 1\nc: 2\n", ("a", "b"), "a:\n  {}\nc: 2\n"),
        ("a.yaml", "a:\n  - b: 1\n    c: 2\n", ("a", 0, "b"), "a:\n  - c: 2\n"),
        ("a.yaml", "a: {b: 1, c: 2}\n", ("a", "c"), "a: {b: 1}\n"),
        ("a.json", '{\n  "a": 1,\n  "b": 2\n}\n', ("b",), '{\n  "a": 1\n}\n'),
        ("a.json", '{\n  "a": 1,\n  "b": 2\n}\n', ("a",), '{\n  "b": 2\n}\n'),
        ("a.json", '{"a": {"b": [1]}}', ("a", "b"), '{"a": {}}'),
        ("a.toml", "a = 1\nb = 2\n[t]\n", ("a",), "b = 2\n[t]\n"),
    ],
)
def test_remove(path: str, before: str, route: Route, wanted: str) -> None:
    assert after(fixes.remove_key(reading(before, path), route)) == wanted


@pytest.mark.parametrize(
    ("path", "before", "route", "wanted"),
    [
        ("a.yaml", "a: 1 # c\n\nb: 2\n", ("a",), "a: 1 # c\nnew: 5\n\nb: 2\n"),
        ("a.yaml", "a:\r\n  b:\r\n    - 1\r\nc: 2\r\n", ("a", "b"), "a:\r\n  b:\r\n    - 1\r\n  new: 5\r\nc: 2\r\n"),
        ("a.yaml", "l:\n  - a: 1\n", ("l", 0, "a"), "l:\n  - a: 1\n    new: 5\n"),
        ("a.yaml", "a: {b: 1}", ("a", "b"), "a: {b: 1, new: 5}"),
        ("a.yaml", "a: 1", ("a",), "a: 1\nnew: 5"),
        ("a.json", '{\n  "a": 1,\n  "b": 2\n}', ("a",), '{\n  "a": 1,\n  "new": 5,\n  "b": 2\n}'),
        ("a.json", '{\n  "a": 1\n}', ("a",), '{\n  "a": 1,\n  "new": 5\n}'),
        ("a.json", '{"a": 1}', ("a",), '{"a": 1, "new": 5}'),
        ("a.toml", "[t]\na = 1\n[u]\n", ("t", "a"), "[t]\na = 1\nnew = 5\n[u]\n"),
        ("a.toml", "t = {a = 1}\n", ("t", "a"), "t = {a = 1, new = 5}\n"),
    ],
)
def test_insert(path: str, before: str, route: Route, wanted: str) -> None:
    assert after(fixes.insert_key(reading(before, path), route, "new", "5")) == wanted


@pytest.mark.parametrize(
    ("path", "before", "route", "wanted"),
    [
        ("a.yaml", "old: 1 # c\n", ("old",), "new: 1 # c\n"),
        ("a.yaml", "'old': 1\n", ("old",), "'new': 1\n"),
        ("a.json", '{"old": [1, 2]}', ("old",), '{"new": [1, 2]}'),
        ("a.toml", "t.old = 1\n", ("t", "old"), "t.new = 1\n"),
    ],
)
def test_rename(path: str, before: str, route: Route, wanted: str) -> None:
    assert after(fixes.rename_key(reading(before, path), route, "new")) == wanted


def test_routes_start_at_the_reading() -> None:
    edit = fixes.replace_value(reading("x:\n  a: 1\n", base=("x",)), ("a",), "2")
    assert after(edit) == "x:\n  a: 2\n"


@pytest.mark.parametrize(
    ("text", "route"),
    [("a: &x 1\nb: *x\n", ("b",)), ("a: &x 1\nb: *x\n", ("a",)), ("d: &d {k: 1}\ne:\n  <<: *d\n", ("e", "k"))],
)
def test_what_an_alias_shares_is_left_alone(text: str, route: Route) -> None:
    assert fixes.replace_value(reading(text), route, "2") is None


def test_a_change_that_an_alias_carries_elsewhere_is_refused() -> None:
    edit = fixes.replace_value(reading("d: &d {k: 1}\ne: *d\n"), ("d", "k"), "2")
    assert edit is not None
    made, why = fixes.fault_of(edit.document.file, [edit])
    assert made is None
    assert why == "it would change more than it says"


def test_a_value_that_reads_otherwise_is_refused() -> None:
    edit = fixes.replace_value(reading("a: 1\nb: 1\n"), ("a",), "[2")
    assert edit is not None
    assert fixes.fault_of(edit.document.file, [edit])[0] is None


@pytest.mark.parametrize(
    "value", [1e-5, 2e-05, 3e20, 1.5, "on", "yes", "1e-5", "a b", "all-linear", "x: y", "", "null", True, None, 7]
)
def test_value_text_reads_back(value: object) -> None:
    text = fixes.value_text("yaml", value)  # type: ignore[arg-type]
    assert yaml.safe_load(f"x: {text}") == {"x": value}
    assert json.loads(fixes.value_text("json", value)) == value  # type: ignore[arg-type]


def test_byte_order_mark_and_line_ends_stay() -> None:
    file = parse_bytes("a.yaml", b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    edit = fixes.replace_value(Reading("t", file.documents[0], _root(file)), ("b",), "3")
    assert edit is not None
    assert fixes.encoded(file, fixes.edited(file, [edit])) == b"\xef\xbb\xbfa: 1\r\nb: 3\r\n"


def _root(file: SourceFile) -> Node:
    root = file.documents[0].root
    assert root is not None
    return root


# The run over several findings -----------------------------------------------------------------------------------


def finding(
    document: Document, key: str, edits: tuple[Edit | None, ...], *, safe: bool = True, code: str = "T001"
) -> Finding:
    assert all(edits)
    fix = Fix("title", tuple(e for e in edits if e), safe)
    place = Place(document, Span(0, 1), (key,))
    return Finding(code, "n", "warning", "high", f"{key} is wrong", (place,), fixes=(fix,))


def small_numbers(files: Mapping[str, SourceFile]) -> list[Finding]:
    """A linter that wants every number to be at least 5, and offers 5."""
    found = []
    for file in files.values():
        document = file.documents[0]
        here = Reading("t", document, _root(file))
        for key, value in plain(document.root).items():  # type: ignore[union-attr]
            if isinstance(value, int) and value < 5:
                found.append(finding(document, key, (fixes.replace_value(here, (key,), "5"),)))
    return found


def test_all_findings_are_fixed_at_once_and_linted_again() -> None:
    files = {"a.yaml": parse_text("a.yaml", "a: 1\nb: 2\nc: 9\n")}
    result = fixes.apply_fixes(small_numbers(files), files, small_numbers, unsafe=False)
    assert result.texts == {"a.yaml": "a: 5\nb: 5\nc: 9\n"}
    assert len(result.applied) == 2 and not result.dropped


def test_unsafe_fixes_need_to_be_asked_for() -> None:
    files = {"a.yaml": parse_text("a.yaml", "a: 1\n")}
    here = Reading("t", files["a.yaml"].documents[0], _root(files["a.yaml"]))
    found = [finding(here.document, "a", (fixes.replace_value(here, ("a",), "5"),), safe=False)]
    assert fixes.apply_fixes(found, files, small_numbers, unsafe=False).texts == {}
    assert fixes.apply_fixes(found, files, small_numbers, unsafe=True).texts == {"a.yaml": "a: 5\n"}


def test_a_fix_that_does_not_help_is_dropped_and_others_stay() -> None:
    files = {"a.yaml": parse_text("a.yaml", "a: 1\nb: 1\n")}

    def lint(now: Mapping[str, SourceFile]) -> list[Finding]:
        found = small_numbers(now)
        document = now["a.yaml"].documents[0]
        here = Reading("t", document, _root(now["a.yaml"]))
        if not any(f.key == "b" for f in found):
            return [*found, finding(document, "b", (fixes.replace_value(here, ("b",), "6"),))]
        return found

    result = fixes.apply_fixes(lint(files), files, lint, unsafe=False)
    assert result.texts == {"a.yaml": "a: 5\nb: 1\n"}
    assert [d.why for d in result.dropped] == ["the finding would still be there"]


def test_a_fix_that_brings_an_error_is_dropped() -> None:
    files = {"a.yaml": parse_text("a.yaml", "a: 1\n")}

    def lint(now: Mapping[str, SourceFile]) -> list[Finding]:
        if "a: 5" in now["a.yaml"].text:
            return [Finding("X001", "n", "error", "high", "worse", (), path="a.yaml")]
        return small_numbers(now)

    result = fixes.apply_fixes(lint(files), files, lint, unsafe=False)
    assert result.texts == {}
    assert [d.why for d in result.dropped] == ["it would bring a new error, X001 in a.yaml"]


# Properties ------------------------------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b", "lr", "zero stage", "on", "1", "x-y"])
scalars = st.one_of(
    st.booleans(), st.integers(-5, 99999), st.none(), st.sampled_from(["x", "on", "1e-5", "a: b", "# c", "ü"])
)
trees = st.dictionaries(
    keys,
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
    ),
    min_size=1,
    max_size=4,
)
writers = {
    "a.yaml": lambda tree: yaml.safe_dump(tree, sort_keys=False, allow_unicode=True),
    "flow.yaml": lambda tree: yaml.safe_dump(tree, default_flow_style=True, sort_keys=False, width=40),
    "a.json": lambda tree: json.dumps(tree, indent=2),
    "compact.json": json.dumps,
}


def routes(node: object, route: Route = ()) -> list[Route]:
    found: list[Route] = [route] if route and isinstance(route[-1], str) else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, inner in items:
        found += routes(inner, (*route, step))
    return found


@settings(max_examples=150, deadline=None)
@given(trees, st.sampled_from(sorted(writers)), st.data())
def test_an_edit_changes_what_it_says_and_nothing_else(tree: dict[str, object], path: str, data: st.DataObject) -> None:
    text = writers[path](tree)
    here = reading(text, path)
    route = data.draw(st.sampled_from(routes(tree)))
    kind = data.draw(st.sampled_from(["replace", "remove", "rename", "insert"]))
    edit = {
        "replace": lambda: fixes.replace_value(here, route, "42"),
        "remove": lambda: fixes.remove_key(here, route),
        "rename": lambda: fixes.rename_key(here, route, "fresh"),
        "insert": lambda: fixes.insert_key(here, route, "fresh", "42"),
    }[kind]()
    if edit is None:
        return
    made, why = fixes.fault_of(here.document.file, [edit])
    if made is None:
        # refusing is allowed only for what YAML cannot say with a small edit
        assert kind == "remove" and len(tree) == 1, why
        return
    wanted = json.loads(json.dumps(tree))
    parent = wanted
    for step in route[:-1]:
        parent = parent[step]
    if kind == "replace":
        parent[route[-1]] = 42
    elif kind == "insert":
        parent["fresh"] = 42
    else:
        value = parent.pop(route[-1])
        if kind == "rename":
            parent["fresh"] = value
    assert plain(made.documents[0].root) == wanted
