"""Lines, look-ups and walking of the tree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cfglint.source.node import Lines, Mapping, Position, at, plain, value_at, walk
from cfglint.source.yaml import parse_yaml


def test_every_kind_of_line_end_starts_a_line() -> None:
    lines = Lines("a\nb\r\nc\rd")
    assert lines.starts == [0, 2, 5, 7]
    assert lines.position(5) == Position(3, 1)
    assert [lines.line_text(n) for n in range(1, 6)] == ["a", "b", "c", "d", ""]


@given(st.text(alphabet="ab\r\n", max_size=30), st.integers(0, 30))
def test_offset_and_position_are_inverse(text: str, offset: int) -> None:
    lines = Lines(text)
    offset = min(offset, len(text))
    place = lines.position(offset)
    assert lines.offset(place.line, place.column) == offset


def test_lookups_end_quietly_where_the_way_ends() -> None:
    root = parse_yaml("x.yaml", "a:\n  - b: 1\n").documents[0].root
    assert value_at(root, "a", 0, "b") == 1
    assert value_at(root, "a", -1, "b") == 1
    assert at(root, "a", 1) is None
    assert at(root, "a", "b") is None
    assert at(root, "a", 0, "b", "c") is None


def test_walk_gives_every_node_once_in_order() -> None:
    root = parse_yaml("x.yaml", "a: &x {k: 1}\nb: *x\nc: [2]\n").documents[0].root
    assert [route for route, _ in walk(root)] == [(), ("a",), ("a", "k"), ("c",), ("c", 0)]


def test_a_value_inside_itself_becomes_none() -> None:
    root = parse_yaml("x.yaml", "a: &x [1, *x]").documents[0].root
    assert isinstance(root, Mapping)
    assert plain(root) == {"a": [1, None]}
