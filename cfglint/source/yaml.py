"""YAML text to nodes: the values PyYAML's ``safe_load`` gives, each with its place.

The tree is built from libyaml's event stream with a stack of its own, so that nesting costs no recursion, an alias is
the very node it names (an alias bomb stays as small as its text), and duplicate keys survive to be reported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from cfglint.source.node import (
    Comment,
    Document,
    Entry,
    Mapping,
    Node,
    Problem,
    Scalar,
    ScalarStyle,
    Sequence,
    SourceFile,
    Span,
    Value,
)
from cfglint.source.problems import DUPLICATE_KEY, MAX_DEPTH, MAX_REPEATED, NOT_PARSED, NOT_UTF8, TOO_DEEP
from cfglint.source.template import placeholder_near, template_marker

MAX_MERGED_ENTRIES: Final = 200_000
"""Entries that merge keys may add to one file, all mappings together: chains of ``<<`` grow with the square of the file."""

_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_STYLES: Final[dict[str | None, ScalarStyle]] = {
    None: "plain", "": "plain", "'": "single", '"': "double", "|": "literal", ">": "folded",
}  # fmt: skip
_PROPERTIES: Final = re.compile(r"(?:[&!][^\s]*(?:[ \t]+|\r?\n|\r|(?<=[ \t\r\n])#[^\r\n]*)*)+")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t\r\n\ufeff]))#[^\r\n]*")
_LINE_END: Final = re.compile(r"[\r\n]|$")

_constructor: Final = SafeConstructor()
_CONSTRUCTORS: Final[dict[str, Any]] = {
    name: getattr(SafeConstructor, f"construct_yaml_{name}")
    for name in ("null", "bool", "int", "float", "binary", "timestamp", "str")
}


class _Stop(Exception):
    """Reading ends here; the problem says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@lru_cache(maxsize=4096)
def _resolve(value: str) -> str:
    """The YAML 1.1 type PyYAML sees in a plain scalar: ``int``, ``bool``, ``str``, ``merge`` …"""
    resolvers = Resolver.yaml_implicit_resolvers.get(value[:1], ())
    for tag, pattern in resolvers:
        if pattern.match(value):
            return str(tag).removeprefix(_TAG_PREFIX)
    return "str"


@lru_cache(maxsize=4096)
def _construct(kind: str, value: str) -> tuple[Value, str | None]:
    """A scalar's value, and why PyYAML cannot make one (then the value is the text)."""
    if kind == "str" or kind not in _CONSTRUCTORS:
        return value, None
    try:
        made: Value = _CONSTRUCTORS[kind](_constructor, ScalarNode(f"{_TAG_PREFIX}{kind}", value))
    except ConstructorError as error:
        return value, str(error.problem)
    except (ValueError, OverflowError, KeyError, IndexError, AttributeError, TypeError) as error:
        return value, str(error) or type(error).__name__
    return made, None


def plain_value(text: str) -> Value:
    """What PyYAML reads where ``text`` stands as a plain (unquoted) scalar: ``1e-5`` is a string, ``on`` is True."""
    return _construct(_resolve(text), text)[0]


class _Frame:
    """A collection that is being read."""

    __slots__ = ("flow", "key", "last_end", "merge", "node", "seen")

    def __init__(self, node: Mapping | Sequence, flow: bool) -> None:
        self.node = node
        self.flow = flow
        self.key: Scalar | None = None
        self.merge = False
        self.last_end = node.span.start
        self.seen: dict[tuple[bool, Value], Entry] = {}


