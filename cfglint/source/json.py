"""JSON text to nodes with places, strict as ``json.loads`` is, and lenient enough to say what exactly is wrong.

The scanner runs once over the text with a stack of its own. What some readers take and others refuse (comments,
trailing commas, NaN, single quotes, a missing comma) is recorded as a problem that names the readers that take it, and
the tree is still made. Values equal ``json.loads`` on every document it accepts.
"""

from __future__ import annotations

import json
import re
from json import decoder
from typing import Any, Final

from cfglint.source.node import (
    Comment,
    Document,
    Entry,
    Mapping,
    Node,
    Problem,
    Scalar,
    Sequence,
    SourceFile,
    Span,
    Value,
)
from cfglint.source.problems import (
    DUPLICATE_KEY,
    JSON_COMMENT,
    JSON_CONSTANT,
    JSON_LENIENCY,
    MAX_DEPTH,
    MAX_REPEATED,
    NOT_PARSED,
    TOO_DEEP,
    TRAILING_COMMA,
)

LOADS: Final = "json.loads"
HJSON: Final = "hjson"
"""What DeepSpeed reads its configuration with (``deepspeed/runtime/config.py``; duplicate keys it refuses itself)."""
PYYAML: Final = "yaml.safe_load"
"""What GPT-NeoX and others read ``.json`` files with; tabs between tokens stop it."""

_BLANKS: Final = " \t\n\r"
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BARE: Final = re.compile(r"[^\s,:{}\[\]\"'#/]+")
_VALUE_TOLD: Final = re.compile(r"[ \t]*(?:[\r\n#]|//|/\*)")
_COLON: Final = re.compile(r"[ \t\n\r]*:")
_LINE: Final = re.compile(r"[^\r\n]*")
_SINGLE: Final = re.compile(r"'((?:[^'\\\r\n]|\\.)*)'")
_PLACEHOLDER: Final = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|\$\{[^}\r\n]*\}|\$[A-Za-z_]\w*|<[A-Za-z_][\w .-]*>|@\w+@|%\w+%|__\w+__"
    r"|(?!NaN\b|Infinity\b|NULL\b|TRUE\b|FALSE\b)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?![\w.])"
)
"""What stands for a value that ``sed`` or a template engine fills in. Only looked for where no value was found."""

_JSONC_PATH: Final = re.compile(
    r"\.(?:jsonc|json5|code-workspace)$|(?:^|[\\/])(?:[tj]sconfig[^\\/]*|\.?devcontainer)\.json$|(?:^|[\\/])\.vscode[\\/]",
    re.IGNORECASE,
)
"""Files whose own readers take comments and trailing commas."""
_BLOCK: Final = re.compile(r"\{\{|\{%|<%|\$\{|@\w+@")
"""What a template engine fills in or leaves out between members."""
_WORD_GOES_ON: Final = re.compile(r"[\w.+$<@%-]")

_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
_NUMBERS: Final[dict[str, Value]] = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_PYTHON: Final[dict[str, tuple[str, Value]]] = {
    "True": ("true", True),
    "False": ("false", False),
    "None": ("null", None),
}
_scan_string: Final[Any] = decoder.scanstring  # type: ignore[attr-defined]


