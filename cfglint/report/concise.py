"""One line per finding: ``path:line:column: CODE severity message``, as editors and grep want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfglint.report import Options, summary
from cfglint.report.terminal import Paint, harmless

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult


def render(result: RunResult, options: Options) -> str:
    """Findings, then the summary unless ``quiet``."""
    paint = Paint(options.colour)
    lines = []
    for finding in result.shown:
        start = finding.primary.start if finding.primary else None
        line, column = (start.line, start.column) if start else (1, 1)
        place = f"{harmless(finding.reported_path)}:{line}:{column}"
        message = harmless(" ".join(finding.message.split()))
        lines.append(f"{paint('bold', place)}: {finding.code} {paint(finding.severity, finding.severity)} {message}")
    if options.show_files:
        from cfglint.report.text import _files

        lines += _files(list(result.files.values()))
    if options.statistics:
        lines += [f"{count} {code} {name}" for count, code, name, _ in summary.statistics(result)]
    if not options.quiet:
        lines.append(summary.sentence(result))
    return "".join(f"{line}\n" for line in lines)
