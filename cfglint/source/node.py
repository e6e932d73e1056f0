"""The tree every file becomes: values as the framework itself would read them, each with its place.

Offsets are counted in characters of the decoded text (byte-order mark removed, line ends as they are in the file).
Rules and dialects walk this tree by route (a tuple of keys and indexes) and never handle lines.
"""

from __future__ import annotations

import datetime
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Union

if TYPE_CHECKING:
    from cfglint.source.shell import Script

Value = str | int | float | bool | None | datetime.date | datetime.datetime | datetime.time | bytes
"""What a scalar can be."""

Plain = Union[Value, "list[Plain]", "dict[str, Plain]"]
"""A tree without places."""

Route = tuple[str | int, ...]
"""The way from a document's root to a node: mapping keys and sequence indexes."""

Format = Literal["yaml", "json", "toml", "shell", "dockerfile", "text"]
"""``text``: a file of a kind that is not read."""

ScalarStyle = Literal["plain", "single", "double", "literal", "folded"]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets, ``start <= offset < end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Position:
    """1-based line and column; columns count Unicode characters."""

    line: int
    column: int


@dataclass(slots=True, eq=False)
class Scalar:
    """One value. ``raw`` is the text as written (quotes included), ``value`` what the format's reader makes of it."""

    span: Span
    value: Value
    raw: str
    style: ScalarStyle = "plain"
    tag: str | None = None

    @property
    def quoted(self) -> bool:
        return self.style in ("single", "double")


@dataclass(slots=True, eq=False)
class Entry:
    """A key with its value. ``merged``: it came through a YAML merge key ``<<``."""

    key: Scalar
    value: Node
    merged: bool = False

    @property
    def name(self) -> str:
        """The key as text: the value where it is a string, else as written (``on`` stays ``on``)."""
        return self.key.value if isinstance(self.key.value, str) else self.key.raw


@dataclass(slots=True, eq=False)
class Mapping:
    """Keys in file order, duplicates kept. Look-ups give what the reader gives: own keys before merged, the last wins."""

    span: Span
    entries: list[Entry] = field(default_factory=list)
    tag: str | None = None
    """A tag written before it (``!reset``, ``!!set``), None where there is none."""
    _index: dict[str, Entry] | None = field(default=None, repr=False)

    @property
    def index(self) -> dict[str, Entry]:
        if self._index is None:
            index = {e.name: e for e in self.entries if e.merged}
            index.update({e.name: e for e in self.entries if not e.merged})
            self._index = index
        return self._index

    def entry(self, key: str) -> Entry | None:
        return self.index.get(key)

    def get(self, key: str) -> Node | None:
        found = self.index.get(key)
        return None if found is None else found.value

    def keys(self) -> list[str]:
        return list(self.index)

    def duplicates(self) -> Iterator[tuple[Entry, Entry]]:
        """Pairs (earlier, later) of entries of this mapping that bear one name."""
        seen: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.merged:
                continue
            if entry.name in seen:
                yield seen[entry.name], entry
            seen[entry.name] = entry

    def __contains__(self, key: str) -> bool:
        return key in self.index

    def __len__(self) -> int:
        return len(self.index)


@dataclass(slots=True, eq=False)
class Sequence:
    """Items in order."""

    span: Span
    items: list[Node] = field(default_factory=list)
    tag: str | None = None


Node = Scalar | Mapping | Sequence


def at(node: Node | None, *route: str | int) -> Node | None:
    """The node at ``route``, or None where the way ends early."""
    for step in route:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.get(step)
        elif isinstance(node, Sequence) and isinstance(step, int) and -len(node.items) <= step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def value_at(node: Node | None, *route: str | int) -> Value:
    """The scalar value at ``route``; None where there is none (or where it is null)."""
    found = at(node, *route)
    return found.value if isinstance(found, Scalar) else None


