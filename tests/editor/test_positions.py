"""Offsets to the protocol's positions and back, in its three encodings."""

from __future__ import annotations

import pytest

pytest.importorskip("lsprotocol", reason="the language server needs the extra `lsp`")

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position, Range

from cfglint.editor.positions import Positions, units
from cfglint.source.node import Span

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXTS = st.text(st.sampled_from("ab é€\U0001f600\u2028\x0c\r\n"), max_size=40)


@pytest.mark.parametrize(("encoding", "length"), [("utf-8", 1 + 2 + 3 + 4), ("utf-16", 5), ("utf-32", 4)])
def test_units_of_characters_of_every_width(encoding: str, length: int) -> None:
    assert units("aé€\U0001f600", encoding) == length


def test_lines_end_where_the_protocol_ends_them() -> None:
    positions = Positions("a\u2028b\x0cc\r\nd\re\nf", "utf-16")
    assert [positions.position(i) for i in (0, 4, 7, 9, 11)] == [
        Position(0, 0), Position(0, 4), Position(1, 0), Position(2, 0), Position(3, 0)
    ]  # fmt: skip


def test_an_offset_inside_a_line_end_is_before_it() -> None:
    assert Positions("ab\r\nc", "utf-16").position(3) == Position(0, 2)


def test_a_byte_order_mark_that_the_client_keeps_shifts_the_first_line_only() -> None:
    positions = Positions("ab\ncd", "utf-8", leading_mark=True)
    assert positions.range(Span(1, 4)) == Range(Position(0, 4), Position(1, 1))
    assert positions.offset(Position(0, 4)) == 1
    assert positions.offset(Position(1, 1)) == 4


def test_positions_outside_go_to_the_nearest_end() -> None:
    positions = Positions("ab\ncd", "utf-16")
    assert positions.offset(Position(0, 99)) == 2
    assert positions.offset(Position(99, 0)) == 5
    assert positions.position(99) == Position(1, 2)


@given(TEXTS, st.sampled_from(ENCODINGS), st.booleans())
def test_there_and_back(text: str, encoding: str, mark: bool) -> None:
    positions = Positions(text, encoding, mark)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert positions.offset(positions.position(offset)) == offset
