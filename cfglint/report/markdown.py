"""``--format markdown``: a table for a pull request's comment or a job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cfglint.lint.finding import Finding
from cfglint.lint.links import is_address
from cfglint.report import Options, summary
from cfglint.report.terminal import harmless

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

MOST_ROWS: Final = 200
"""Rows shown; a GitHub comment holds 65,536 characters."""


def render(result: RunResult, options: Options) -> str:
    """A heading with the summary, then a row per finding, errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    findings = sorted(result.shown, key=lambda f: order[f.severity])
    lines = [] if options.quiet else [f"**cfglint**: {summary.sentence(result)}", ""]
    if findings:
        lines += ["| | rule | where | what |", "| --- | --- | --- | --- |"]
        lines += [_row(finding) for finding in findings[:MOST_ROWS]]
        lines.append("")
    if len(findings) > MOST_ROWS:
        lines += [f"{len(findings) - MOST_ROWS} more are not shown.", ""]
    silenced = summary.silenced(result)
    if silenced and not options.quiet:
        lines += [silenced, ""]
    if options.statistics and findings:
        lines += ["| count | rule | name |", "| ---: | --- | --- |"]
        lines += [f"| {count} | {code} | {name} |" for count, code, name, _ in summary.statistics(result)]
        lines.append("")
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    place = finding.reported_path + (f":{finding.primary.start.line}" if finding.primary else "")
    rule = f"[{finding.code}]({finding.url})" if is_address(finding.url) else finding.code
    what = cell(finding.message) + (f"<br>help: {cell(finding.help)}" if finding.help else "")
    return f"| {finding.severity} | {rule} | `{cell(place).replace('`', '')}` | {what} |"


def cell(text: str) -> str:
    """Text for a cell of a table: on one line, what Markdown and HTML would take as their own written out."""
    shown = harmless(" ".join(text.split()))
    for character, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("`", "\\`"), ("*", "\\*")):
        shown = shown.replace(character, written)
    return shown