class _Reader:
    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.text = file.text
        self.literal: list[tuple[int, int]] = []
        self.scalars: list[tuple[int, int]] = []
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Frame] = []
        self.root: Node | None = None
        self.merged = 0
        self.duplicates = 0
        self.unhashable: list[Problem] = []

    def read(self) -> None:
        loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        loader = loader_class(self.text)
        try:
            started = 0
            while True:
                event = loader.get_event()
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    scalar = self.scalar(event)
                    self.attach(scalar, scalar.span.end)
                elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                    self.open(event, kind is yaml.MappingStartEvent)
                elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                    self.close(event)
                elif kind is yaml.AliasEvent:
                    self.alias(event)
                elif kind is yaml.DocumentStartEvent:
                    started = event.start_mark.index
                    self.anchors.clear()
                    self.root = None
                elif kind is yaml.DocumentEndEvent:
                    self.finish_document(started, event.end_mark.index)
                elif kind is yaml.StreamEndEvent:
                    return
        finally:
            loader.dispose()

    def finish_document(self, start: int, end: int) -> None:
        root = self.root
        if root is None or (isinstance(root, Scalar) and root.value is None and not root.raw):
            return
        documents = self.file.documents
        documents.append(Document(self.file, root, len(documents), Span(start, max(end, root.span.end))))

    def scalar(self, event: Any) -> Scalar:
        start, end = event.start_mark.index, event.end_mark.index
        text: str = event.value
        style = _STYLES.get(event.style, "plain")
        tag: str | None = event.tag
        if tag is not None or event.anchor is not None:
            properties = _PROPERTIES.match(self.text, start, end)
            if properties:
                start = properties.end()
        if style == "plain":
            if end > start:
                self.scalars.append((start, end))
        else:
            content = start
            if style == "literal" or style == "folded":
                end = start + len(self.text[start:end].rstrip("\r\n \t"))
                # the header line may hold a comment, the rest may not
                header = _LINE_END.search(self.text, start)
                content = min(header.start() if header else end, end)
            self.scalars.append((content, end))
            self.literal.append((content, end))
        span = Span(start, end)
        raw = self.text[start:end]
        if tag is None or tag == "!":
            # for safe_load a lone ! means: resolve as if plain; libyaml's binding sees it differently
            kind = _resolve(text) if event.implicit[0] or tag == "!" else "str"
            shown = tag
        elif tag.startswith(_TAG_PREFIX):
            kind = tag[len(_TAG_PREFIX) :]
            shown = f"!!{kind}"
        else:
            kind, shown = "str", tag
        value, fault = _construct(kind, text)
        if fault is not None:
            self.file.problems.append(_unreadable_scalar(kind, raw, fault, span))
        node = Scalar(span, value, raw, style, shown)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def open(self, event: Any, mapping: bool) -> None:
        if len(self.stack) >= MAX_DEPTH:
            at = event.start_mark.index
            raise _Stop(
                Problem(TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels", _to_line_end(self.text, at), fatal=True)
            )
        start = event.start_mark.index
        tag: str | None = event.tag
        if tag is not None or event.anchor is not None:
            properties = _PROPERTIES.match(self.text, start)
            if properties:
                start = properties.end()
            if tag is not None and tag.startswith(_TAG_PREFIX):
                tag = f"!!{tag[len(_TAG_PREFIX) :]}"
        span = Span(start, start)
        node: Mapping | Sequence = Mapping(span, tag=tag) if mapping else Sequence(span, tag=tag)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.stack.append(_Frame(node, bool(event.flow_style)))

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        # a block collection's end mark lies beyond the blank lines and comments that follow it
        end = event.end_mark.index if frame.flow else frame.last_end
        frame.node.span = Span(frame.node.span.start, max(end, frame.node.span.start))
        self.attach(frame.node, end)

    def alias(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        target = self.anchors.get(event.anchor)
        if target is None:
            message = f"alias *{event.anchor} names no anchor above it"
            raise _Stop(Problem(NOT_PARSED, message, Span(start, end), fatal=True))
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.node, Mapping) and frame.key is None and isinstance(target, Scalar):
            target = Scalar(Span(start, end), target.value, target.raw, target.style, target.tag)
        self.attach(target, end)

    def attach(self, node: Node, end: int) -> None:
        """Put a finished node into the collection being read."""
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        frame.last_end = max(frame.last_end, end)
        target = frame.node
        if isinstance(target, Sequence):
            target.items.append(node)
        elif frame.key is None:
            frame.key = self.key(node, end)
            frame.merge = isinstance(node, Scalar) and node.raw == "<<" and node.style == "plain" and node.tag is None
        elif frame.merge:
            self.merge(target, frame.key, node)
            frame.key = None
        else:
            self.entry(frame, target, Entry(frame.key, node))
            frame.key = None

    def key(self, node: Node, end: int) -> Scalar:
        if isinstance(node, Scalar):
            return node
        # Python readers need a hashable key: a mapping or list here is usually an unquoted {{ placeholder }}
        span = Span(node.span.start, max(node.span.end, end, node.span.start))
        raw = self.text[span.start : span.end]
        what = "mapping" if isinstance(node, Mapping) else "list"
        self.unhashable.append(Problem(NOT_PARSED, f"a {what} stands as a key, which Python readers refuse", span))
        return Scalar(span, raw, raw)

    def entry(self, frame: _Frame, mapping: Mapping, entry: Entry) -> None:
        mapping.entries.append(entry)
        value = entry.key.value
        # 1 and True are one dict key in Python, "1" is another
        identity = (isinstance(value, str), value)
        earlier = frame.seen.get(identity)
        if earlier is not None and self.duplicates < MAX_REPEATED:
            self.duplicates += 1
            self.file.problems.append(_duplicate(self.text, earlier, entry, ("yaml.safe_load",)))
        frame.seen[identity] = entry

    def merge(self, mapping: Mapping, key: Scalar, value: Node) -> None:
        sources = value.items if isinstance(value, Sequence) else [value]
        if not all(isinstance(source, Mapping) for source in sources):
            message = "a merge key << takes a mapping or a list of mappings"
            self.file.problems.append(Problem(NOT_PARSED, message, key.span))
            return
        gathered: dict[str, Entry] = {}
        for source in reversed(sources):  # the first in the list wins
            if isinstance(source, Mapping) and source is not mapping:
                gathered.update(_entries(source))
        self.merged += len(gathered)
        if self.merged > MAX_MERGED_ENTRIES:
            message = f"merge keys add more than {MAX_MERGED_ENTRIES:,} entries"
            raise _Stop(Problem(TOO_DEEP, message, key.span, fatal=True))
        mapping.entries.extend(Entry(e.key, e.value, merged=True) for e in gathered.values())


def _entries(mapping: Mapping) -> dict[str, Entry]:
    """Like ``Mapping.index``, which must not be cached while the mapping may still grow."""
    found = {e.name: e for e in mapping.entries if e.merged}
    found.update({e.name: e for e in mapping.entries if not e.merged})
    return found


def _duplicate(text: str, earlier: Entry, later: Entry, accepted_by: tuple[str, ...]) -> Problem:
    name = later.key.raw if len(later.key.raw) <= 60 else f"{later.key.raw[:57]}..."
    first, second = earlier.value, later.value
    if isinstance(first, Scalar) and isinstance(second, Scalar):
        same = first.value == second.value and type(first.value) is type(second.value)
    else:
        same = first is second or text[first.span.start : first.span.end] == text[second.span.start : second.span.end]
    effect = "with the same value" if same else "the last one wins and the first is lost"
    message = f"key {name} stands twice in one mapping, {effect}"
    return Problem(
        DUPLICATE_KEY, message, later.key.span, related=((earlier.key.span, "first here"),), accepted_by=accepted_by
    )


def _unreadable_scalar(kind: str, raw: str, fault: str, span: Span) -> Problem:
    shown = raw if len(raw) <= 40 else f"{raw[:37]}..."
    message = f"PyYAML reads {shown} as {kind} and fails: {fault.partition(';')[0]}; quote it if it is text"
    # OmegaConf and Go readers do not read timestamps or huge integers this way
    return Problem(NOT_PARSED, message, span, accepted_by=("OmegaConf",) if kind == "timestamp" else ())


def _to_line_end(text: str, at: int) -> Span:
    """From ``at`` to the end of its line; for a place at a line's end or beyond the text, the last word before it."""
    at = min(max(at, 0), len(text))
    end = _LINE_END.search(text, at)
    stop = at + len(text[at : end.start() if end else len(text)].rstrip())
    if stop > at:
        return Span(at, stop)
    start = at
    while start > 0 and text[start - 1].isspace():
        start -= 1
    stop = start
    while start > 0 and not text[start - 1].isspace() and stop - start < 200:
        start -= 1
    return Span(start, stop) if stop > start else Span(at, min(at + 1, len(text)))


def _parse_error(text: str, error: yaml.MarkedYAMLError) -> Problem:
    """PyYAML's message in words that say where the fault is rather than where the scanner noticed it."""
    problem = str(error.problem or error.context or "not YAML")
    at = error.problem_mark.index if error.problem_mark is not None else 0
    if "nesting depth" in problem:
        return Problem(TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels", _to_line_end(text, at), fatal=True)
    began = error.context_mark.index if error.context_mark is not None else None
    related: tuple[tuple[Span, str], ...] = ()
    line_start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    lead = text[line_start:at]
    if text[at : at + 1] == "\t" or ("\t" in lead and not lead.strip()):
        tab = text.index("\t", line_start)
        after = tab + len(text[tab:]) - len(text[tab:].lstrip("\t"))
        return Problem(NOT_PARSED, "a tab indents this line: YAML takes only spaces", Span(tab, after), fatal=True)
    if began is not None and "could not find expected ':'" in problem:
        message = "this line is neither a key nor part of the value above: no ':' follows"
        return Problem(NOT_PARSED, message, _to_line_end(text, began), fatal=True)
    if began is not None and "unexpected end of stream" in problem:
        message = "a quote opened here is never closed"
        return Problem(NOT_PARSED, message, _to_line_end(text, began), fatal=True)
    if "mapping values are not allowed" in problem:
        message = (
            "a second ':' in an unquoted value, or a key indented under a value: quote the value or indent it right"
        )
    elif "cannot start any token" in problem:
        message = f"an unquoted value cannot begin with {text[at : at + 1]!r}: quote it"
    elif "did not find expected key" in problem:
        message = "a key was expected here: wrong indentation, or text after a finished value"
    elif "did not find expected '-' indicator" in problem:
        message = "a list item '-' was expected here: wrong indentation, or text after the list"
    elif "did not find expected ',' or" in problem:
        message = f"{problem.removeprefix('did not find ')} not found: a bracket opened before is not closed"
    else:
        message = problem
    if began is not None and error.context and began < at:
        related = ((_to_line_end(text, began), str(error.context)),)
    return Problem(NOT_PARSED, message, _to_line_end(text, at), fatal=True, related=related)


def _reader_error(text: str, error: yaml.reader.ReaderError) -> Problem:
    position = int(error.position)
    if hasattr(yaml, "CSafeLoader"):  # libyaml counts bytes
        position = len(text.encode("utf-8", "replace")[:position].decode("utf-8", "ignore"))
    char = text[position : position + 1]
    shown = f"U+{ord(char):04X}" if char else "it"
    message = f"the character {shown} is not allowed in YAML: {error.reason}"
    return Problem(NOT_PARSED, message, Span(position, min(position + 1, len(text))), fatal=True)


def _comments(text: str, scalars: list[tuple[int, int]]) -> list[Comment]:
    if "#" not in text:
        return []
    starts = [start for start, _ in scalars]
    found = []
    for match in _COMMENT.finditer(text):
        at = match.start()
        i = bisect_right(starts, at) - 1
        if i >= 0 and at < scalars[i][1]:
            continue
        found.append(Comment(Span(at, match.end()), match.group().lstrip("#").strip()))
    return found


def parse_yaml(path: str, text: str) -> SourceFile:
    """Read YAML text. Never raises for what the text says: faults become problems of the file.

    An empty file has one document without a root; empty documents of a longer stream are left out.
    """
    file = SourceFile(path, text, "yaml")
    reader = _Reader(file)
    fault: Problem | None = None
    try:
        reader.read()
    except _Stop as stop:
        fault = stop.problem
    except yaml.MarkedYAMLError as error:
        fault = _parse_error(text, error)
    except yaml.reader.ReaderError as error:
        fault = _reader_error(text, error)
    except UnicodeEncodeError as error:
        fault = Problem(NOT_UTF8, "a lone surrogate is not text", Span(error.start, error.start + 1), fatal=True)
    template = (fault is not None or reader.unhashable) and template_marker(text, sorted(reader.literal)) is not None
    if template or (fault is not None and placeholder_near(text, fault.span.start)):
        file.skipped = "template"
        file.documents.clear()
        file.problems.clear()
    else:
        file.problems.extend(reader.unhashable)
        if fault is not None:
            file.problems.append(fault)
        file.problems.sort(key=lambda p: p.span.start)
    file.comments = _comments(text, reader.scalars)
    if not file.documents:
        file.documents.append(Document(file, None, 0, Span(0, len(text))))
    return file