class _Stop(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Template(Exception):
    """The text holds placeholders where JSON wants values."""


class _Frame:
    __slots__ = ("node", "seen", "start")

    def __init__(self, node: Mapping | Sequence, start: int) -> None:
        self.node = node
        self.start = start
        self.seen: dict[str, Entry] = {}


class _Reader:
    def __init__(self, file: SourceFile, *, comments_allowed: bool) -> None:
        self.file = file
        self.text = file.text
        self.comments_allowed = comments_allowed
        self.duplicates = 0
        self.yaml_readable = "\t" not in file.text

    # problems

    def report(self, code: str, message: str, start: int, end: int, *accepted_by: str) -> None:
        self.file.problems.append(Problem(code, message, Span(start, end), accepted_by=accepted_by))

    def lenient(self, *, also_yaml: bool) -> tuple[str, ...]:
        return (HJSON, PYYAML) if also_yaml and self.yaml_readable else (HJSON,)

    def stop(self, message: str, start: int, end: int | None = None, *related: tuple[Span, str]) -> _Stop:
        size = len(self.text)
        if end is None:
            bare = _BARE.match(self.text, start)
            end = min(bare.end() if bare else start + 1, start + 80)
        start = min(start, size)
        return _Stop(Problem(NOT_PARSED, message, Span(start, max(start, min(end, size))), fatal=True, related=related))

    # tokens

    def skip(self, at: int) -> int:
        """The next offset that is neither blank nor comment."""
        text = self.text
        while True:
            char = text[at : at + 1]
            if char in _BLANKS:  # true for the empty string too
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
                char = text[at : at + 1]
            if char == "#" or (char == "/" and text.startswith("//", at)):
                end = _LINE.match(text, at).end()  # type: ignore[union-attr]
            elif char == "/" and text.startswith("/*", at):
                close = text.find("*/", at + 2)
                if close < 0:
                    raise self.stop("a comment opened here is never closed", at, at + 2)
                end = close + 2
            else:
                return at
            self.comment(at, end)
            at = end

    def comment(self, start: int, end: int) -> None:
        written = self.text[start:end]
        content = written[2:-2] if written.startswith("/*") else written.lstrip("#/")
        self.file.comments.append(Comment(Span(start, end), content.strip()))

    def comments(self) -> None:
        """Report the comments once, at the first: a file with one has many."""
        comments = self.file.comments
        if self.comments_allowed or not comments:
            return
        span = comments[0].span
        hashes = all(self.text[c.span.start] == "#" for c in comments)
        more = f" ({len(comments)} in this file)" if len(comments) > 1 else ""
        accepted_by = self.lenient(also_yaml=hashes)
        self.report(JSON_COMMENT, f"JSON has no comments{more}", span.start, span.end, *accepted_by)

    def string(self, at: int) -> tuple[Scalar, int]:
        text = self.text
        try:
            value, end = _scan_string(text, at + 1, True)
        except ValueError as error:
            value, end = self.broken_string(at, error)
        return Scalar(Span(at, end), value, text[at:end], "double"), end

    def broken_string(self, at: int, error: ValueError) -> tuple[str, int]:
        text = self.text
        where = getattr(error, "pos", at)
        reason = str(getattr(error, "msg", error))
        if "Unterminated" in reason:
            raise self.stop("a quote opened here is never closed", at, _LINE.match(text, at).end())  # type: ignore[union-attr]
        if "control character" in reason:
            line_end = _LINE.match(text, at).end()  # type: ignore[union-attr]
            try:
                value, end = _scan_string(text, at + 1, False)
            except ValueError:
                raise self.stop("a quote opened here is never closed", at, line_end) from None
            if where >= line_end and end > line_end:
                # most likely the closing quote was forgotten: everything after it is shifted
                raise self.stop("a string runs over the end of its line", at, line_end)
            message = f"a control character U+{ord(text[where]):04X} inside a string must be written as an escape"
            self.report(NOT_PARSED, message, where, where + 1)
            return str(value), int(end)
        message = f"{text[where : where + 2]!r} is not an escape sequence of JSON"
        raise self.stop(message, where, where + 2)

    def single_quoted(self, at: int) -> tuple[Scalar, int] | None:
        found = _SINGLE.match(self.text, at)
        if found is None or self.text.startswith("'''", at):
            return None
        body = re.sub(r"\\.|\"", lambda m: {"\\'": "'", '"': '\\"'}.get(m.group(), m.group()), found.group(1))
        try:
            value = str(json.loads(f'"{body}"'))
        except ValueError:
            value = found.group(1)
        end = found.end()
        self.report(
            JSON_LENIENCY,
            "JSON strings take double quotes",
            at,
            end,
            *self.lenient(also_yaml="\\" not in found.group()),
        )
        return Scalar(Span(at, end), value, self.text[at:end], "single"), end

    def scalar(self, at: int) -> tuple[Scalar, int]:
        """A value that is no collection."""
        text = self.text
        char = text[at : at + 1]
        if char == '"':
            return self.string(at)
        if char == "-" or (char.isascii() and char.isdigit()):
            found = _NUMBER.match(text, at)
            if found and not _WORD_GOES_ON.match(text, found.end()):
                return self.number(at, found)
        if char == "'":
            single = self.single_quoted(at)
            if single is not None:
                return single
        bare = _BARE.match(text, at)
        word = bare.group() if bare else ""
        end = bare.end() if bare else at
        if word in _CONSTANTS:
            return Scalar(Span(at, end), _CONSTANTS[word], word), end
        if word in _NUMBERS:
            self.report(JSON_CONSTANT, f"{word} is not JSON", at, end, LOADS)
            return Scalar(Span(at, end), _NUMBERS[word], word), end
        if word in _PYTHON:
            written, value = _PYTHON[word]
            self.report(NOT_PARSED, f"{word} is Python: JSON writes {written}", at, end)
            return Scalar(Span(at, end), value, word), end
        if _PLACEHOLDER.match(text, at):
            raise _Template
        if not char:
            raise self.stop("the text ends where a value was expected", at)
        shown = word if word and len(word) <= 40 else (word[:37] + "..." if word else char)
        raise self.stop(f"expected a value, found {shown}", at, end if bare else at + 1)

    def number(self, at: int, found: re.Match[str]) -> tuple[Scalar, int]:
        end = found.end()
        raw = found.group()
        value: Value
        if found.group(2) or found.group(3):
            value = float(raw)
        else:
            try:
                value = int(raw)
            except ValueError:  # Python's limit on digits
                value = raw
                self.report(NOT_PARSED, f"a number of {len(raw):,} digits is more than Python converts", at, end)
        return Scalar(Span(at, end), value, raw), end

    def key(self, at: int) -> tuple[Scalar, int]:
        text = self.text
        char = text[at : at + 1]
        if char == '"':
            return self.string(at)
        if char == "'":
            single = self.single_quoted(at)
            if single is not None:
                return single
        bare = _BARE.match(text, at)
        if bare and _COLON.match(text, bare.end()):
            word, end = bare.group(), bare.end()
            self.report(JSON_LENIENCY, f"key {word} takes double quotes", at, end, HJSON)
            return Scalar(Span(at, end), word, word), end
        if _BLOCK.match(text, at):
            raise _Template
        raise self.stop("expected a key in double quotes", at)

    # structure

    def read(self, at: int) -> tuple[Node, int]:
        """One value from ``at`` on, with whatever it holds, and the offset after it."""
        text = self.text
        stack: list[_Frame] = []
        node: Node
        while True:
            # a value is due at `at`
            char = text[at : at + 1]
            opened: Mapping | Sequence | None = None
            if char == "{" and not text.startswith("{{", at) and not text.startswith("{%", at):
                opened = Mapping(Span(at, at))
            elif char == "[":
                opened = Sequence(Span(at, at))
            if opened is not None:
                if len(stack) >= MAX_DEPTH:
                    message = f"nested deeper than {MAX_DEPTH} levels"
                    raise _Stop(Problem(TOO_DEEP, message, Span(at, at + 1), fatal=True))
                stack.append(_Frame(opened, at))
                at = self.skip(at + 1)
                if not self.closes(text[at : at + 1], opened):
                    at = self.due(stack[-1], at)
                    continue
                at += 1
                node = self.finish(stack.pop(), at)
            else:
                node, at = self.scalar(at)
            # a value is complete: hand it up until a collection goes on
            while stack:
                frame = stack[-1]
                self.hand(frame, node)
                at, more = self.after(frame, at)
                if more:
                    at = self.due(frame, at)
                    break
                node = self.finish(stack.pop(), at)
            else:
                return node, at

    def closes(self, char: str, node: Mapping | Sequence) -> bool:
        return char == ("}" if isinstance(node, Mapping) else "]")

    def finish(self, frame: _Frame, end: int) -> Node:
        frame.node.span = Span(frame.start, end)
        return frame.node

    def hand(self, frame: _Frame, value: Node) -> None:
        if isinstance(frame.node, Sequence):
            frame.node.items.append(value)
        else:
            frame.node.entries[-1].value = value
            entry = frame.node.entries[-1]
            name = entry.name
            earlier = frame.seen.get(name)
            if earlier is not None:
                self.duplicate(earlier, entry)
            frame.seen[name] = entry

    def duplicate(self, earlier: Entry, later: Entry) -> None:
        if self.duplicates >= MAX_REPEATED:
            return
        self.duplicates += 1
        text = self.text
        first, second = earlier.value, later.value
        same = text[first.span.start : first.span.end] == text[second.span.start : second.span.end]
        effect = "with the same value" if same else "the last one wins and the first is lost"
        name = later.key.raw if len(later.key.raw) <= 60 else f"{later.key.raw[:57]}..."
        self.file.problems.append(
            Problem(
                DUPLICATE_KEY,
                f"key {name} stands twice in one object, {effect}",
                later.key.span,
                related=((earlier.key.span, "first here"),),
                accepted_by=(LOADS,),
            )
        )

    def due(self, frame: _Frame, at: int) -> int:
        """Before a value: in an object read its key and the colon."""
        if isinstance(frame.node, Sequence):
            return at
        if at >= len(self.text):
            raise self.unclosed(frame)
        key, at = self.key(at)
        at = self.skip(at)
        if self.text[at : at + 1] != ":":
            raise self.stop(f"expected ':' after the key {key.raw[:60]}", key.span.start, key.span.end)
        frame.node.entries.append(Entry(key, key))
        return self.skip(at + 1)

    def after(self, frame: _Frame, end: int) -> tuple[int, bool]:
        """After a value: the offset behind the closing bracket, or the start of the next member and True."""
        text = self.text
        at = self.skip(end)
        char = text[at : at + 1]
        if char == ",":
            comma = at
            at = self.skip(at + 1)
            if not self.closes(text[at : at + 1], frame.node):
                if at >= len(text):
                    raise self.unclosed(frame)
                return at, True
            if not self.comments_allowed:
                bracket = text[at]
                message = f"a comma stands before the closing {bracket}"
                self.report(TRAILING_COMMA, message, comma, comma + 1, *self.lenient(also_yaml=True))
            return at + 1, False
        if self.closes(char, frame.node):
            return at + 1, False
        if not char:
            raise self.unclosed(frame)
        if char == '"' or (char in "{[" and isinstance(frame.node, Sequence)):
            # hjson ends an unquoted value at a line end or comment only
            told = text[end - 1] in "\"'}]" or _VALUE_TOLD.match(text, end) is not None
            accepted_by = (HJSON,) if told else ()
            self.report(JSON_LENIENCY, "a comma is missing after this value", max(end - 1, 0), end, *accepted_by)
            return at, True
        if _BLOCK.match(text, at):
            raise _Template
        what = "'}'" if isinstance(frame.node, Mapping) else "']'"
        raise self.stop(f"expected ',' or {what}", at)

    def unclosed(self, frame: _Frame) -> _Stop:
        bracket = self.text[frame.start]
        end = len(self.text.rstrip())
        opened = (Span(frame.start, frame.start + 1), f"{bracket} opened here")
        return self.stop(f"the text ends before the {bracket} opened here is closed", max(end - 1, 0), end, opened)


def _is_json_lines(text: str) -> bool:
    """True where every line that is not blank is a JSON value of its own, and there are several."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    try:
        for line in lines:
            json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def parse_json(path: str, text: str, *, comments_allowed: bool | None = None) -> SourceFile:
    """Read JSON text. Never raises for what the text says.

    ``comments_allowed``: comments and trailing commas are part of the format (default: where the path says so, as for ``.jsonc``,
    ``.json5``, editor settings and ``tsconfig.json``).
    """
    if comments_allowed is None:
        comments_allowed = _JSONC_PATH.search(path) is not None
    file = SourceFile(path, text, "json")
    if text.startswith("\ufeff"):
        file.bom = True
        file.text = text = text[1:]
        message = "the file begins with a byte-order mark, which JSON readers refuse"
        file.problems.append(Problem(JSON_LENIENCY, message, Span(0, min(1, len(text)))))
    reader = _Reader(file, comments_allowed=comments_allowed)
    root: Node | None = None
    try:
        at = reader.skip(0)
        if at < len(text):
            root, end = reader.read(at)
            rest = reader.skip(end)
            if rest < len(text):
                if _is_json_lines(text):
                    file.skipped, root = "json-lines", None
                elif text[rest] in "}]":
                    raise reader.stop(f"a {text[rest]} too many", rest)
                else:
                    raise reader.stop("text after the end of the JSON value", rest)
        else:
            where = Span(0, min(len(text), 1))
            file.problems.append(Problem(NOT_PARSED, "the file holds no JSON value", where, fatal=True))
    except _Template:
        file.skipped, root = "template", None
    except _Stop as stop:
        # text after a first complete value leaves that value; anything else leaves no tree
        if _is_json_lines(text):
            file.skipped, root = "json-lines", None
        else:
            file.problems.append(stop.problem)
    reader.comments()
    if file.skipped is not None:
        file.problems.clear()
    file.problems.sort(key=lambda p: p.span.start)
    file.documents.append(Document(file, root, 0, Span(0, len(text))))
    return file
