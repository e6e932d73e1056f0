"""Findings as the diagnostics of the language server protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lsprotocol.types import (
    CodeDescription,
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    DiagnosticTag,
    Location,
    Position,
    Range,
)

from cfglint.editor.positions import BYTE_ORDER_MARK, Positions
from cfglint.editor.project import Analysis
from cfglint.lint.finding import Finding, Place
from cfglint.lint.links import is_address
from cfglint.source.node import SourceFile, Span

SOURCE: Final = "cfglint"
SETTINGS_PROBLEM: Final = "settings"
"""Code of the diagnostic that says why a project's settings or plugins cannot be used."""

_SEVERITIES: Final[Mapping[str, DiagnosticSeverity]] = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "info": DiagnosticSeverity.Information,
}
_TAGGED_WORDS: Final[Mapping[str, DiagnosticTag]] = {
    "unused": DiagnosticTag.Unnecessary,
    "deprecated": DiagnosticTag.Deprecated,
    "removed": DiagnosticTag.Deprecated,
    "renamed": DiagnosticTag.Deprecated,
}
"""Words of a rule's name that say what editors fade or strike through."""


@dataclass
class View:
    """How one client sees an analysis: its position encoding, what it can show, the URIs of what it has open."""

    analysis: Analysis
    encoding: str = "utf-16"
    uris: Mapping[str, str] = field(default_factory=dict)
    """Path from the root to the URI the client uses, for its open files."""
    related: bool = True
    tags: bool = True
    _positions: dict[str, Positions] = field(default_factory=dict, repr=False)

    def positions(self, file: SourceFile) -> Positions:
        """Positions in a file, as the client's own text of it has them."""
        known = self._positions.get(file.path)
        if known is None:
            mark = self.analysis.buffers.get(file.path, "").startswith(BYTE_ORDER_MARK)
            known = self._positions[file.path] = Positions(file.text, self.encoding, mark)
        return known

    def uri(self, path: str) -> str:
        """The URI of a finding's path."""
        return self.uris.get(path) or Path(os.path.abspath(os.path.join(self.analysis.root, path))).as_uri()

    def range(self, file: SourceFile, span: Span) -> Range:
        """A span's range, widened to what can be seen where it is empty."""
        return self.positions(file).range(visible(file.text, span))

    def location(self, place: Place) -> Location:
        """Where a place is."""
        return Location(self.uri(place.path), self.range(place.document.file, place.span))


def diagnostics(view: View, path: str) -> list[Diagnostic]:
    """The diagnostics of one file; for settings that cannot be used, one that says so."""
    shown = [diagnostic(view, finding) for finding in view.analysis.findings(path)]
    if view.analysis.problem:
        message = f"not checked: the settings cannot be used\n{view.analysis.problem}"
        top = Range(Position(0, 0), Position(0, 0))
        shown.insert(0, Diagnostic(top, message, DiagnosticSeverity.Error, SETTINGS_PROBLEM, source=SOURCE))
    return shown


def diagnostic(view: View, finding: Finding) -> Diagnostic:
    """One finding: message with help and notes, place, related places, tags and the rule's page."""
    primary = finding.primary
    place = view.range(primary.document.file, primary.span) if primary else Range(Position(0, 0), Position(0, 0))
    related = [
        DiagnosticRelatedInformation(view.location(other), other.label or other.document.name)
        for other in finding.places[1:]
    ]
    if related and primary is not None and primary.label:
        related.insert(0, DiagnosticRelatedInformation(view.location(primary), primary.label))
    return Diagnostic(
        range=place,
        message=message_of(finding),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=CodeDescription(finding.url) if is_address(finding.url) else None,
        source=SOURCE,
        tags=tags_of(finding) or None if view.tags else None,
        related_information=related or None if view.related else None,
    )


def message_of(finding: Finding) -> str:
    """The message, with its notes and what to do on lines of their own."""
    notes = [f"note: {note}" for note in finding.notes]
    help = [f"help: {finding.help}"] if finding.help else []
    return "\n".join((finding.message, *notes, *help))


def tags_of(finding: Finding) -> list[DiagnosticTag]:
    """What editors fade (unused) or strike through (deprecated, removed), by the words of the rule's name."""
    return list(dict.fromkeys(_TAGGED_WORDS[word] for word in finding.name.split("-") if word in _TAGGED_WORDS))


_WORD: Final = re.compile(r"\w+|\S")


def visible(text: str, span: Span) -> Span:
    """The span, or where it is empty the word it stands at, or the character before it."""
    if span.end > span.start:
        return span
    word = _WORD.match(text, span.start)
    if word is not None:
        return Span(word.start(), word.end())
    before = span.start - 1
    return Span(before, span.start) if before >= 0 and text[before] not in "\r\n" else span
