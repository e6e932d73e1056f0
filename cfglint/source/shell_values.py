"""What shell variables hold: text in pieces that remember where they were written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from cfglint.source.node import Span
from cfglint.source.shell import Word

MAX_VALUE_LENGTH: Final = 65_536
"""Characters. A value that grows past this (``A="$A$A"`` in a row) is treated as unknown."""
MAX_PIECES: Final = 2_000
"""Pieces of one value, for the same reason."""
MAX_VARIABLES: Final = 2_000
"""Variables followed in one script; further ones are unknown."""

_BLANKS: Final = " \t\n\r"
_UNBLANK: Final = re.compile(r"[^ \t\n\r]+")


class Piece(NamedTuple):
    """Text with the place it comes from. Where the lengths agree, characters and places correspond one to one."""

    text: str
    start: int
    end: int
    known: bool = True
    quoted: bool = False

    def cut(self, start: int, end: int) -> Piece:
        if self.end - self.start == len(self.text):
            return self._replace(text=self.text[start:end], start=self.start + start, end=self.start + end)
        return self._replace(text=self.text[start:end])


class Variable(NamedTuple):
    """A variable's value: ``pieces``, or the ``items`` of an array, or neither where the value is not known."""

    pieces: tuple[Piece, ...] | None = None
    items: tuple[tuple[Piece, ...], ...] | None = None
    exported: bool = False
    shown: Span | None = None
    """Where a value that is not known was assigned."""

    @property
    def known(self) -> bool:
        return self.pieces is not None or self.items is not None

    @property
    def empty(self) -> bool:
        """Known to be the empty string, or an array without items."""
        return self.known and not self.items and not any(piece.text for piece in self.pieces or ())

    def same_value(self, other: Variable | None) -> bool:
        if other is None or not self.known or not other.known:
            return False
        if self.items is not None or other.items is not None:
            return [_text(i) for i in self.items or ()] == [_text(i) for i in other.items or ()]
        return _text(self.pieces or ()) == _text(other.pieces or ())


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


class Fields:
    """Collects the pieces of one written word and splits them into the words a command gets."""

    __slots__ = ("fields", "open", "quoted", "splitting", "void")

    def __init__(self, *, splitting: bool = True) -> None:
        self.fields: list[list[Piece]] = []
        self.open = False
        self.quoted = False
        self.void = False
        """An array without items stood in quotes: on its own it makes no word, although quotes do."""
        self.splitting = splitting

    def _field(self) -> list[Piece]:
        if not self.open:
            self.fields.append([])
            self.open = True
        return self.fields[-1]

    def add(self, piece: Piece) -> None:
        self._field().append(piece)

    def quote(self) -> None:
        """Quotes were opened here: an empty word counts."""
        self.quoted = True
        self._field()

    def expand(self, pieces: Iterable[Piece], quoted: bool) -> None:
        """A variable's value; outside quotes blanks in it end words."""
        if quoted or not self.splitting:
            field = self._field()
            field.extend(pieces)
            return
        for piece in pieces:
            if not piece.known or not any(blank in piece.text for blank in _BLANKS):
                if piece.text:
                    self.add(piece)
                continue
            at = 0
            for found in _UNBLANK.finditer(piece.text):
                if found.start() > at:
                    self.open = False
                self.add(piece.cut(found.start(), found.end()))
                at = found.end()
            if at < len(piece.text):
                self.open = False

    def expand_array(self, items: Iterable[tuple[Piece, ...]], quoted: bool) -> None:
        """``"${NAME[@]}"``: one word for each item."""
        items = list(items)
        self.void = self.void or not items
        for i, item in enumerate(items):
            if i:
                if self.splitting:
                    self.open = False
                elif item:
                    self.add(Piece(" ", item[0].start, item[0].start))
            self.expand(item, quoted)
            if quoted and not item:
                self._field()

    def words(self) -> list[list[Piece]]:
        """The pieces of each word."""
        return [] if self.void and self.fields == [[]] else self.fields

    def pieces(self) -> tuple[Piece, ...]:
        """Everything in one, for an assignment."""
        return tuple(piece for field in self.fields for piece in field)


def word_of(text: str, pieces: list[Piece], start: int, end: int, *, alone: bool, quoted: bool) -> Word:
    """The word ``pieces`` make.

    ``text`` is the file's, ``start`` and ``end`` the place of the written word, ``alone`` says that nothing else came
    of it.
    """
    content = "".join([piece.text for piece in pieces])
    known = all(piece.known for piece in pieces)
    inside = [piece for piece in pieces if piece.start >= start and piece.end <= end]
    if inside or not pieces:
        if alone or not inside:
            span = Span(start, end)
        else:
            span = Span(min(p.start for p in inside), max(p.end for p in inside))
        return Word(content, text[span.start : span.end], span, known, quoted)
    first = pieces[0]
    stop = first.end
    for piece in pieces[1:]:
        if not stop <= piece.start <= stop + 2:  # quotes or a backslash may lie between
            break
        stop = piece.end
    span = Span(first.start, stop)
    return Word(content, text[span.start : span.end], span, known, quoted, Span(start, end))


class Variables:
    """The variables of a script while it is read, with a journal that branches can be undone and merged by."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, Variable] = {}
        self.journals: list[dict[str, Variable | None]] = []
        self._words: dict[str, Word] = {}
        self._shared: dict[str, Word] | None = None

    def get(self, name: str) -> Variable | None:
        return self.values.get(name)

    def set(self, name: str, variable: Variable | None) -> None:
        old = self.values.get(name)
        if old is None and variable is not None and len(self.values) >= MAX_VARIABLES:
            return
        if self.journals:
            self.journals[-1].setdefault(name, old)
        self._put(name, variable)

    def _put(self, name: str, variable: Variable | None) -> None:
        old = self.values.get(name)
        if variable is None:
            self.values.pop(name, None)
        else:
            self.values[name] = variable
        if variable is not None and variable.exported:
            self._words[name] = variable_word(self.text, variable)
            self._shared = None
        elif old is not None and old.exported:
            self._words.pop(name, None)
            self._shared = None

    def open_branch(self) -> None:
        self.journals.append({})

    def close_branch(self) -> tuple[dict[str, Variable | None], dict[str, Variable | None]]:
        """Undo what was set since :meth:`open_branch`: the values from before, and the values undone."""
        before = self.journals.pop()
        after = {name: self.values.get(name) for name in before}
        for name, old in before.items():
            self._put(name, old)
        return before, after

    def exported(self) -> dict[str, Word]:
        """Words of the exported variables. The same dict until one of them changes."""
        if self._shared is None:
            self._shared = dict(self._words)
        return self._shared


def variable_word(text: str, variable: Variable) -> Word:
    """A variable's value as one word; as written, and not known, where it is not."""
    shown = variable.shown or Span(0, 0)
    pieces = variable.pieces
    if pieces is None and variable.items:
        pieces = variable.items[0]
    if pieces is None:
        raw = text[shown.start : shown.end]
        return Word(raw, raw, shown, known=False)
    return word_of(text, list(pieces), shown.start, shown.end, alone=True, quoted=any(p.quoted for p in pieces))


def too_long(variable: Variable) -> bool:
    """True where a value has grown past what is followed."""
    if variable.items is not None:
        return len(variable.items) > MAX_PIECES or sum(len(item) for item in variable.items) > MAX_PIECES
    pieces = variable.pieces or ()
    return len(pieces) > MAX_PIECES or sum([len(piece.text) for piece in pieces]) > MAX_VALUE_LENGTH
