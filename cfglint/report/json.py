"""``--format json``: the form of CONTRACT.md, version 1. Keys are added over time, never renamed or removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from cfglint import __version__
from cfglint.lint.finding import Finding, Fix
from cfglint.report import Options, summary
from cfglint.source.node import Document, Position, Span

if TYPE_CHECKING:
    from cfglint.dialects.recognise import FileReport
    from cfglint.lint.engine import RunResult

VERSION: Final = 1
TOP: Final = Position(1, 1)
"""Where a finding without a place is shown."""


def render(result: RunResult, options: Options) -> str:
    """The whole result as one JSON document."""
    content: dict[str, Any] = {
        "version": VERSION,
        "tool": {"name": "cfglint", "version": __version__},
        "findings": [finding_as_json(finding) for finding in result.shown],
    }
    if options.show_files:
        content["files"] = [_file(report) for report in result.files.values()]
    content["summary"] = summary.counts(result)
    if options.statistics:
        content["statistics"] = [
            {"code": code, "name": name, "severity": level, "count": count}
            for count, code, name, level in summary.statistics(result)
        ]
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def finding_as_json(finding: Finding) -> dict[str, Any]:
    """One finding. Lines and columns are 1-based and count Unicode characters; ``end`` is exclusive."""
    primary = finding.primary
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "message": finding.message,
        "path": finding.reported_path,
        "start": position(primary.start if primary else TOP),
        "end": position(primary.end if primary else TOP),
        "key": finding.key,
        "related": [
            {"path": p.path, "start": position(p.start), "end": position(p.end), "message": p.label}
            for p in finding.places[1:]
        ],
        "label": primary.label if primary else "",
        "help": finding.help,
        "notes": list(finding.notes),
        "fixes": [_fix(fix) for fix in finding.fixes],
        "job": finding.job,
        "data": finding.data,
        "fingerprint": finding.fingerprint,
        "url": finding.url,
    }


def position(place: Position) -> dict[str, int]:
    return {"line": place.line, "column": place.column}


def span(document: Document, place: Span) -> dict[str, dict[str, int]]:
    file = document.file
    return {"start": position(file.position(place.start)), "end": position(file.position(place.end))}


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{"path": e.document.path, **span(e.document, e.span), "text": e.text} for e in fix.edits]
    return {"title": fix.title, "safe": fix.safe, "edits": edits}


def _file(report: FileReport) -> dict[str, Any]:
    return {
        "path": report.path,
        "format": report.format,
        "dialects": list(report.dialects),
        "carrier": report.carrier,
        "skipped": report.skipped,
        "why": report.why,
    }
