"""What a check found: code, severity, confidence, labelled places, tip, fixes.

Severity is what happens, confidence is how sure we are, persona is who wants to hear of it: three separate axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cfglint.jobs.facts import Fact, FileOrigin, Origin, Reading
from cfglint.source.node import Document, Position, Route, Span

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]
Persona = Literal["default", "strict"]

SEVERITY_ORDER: Mapping[str, int] = {"error": 3, "warning": 2, "info": 1}


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A spot in a document with what it has to do with the finding. ``span`` covers key and value unless said otherwise."""

    document: Document
    span: Span
    route: Route = ()
    label: str = ""

    @property
    def path(self) -> str:
        return self.document.path

    @property
    def start(self) -> Position:
        return self.document.file.position(self.span.start)

    @property
    def end(self) -> Position:
        return self.document.file.position(self.span.end)


Where = Place | Fact[Any] | Origin | Reading | None


def place(where: Where, label: str = "") -> Place | None:
    """The place of a fact, an origin or a reading; None where it is in no file (a default, a flag, the catalogue)."""
    if where is None:
        return None
    if isinstance(where, Place):
        return Place(where.document, where.span, where.route, label or where.label)
    if isinstance(where, Reading):
        where = where.origin()
        start = where.key_span.start
        line_end = where.document.file.text.find("\n", start)
        end = line_end if line_end >= 0 else len(where.document.file.text)
        return Place(where.document, Span(start, max(start, min(end, where.value_span.end))), where.route, label)
    origin = where.origin if isinstance(where, Fact) else where
    if not isinstance(origin, FileOrigin):
        return None
    span = Span(min(origin.key_span.start, origin.value_span.start), max(origin.key_span.end, origin.value_span.end))
    file = origin.document.file
    first_line_end = file.text.find("\n", span.start)
    if first_line_end >= 0 and first_line_end < span.end and origin.value_span.start > first_line_end:
        # a mapping or list under its key: underline the key, not the whole block
        span = origin.key_span
    return Place(origin.document, span, origin.route, label)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What an edit means to do to the tree, checked before a file is written. Made by :mod:`cfglint.lint.fixes`.

    ``route`` is the key concerned, from the document's root; ``key`` the new name (rename) or the new key (insert, put
    beside ``route``); ``value_text`` the new value as the format writes it.
    """

    kind: Literal["replace", "rename", "remove", "insert"]
    route: Route
    key: str = ""
    value_text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """Replace ``span`` of the document's text by ``text``. Without ``change`` the tree must stay as it is."""

    document: Document
    span: Span
    text: str
    change: Change | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """``safe``: the job keeps its meaning. Anything else is opt-in."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


@dataclass(slots=True, eq=False)
class Finding:
    """``places[0]`` is the primary place. ``help`` says what to do; ``data`` holds the numbers for machines."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    places: tuple[Place, ...]
    help: str = ""
    notes: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    job: str | None = None
    url: str = ""
    persona: Persona = "default"
    path: str = ""
    """Where the finding is reported when it has no place (an unreadable file)."""
    suppressed: str | None = None
    """How it was silenced (``comment``, ``baseline``, ``settings``), or None."""
    justification: str = ""
    """The reason given where it was silenced."""

    @property
    def primary(self) -> Place | None:
        return self.places[0] if self.places else None

    @property
    def reported_path(self) -> str:
        return self.places[0].path if self.places else self.path

    @property
    def key(self) -> str:
        """The primary place's route as text: ``zero_optimization.stage``."""
        return route_text(self.places[0].route) if self.places else ""

    @property
    def fingerprint(self) -> str:
        """Stable over edits elsewhere in the file: code, path, key and the numbers of the message; no line number."""
        from hashlib import sha256

        material = "\0".join((self.code, self.reported_path, self.key, self.message))
        return sha256(material.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def route_text(route: Route) -> str:
    """``("a", 0, "b")`` as ``a[0].b``."""
    text = ""
    for step in route:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
    return text
