"""Offsets of cfglint (characters of the decoded text) to positions of the protocol, and back.

The protocol counts lines from 0 and columns in units of an encoding that client and server agree on: UTF-16 code units
unless they say otherwise. ``\\r\\n``, ``\\n`` and ``\\r`` end a line, as they do in :class:`cfglint.source.node.Lines`.
"""

from __future__ import annotations

from typing import Final

from lsprotocol.types import Position, Range

from cfglint.source.node import Lines, Span

BYTE_ORDER_MARK: Final = "\ufeff"


def units(text: str, encoding: str) -> int:
    """Length of ``text`` in code units of ``utf-8``, ``utf-16`` or ``utf-32``."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(char > "\uffff" for char in text)


class Positions:
    """Positions in one text. ``leading_mark``: the editor's own text begins with a byte-order mark, ours never does."""

    def __init__(self, text: str, encoding: str, leading_mark: bool = False) -> None:
        self.lines = Lines(text)
        self.encoding = encoding
        self._mark_units = units(BYTE_ORDER_MARK, encoding) if leading_mark else 0

    def position(self, offset: int) -> Position:
        """The position of an offset; offsets outside the text go to its nearest end, those inside a line end before it."""
        text = self.lines.text
        offset = max(0, min(offset, len(text)))
        line = self.lines.position(offset).line
        before = text[self.lines.starts[line - 1] : offset].rstrip("\r\n")
        return Position(line - 1, units(before, self.encoding) + (self._mark_units if line == 1 else 0))

    def range(self, span: Span) -> Range:
        """The range of a span."""
        return Range(self.position(span.start), self.position(span.end))

    def offset(self, position: Position) -> int:
        """The offset of a position; one behind the end of its line, or of the text, goes to that end."""
        line = position.line + 1
        if line > len(self.lines):
            return len(self.lines.text)
        text = self.lines.line_text(line)
        wanted = position.character - (self._mark_units if line == 1 else 0)
        start = self.lines.starts[line - 1]
        if text.isascii() or self.encoding == "utf-32":
            return start + max(0, min(wanted, len(text)))
        seen = 0
        for index, char in enumerate(text):
            if seen >= wanted:
                return start + index
            seen += units(char, self.encoding)
        return start + len(text)