def plain(node: Node | None) -> Plain:
    """The tree without places. Aliased nodes are converted once and shared, so an alias bomb costs nothing.

    A YAML value may contain itself through its anchor; the inner occurrence becomes None.
    """
    made: dict[int, Plain] = {}
    open_nodes: set[int] = set()

    def convert(n: Node | None) -> Plain:
        if n is None:
            return None
        if isinstance(n, Scalar):
            return n.value
        if id(n) in made:
            return made[id(n)]
        if id(n) in open_nodes:
            return None
        open_nodes.add(id(n))
        result: Plain
        if isinstance(n, Mapping):
            result = {name: convert(entry.value) for name, entry in n.index.items()}
        else:
            result = [convert(item) for item in n.items]
        open_nodes.discard(id(n))
        made[id(n)] = result
        return result

    return convert(node)


def walk(node: Node | None, route: Route = ()) -> Iterator[tuple[Route, Node]]:
    """Every node once, parents before children; a node reached again through an alias is not walked again."""
    seen: set[int] = set()
    stack: list[tuple[Route, Node]] = [(route, node)] if node is not None else []
    while stack:
        here, current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield here, current
        if isinstance(current, Mapping):
            stack.extend(((*here, name), entry.value) for name, entry in reversed(current.index.items()))
        elif isinstance(current, Sequence):
            stack.extend(((*here, i), item) for i, item in reversed(list(enumerate(current.items))))


@dataclass(frozen=True, slots=True)
class Problem:
    """Something the reader of this format would stumble over: a code of the ``SRC`` family, a message, a place.

    ``fatal``: no tree could be made of (the rest of) the file. ``accepted_by`` names readers that take it all the same.
    """

    code: str
    message: str
    span: Span
    fatal: bool = False
    related: tuple[tuple[Span, str], ...] = ()
    accepted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """``text`` without the comment sign and the blanks around it."""

    span: Span
    text: str


_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    """Offsets to 1-based line and column, and back to the text of a line. ``\\n``, ``\\r\\n`` and ``\\r`` end a line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        line = bisect_right(self.starts, offset) - 1
        return Position(line + 1, offset - self.starts[line] + 1)

    def offset(self, line: int, column: int = 1) -> int:
        return min(self.starts[min(line, len(self.starts)) - 1] + column - 1, len(self.text))

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its end."""
        if not 1 <= line <= len(self.starts):
            return ""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True, eq=False)
class Document:
    """One parsed document: a file, or one document of a multi-document YAML file.

    ``root`` is None for an empty document, for a file that does not parse, and for shell and Dockerfiles, whose
    commands are in ``script``.
    """

    file: SourceFile
    root: Node | None = None
    index: int = 0
    span: Span = Span(0, 0)

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def script(self) -> Script | None:
        return self.file.script

    @property
    def name(self) -> str:
        """``path``, or ``path#2`` for the second document of a file that holds several."""
        return self.path if len(self.file.documents) <= 1 else f"{self.path}#{self.index + 1}"

    def at(self, *route: str | int) -> Node | None:
        return at(self.root, *route)

    def value(self, *route: str | int) -> Value:
        return value_at(self.root, *route)


@dataclass(slots=True, eq=False)
class SourceFile:
    """A file as read. ``skipped`` says why it was not parsed: ``binary``, ``too-large``, ``unreadable``, ``template``,
    ``json-lines``, ``unknown-format``.
    """

    path: str
    text: str
    format: Format
    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    script: Script | None = None
    skipped: str | None = None
    bom: bool = False
    """The file begins with a byte-order mark, which is not part of ``text`` but belongs back in front on writing."""
    encoding: str | None = "utf-8"
    """How the bytes were decoded; None where that lost something, so that the file must not be written back."""
    _lines: Lines | None = field(default=None, repr=False)

    @property
    def lines(self) -> Lines:
        if self._lines is None:
            self._lines = Lines(self.text)
        return self._lines

    @property
    def fatal(self) -> bool:
        return any(p.fatal for p in self.problems)

    def position(self, offset: int) -> Position:
        return self.lines.position(offset)
