"""``--format junit``: each file with a configuration is a test case; a finding is its failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from cfglint.lint.finding import Finding
from cfglint.report import Options

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def render(result: RunResult, options: Options) -> str:
    """The report. Errors and warnings are failures, information is output of the test case."""
    by_path: dict[str, list[Finding]] = {path: [] for path, report in result.files.items() if report.dialects}
    for finding in result.shown:
        by_path.setdefault(finding.reported_path, []).append(finding)
    failures = sum(f.severity != "info" for f in result.shown)
    cases = [line for path, findings in by_path.items() for line in _case(path, findings)]
    head = f'name="cfglint" tests="{len(by_path)}" failures="{failures}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {head}>",
        f"  <testsuite {head}>",
        *cases,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(path: str, findings: list[Finding]) -> list[str]:
    head = f"    <testcase name={_attribute(path)} classname={_attribute('cfglint')} file={_attribute(path)}"
    if not findings:
        return [f"{head}/>"]
    lines = [f"{head}>"]
    informations = [_line(f) for f in findings if f.severity == "info"]
    for finding in findings:
        if finding.severity != "info":
            kind = f"{finding.severity} {finding.code} {finding.name}"
            body = _text(_line(finding) + (f"\nhelp: {finding.help}" if finding.help else ""))
            lines.append(
                f"      <failure type={_attribute(kind)} message={_attribute(finding.message)}>{body}</failure>"
            )
    if informations:
        lines.append(f"      <system-out>{_text(chr(10).join(informations))}</system-out>")
    return [*lines, "    </testcase>"]


def _line(finding: Finding) -> str:
    start = finding.primary.start if finding.primary else None
    place = f"{start.line}:{start.column}" if start else "1:1"
    return f"{finding.reported_path}:{place}: {finding.code} {finding.severity} {finding.message}"


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("�", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("�", text))
