"""``--format sarif``: SARIF 2.1.0 (OASIS standard, with errata 01), for code scanning."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from cfglint import __version__
from cfglint.lint.finding import Finding, Fix, Place
from cfglint.lint.links import HOME, is_address, rule_page
from cfglint.lint.rule import Rule
from cfglint.report import Options
from cfglint.source.node import Document, Span

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL: Final = {"error": "error", "warning": "warning", "info": "note"}
PRECISION: Final = {"high": "high", "medium": "medium", "low": "low"}
FINGERPRINT: Final = "cfglint/v1"


def render(result: RunResult, options: Options) -> str:
    """One run with all findings, the silenced ones as suppressions."""
    codes = sorted({finding.code for finding in result.findings})
    index = {code: i for i, code in enumerate(codes)}
    names = {finding.code: finding.name for finding in result.findings}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "cfglint",
                "version": __version__,
                "semanticVersion": __version__,
                **({"informationUri": HOME} if HOME else {}),
                "rules": [_rule(code, names[code], result.rules.get(code)) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(result)],
        "results": [_result(finding, index[finding.code]) for finding in result.findings],
    }
    content = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def _rule(code: str, name: str, rule: type[Rule] | None) -> dict[str, Any]:
    descriptor: dict[str, Any] = {"id": code, "name": _pascal(name)}
    if rule is None:
        return descriptor
    descriptor["shortDescription"] = {"text": f"{rule.summary()}."}
    explanation = rule.explanation()
    descriptor["fullDescription"] = {"text": explanation or f"{rule.summary()}."}
    descriptor["help"] = {"text": explanation or f"{rule.summary()}.", "markdown": _help(rule)}
    if is_address(rule_page(code)):
        descriptor["helpUri"] = rule_page(code)
    descriptor["defaultConfiguration"] = {"level": LEVEL[rule.severity]}
    tags = [tag for tag in (rule.family, *rule.kinds) if tag]
    descriptor["properties"] = {"precision": PRECISION[rule.confidence], "tags": tags}
    return descriptor


def _help(rule: type[Rule]) -> str:
    links = "\n".join(f"- {link}" for link in rule.evidence)
    return f"**{rule.summary()}.**\n\n{rule.explanation()}" + (f"\n\n{links}" if links else "")


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _invocation(result: RunResult) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": not result.faults}
    if result.faults:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "error",
                "message": {"text": f"rule {fault.code} failed: {fault.error}"},
                "locations": [{"physicalLocation": {"artifactLocation": _artifact(fault.path)}}],
            }
            for fault in result.faults
        ]
    return invocation


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = finding.message + (f"\nhelp: {finding.help}" if finding.help else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVEL[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding.primary, finding.reported_path)],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {"confidence": finding.confidence, "job": finding.job, "key": finding.key, "data": finding.data},
    }
    related = [
        {"id": i, **_location(place, place.path), "message": {"text": place.label or "see also"}}
        for i, place in enumerate(finding.places[1:], 1)
    ]
    if related:
        result["relatedLocations"] = related
    if finding.fixes:
        result["fixes"] = [_fix(fix) for fix in finding.fixes if fix.edits]
    if finding.suppressed is not None:
        kind = "inSource" if finding.suppressed == "comment" else "external"
        suppression = {"kind": kind, "status": "accepted"}
        if finding.justification:
            suppression["justification"] = finding.justification
        result["suppressions"] = [suppression]
    return result


def _location(place: Place | None, path: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(path)}
    physical["region"] = {"startLine": 1} if place is None else _region(place.document, place.span)
    return {"physicalLocation": physical}


def _region(document: Document, span: Span) -> dict[str, int]:
    start, end = document.file.position(span.start), document.file.position(span.end)
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }


def _artifact(path: str) -> dict[str, str]:
    if PurePosixPath(path).is_absolute():
        return {"uri": f"file://{quote(path)}"}
    return {"uri": quote(path or "unknown")}


def _fix(fix: Fix) -> dict[str, Any]:
    by_path: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        replacement: dict[str, Any] = {"deletedRegion": _region(edit.document, edit.span)}
        if edit.text:
            replacement["insertedContent"] = {"text": edit.text}
        by_path.setdefault(edit.document.path, []).append(replacement)
    changes = [{"artifactLocation": _artifact(path), "replacements": made} for path, made in by_path.items()]
    return {"description": {"text": fix.title}, "artifactChanges": changes}
