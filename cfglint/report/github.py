"""``--format github``: workflow commands that GitHub turns into annotations on the pull request."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from cfglint.lint.finding import Finding
from cfglint.report import Options, summary
from cfglint.report.terminal import harmless

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

COMMAND: Final = {"error": "error", "warning": "warning", "info": "notice"}
SHOWN_PER_STEP: Final = 10
"""Annotations of one kind that GitHub shows per step (GitHub documentation, "Workflow commands", 2025)."""


def render(result: RunResult, options: Options) -> str:
    """One command per finding; where GitHub will not show all of a kind, a line in the log says so."""
    lines = [_command(finding) for finding in result.shown]
    number = Counter(finding.severity for finding in result.shown)
    for level, count in number.items():
        if count > SHOWN_PER_STEP and not options.quiet:
            lines.append(f"{count} {level} findings; GitHub annotates {SHOWN_PER_STEP} per step, the log holds all")
    if not options.quiet:
        lines.append(summary.sentence(result))
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    properties = {"file": finding.reported_path}
    primary = finding.primary
    if primary is not None:
        start, end = primary.start, primary.end
        properties |= {"line": str(start.line), "endLine": str(end.line)}
        if start.line == end.line:
            # GitHub refuses columns for a range of several lines
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    properties["title"] = f"{finding.code} {finding.name}"
    stated = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = finding.message + (f"\nhelp: {finding.help}" if finding.help else "")
    return f"::{COMMAND[finding.severity]} {stated}::{_data(message)}"


def _data(text: str) -> str:
    text = "\n".join(harmless(line) for line in text.splitlines())
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
