"""TOML text to nodes: the values ``tomllib`` gives, each with its place.

``tomllib`` says whether the text is TOML and what it means; a scanner that relies on that walks the text once more,
side by side with the result, and notes where everything stands.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from cfglint.source.node import Comment, Document, Entry, Mapping, Node, Problem, Scalar, Sequence, SourceFile, Span
from cfglint.source.problems import DUPLICATE_KEY, MAX_DEPTH, NOT_PARSED, TOO_DEEP
from cfglint.source.template import template_marker

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"#[^\r\n]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\r\n]|\\.)*"'
    r"|'[^'\r\n]*'",
    re.DOTALL,
)
_OTHER: Final = re.compile(r"[^,\]}#\r\n]+")
_PLACE: Final = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE: Final = re.compile(r"Cannot (?:overwrite|declare|mutate)|Duplicate")
_LONG_NUMBER: Final = re.compile(r"\d[\d_]{4000,}")
_LONG_KEY: Final = re.compile(rf"^[ \t]*\[{{0,2}}[ \t]*(?:[\w\"'-]+[ \t]*\.[ \t]*){{{MAX_DEPTH}}}", re.MULTILINE)
"""tomllib's time grows with the square of a dotted key's length."""
_LINE_END: Final = re.compile(r"[\r\n]|$")


class _TooDeep(Exception):
    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class _Table:
    """A table that is being filled: its node, the values ``tomllib`` has for it, and the tables below it by name."""

    __slots__ = ("below", "depth", "node", "values")

    def __init__(self, node: Mapping, values: dict[str, Any], depth: int) -> None:
        self.node = node
        self.values = values
        self.depth = depth
        self.below: dict[str, _Table] = {}


class _Scanner:
    """Places of keys and values in text that ``tomllib`` has accepted."""

    def __init__(self, file: SourceFile, values: dict[str, Any]) -> None:
        self.file = file
        self.text = file.text
        self.root = _Table(Mapping(Span(0, len(file.text))), values, 0)

    def skip(self, at: int, blank: re.Pattern[str] = _BLANK_LINES) -> int:
        while True:
            at = blank.match(self.text, at).end()  # type: ignore[union-attr]
            found = _COMMENT.match(self.text, at)
            if not found:
                return at
            self.file.comments.append(Comment(Span(at, found.end()), found.group().lstrip("#").strip()))
            at = found.end()

    def scan(self) -> Mapping:
        text = self.text
        open_tables = [self.root]
        at = self.skip(0)
        while at < len(text):
            if text[at] == "[":
                open_tables, at = self.header(at)
            else:
                at = self.assignment(open_tables, at)
            at = self.skip(at)
        return self.root.node

    def key(self, at: int) -> tuple[Scalar, int]:
        text = self.text
        found = _BARE_KEY.match(text, at)
        if found:
            raw = found.group()
            return Scalar(Span(at, found.end()), raw, raw), found.end()
        quoted = _STRING.match(text, at)
        if not quoted:  # cannot be in valid TOML; no loop may depend on that
            raise ValueError("expected a key")
        raw = quoted.group()
        double = raw[0] == '"'
        value = str(tomllib.loads(f"k={raw}")["k"]) if double else raw[1:-1]
        return Scalar(Span(at, quoted.end()), value, raw, "double" if double else "single"), quoted.end()

    def dotted(self, at: int) -> tuple[list[Scalar], int]:
        keys = []
        while True:
            key, end = self.key(at)
            keys.append(key)
            at = _BLANK.match(self.text, end).end()  # type: ignore[union-attr]
            if self.text[at : at + 1] != ".":
                return keys, end
            at = _BLANK.match(self.text, at + 1).end()  # type: ignore[union-attr]

    def descend(self, table: _Table, key: Scalar, start: int) -> _Table:
        """The table ``key`` names in ``table``, made where it is new; of an array of tables the last."""
        name = str(key.value)
        found = table.below.get(name)
        if found is None:
            if table.depth >= MAX_DEPTH:
                raise _TooDeep(key.span.start)
            found = _Table(Mapping(Span(start, key.span.end)), table.values[name], table.depth + 1)
            table.below[name] = found
            table.node.entries.append(Entry(key, found.node))
        return found

    def header(self, at: int) -> tuple[list[_Table], int]:
        text = self.text
        array = text.startswith("[[", at)
        first = _BLANK.match(text, at + (2 if array else 1)).end()  # type: ignore[union-attr]
        keys, end = self.dotted(first)
        end = _BLANK.match(text, end).end() + (2 if array else 1)  # type: ignore[union-attr]
        tables = [self.root]
        for key in keys[:-1]:
            tables.append(self.descend(tables[-1], key, at))
        above, last = tables[-1], keys[-1]
        if array:
            tables.append(self.array_item(above, last, at))
        else:
            tables.append(self.descend(above, last, at))
        self.extend(tables, end)
        return tables, end

    def array_item(self, above: _Table, key: Scalar, start: int) -> _Table:
        name = str(key.value)
        if above.depth >= MAX_DEPTH:
            raise _TooDeep(key.span.start)
        items: Node | None = None
        if name in above.below:
            items = next((e.value for e in reversed(above.node.entries) if e.name == name), None)
        if not isinstance(items, Sequence):
            items = Sequence(Span(start, key.span.end))
            above.node.entries.append(Entry(key, items))
        table = _Table(Mapping(Span(start, key.span.end)), above.values[name][len(items.items)], above.depth + 1)
        items.items.append(table.node)
        above.below[name] = table
        return table

    def extend(self, tables: list[_Table], end: int) -> None:
        for i, table in enumerate(tables):
            if i:
                span = table.node.span
                table.node.span = Span(span.start, max(span.end, end))

    def assignment(self, open_tables: list[_Table], at: int) -> int:
        keys, end = self.dotted(at)
        tables = list(open_tables)
        for key in keys[:-1]:
            tables.append(self.descend(tables[-1], key, at))
        equals = _BLANK.match(self.text, end).end()  # type: ignore[union-attr]
        start = _BLANK.match(self.text, equals + 1).end()  # type: ignore[union-attr]
        table, last = tables[-1], keys[-1]
        node, end = self.value(start, table.values[str(last.value)], table.depth + 1)
        table.node.entries.append(Entry(last, node))
        self.extend(tables, end)
        return end

    def value(self, at: int, value: Any, depth: int) -> tuple[Node, int]:
        text = self.text
        if depth > MAX_DEPTH:
            raise _TooDeep(at)
        char = text[at]
        if char == "[":
            return self.array(at, value, depth)
        if char == "{":
            return self.inline_table(at, value, depth)
        found = _STRING.match(text, at) if char in "\"'" else _OTHER.match(text, at)
        if not found:
            raise ValueError("expected a value")
        raw = found.group() if char in "\"'" else found.group().rstrip()
        end = at + len(raw)
        style: Any = {'"': "double", "'": "single"}.get(char, "plain")
        return Scalar(Span(at, end), value, raw, style), end

    def array(self, at: int, values: list[Any], depth: int) -> tuple[Node, int]:
        sequence = Sequence(Span(at, at))
        here = self.skip(at + 1)
        while self.text[here] != "]":
            node, here = self.value(here, values[len(sequence.items)], depth + 1)
            sequence.items.append(node)
            here = self.skip(here)
            if self.text[here] == ",":
                here = self.skip(here + 1)
        sequence.span = Span(at, here + 1)
        return sequence, here + 1

    def inline_table(self, at: int, values: dict[str, Any], depth: int) -> tuple[Node, int]:
        table = _Table(Mapping(Span(at, at)), values, depth)
        here = self.skip(at + 1)
        while self.text[here] != "}":
            here = self.skip(self.assignment([table], here))
            if self.text[here] == ",":
                here = self.skip(here + 1)
        table.node.span = Span(at, here + 1)
        return table.node, here + 1


def _fault(file: SourceFile, error: ValueError) -> Problem:
    text, message = file.text, str(error)
    found = _PLACE.search(message)
    if found is None:
        number = _LONG_NUMBER.search(text)
        span = Span(number.start(), number.end()) if number else Span(0, min(1, len(text)))
        return Problem(NOT_PARSED, message.partition(";")[0], span, fatal=True)
    message = message[: found.start()]
    at = file.lines.offset(int(found.group(1)), int(found.group(2))) if found.group(1) else len(text)
    twice = _TWICE.match(message) is not None
    end = _LINE_END.search(text, at)
    stop = end.start() if end else len(text)
    if twice or not text[at:stop].strip():  # the place is behind the fault: take the line that ends there
        before = text[:at].rstrip()
        at = max(before.rfind("\n"), before.rfind("\r")) + 1
        at += len(before[at:]) - len(before[at:].lstrip())
        stop = len(before) if twice else max(len(before), at)
    stop = at + len(text[at:stop].rstrip())
    code = DUPLICATE_KEY if twice else NOT_PARSED
    if twice:
        message = "a key or table stands twice, which TOML forbids"
    return Problem(code, message, Span(at, max(stop, at)), fatal=True)


def parse_toml(path: str, text: str) -> SourceFile:
    """Read TOML text. Never raises for what the text says."""
    file = SourceFile(path, text, "toml")
    root: Node | None = None
    try:
        long_key = _LONG_KEY.search(text)
        if long_key:
            raise _TooDeep(long_key.start())
        scanner = _Scanner(file, tomllib.loads(text))
        root = scanner.scan()
    except _TooDeep as deep:
        message = f"nested deeper than {MAX_DEPTH} levels"
        file.problems.append(Problem(TOO_DEEP, message, Span(deep.at, deep.at + 1), fatal=True))
    except RecursionError:
        message = "nested deeper than tomllib reads"
        file.problems.append(Problem(TOO_DEEP, message, Span(0, min(1, len(text))), fatal=True))
    except ValueError as error:
        if template_marker(text) is not None:
            file.skipped = "template"
        else:
            file.problems.append(_fault(file, error))
        file.comments = [
            Comment(Span(m.start(1), m.end(1)), m.group(1).lstrip("#").strip())
            for m in re.finditer(r"^[ \t]*(#[^\r\n]*)", text, re.MULTILINE)
        ]
    file.documents.append(Document(file, root, 0, Span(0, len(text))))
    return file
