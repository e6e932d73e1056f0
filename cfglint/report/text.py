"""The report for people: each finding with an excerpt in which every place it speaks of is marked and labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cfglint.lint.finding import Finding, Place
from cfglint.report import Options, summary
from cfglint.report.terminal import Paint, columns, harmless
from cfglint.source.node import SourceFile

if TYPE_CHECKING:
    from cfglint.dialects.recognise import FileReport
    from cfglint.lint.engine import RunResult

TAB: Final = " "
"""A tab is shown as one blank, so that marks stand below what they mark."""


def render(result: RunResult, options: Options) -> str:
    """Findings with excerpts, then the summary."""
    paint = Paint(options.colour)
    parts = [_finding(finding, options, paint) for finding in result.shown]
    tail = _tail(result, options, paint)
    return "\n".join([*parts, *(["\n".join(tail) + "\n"] if tail else [])])


def _tail(result: RunResult, options: Options, paint: Paint) -> list[str]:
    lines = []
    if options.show_files:
        lines += [*_files(list(result.files.values())), ""]
    if options.statistics:
        table = summary.statistics(result)
        lines += [f"{count:>5}  {code:<8} {paint(level, level):<7} {name}" for count, code, name, level in table]
        lines += [""] if table else []
    if options.quiet:
        return lines[:-1]
    if options.fixed:
        lines.append(
            f"{summary.plural(options.fixed, 'fix') if options.fixed == 1 else f'{options.fixed} fixes'} applied"
        )
    lines.append(paint("bold", summary.sentence(result)))
    silenced = summary.silenced(result)
    if silenced:
        lines.append(silenced)
    safe, unsafe = summary.fixable(result)
    if safe:
        lines.append(f"{safe} can be fixed with --fix" + (f", {unsafe} more with --unsafe-fixes" if unsafe else ""))
    elif unsafe:
        lines.append(f"{unsafe} can be fixed with --fix --unsafe-fixes")
    return lines


def _files(reports: list[FileReport]) -> list[str]:
    width = max((columns(report.path) for report in reports), default=0)
    lines = []
    for report in reports:
        if report.skipped:
            what = f"skipped: {report.skipped}"
        elif report.dialects:
            what = ", ".join(report.dialects) + (f" in {report.carrier}" if report.carrier else "")
            what += f"  ({report.why})" if report.why else ""
        else:
            what = "not recognised"
        lines.append(f"{harmless(report.path)}{' ' * (width - columns(report.path))}  {harmless(what)}")
    return lines


def _finding(finding: Finding, options: Options, paint: Paint) -> str:
    head = paint(finding.severity, f"{finding.severity}[{finding.code}]")
    lines = [f"{head}{paint('bold', ': ' + harmless(finding.message))}"]
    files = _by_file(finding.places)
    gutter = max((len(str(place.start.line)) for place in finding.places), default=1)
    if not files:
        lines.append(f"{' ' * gutter}{paint('gutter', '-->')} {harmless(finding.path)}")
    for i, (file, places) in enumerate(files):
        arrow = "-->" if i == 0 else ":::"
        first = places[0].start
        lines.append(f"{' ' * gutter}{paint('gutter', arrow)} {harmless(file.path)}:{first.line}:{first.column}")
        if file.text:
            lines += _excerpt(file, places, finding.places[0], gutter, options, paint, finding.severity)
    bar = f"{' ' * gutter} {paint('gutter', '=')} "
    notes = list(finding.notes)
    if finding.job and finding.job.split("#")[0] != finding.reported_path:
        notes.append(f"in job {finding.job}")
    if finding.confidence != "high":
        notes.append(f"confidence: {finding.confidence}")
    lines += [bar + paint("bold", "note: ") + _indented(note, gutter + 9) for note in notes]
    if finding.help:
        lines.append(bar + paint("help", "help: ") + _indented(finding.help, gutter + 9))
    return "\n".join(lines) + "\n"


def _indented(text: str, by: int) -> str:
    return ("\n" + " " * by).join(harmless(line) for line in text.splitlines())


def _by_file(places: tuple[Place, ...]) -> list[tuple[SourceFile, list[Place]]]:
    """Places by file, the primary place's file first and the primary place first in it."""
    files: dict[int, tuple[SourceFile, list[Place]]] = {}
    for place in places:
        file = place.document.file
        files.setdefault(id(file), (file, []))[1].append(place)
    return list(files.values())


@dataclass
class _Mark:
    """One underline in a line: 0-based characters, label, and whether it is the primary place's."""

    start: int
    end: int
    label: str
    primary: bool


def _excerpt(
    file: SourceFile, places: list[Place], primary: Place, gutter: int, options: Options, paint: Paint, severity: str
) -> list[str]:
    marks = _marks(file, places, primary)
    empty = f"{' ' * gutter} {paint('gutter', '|')}"
    lines, previous = [empty], 0
    for number in sorted(marks):
        if previous and number == previous + 2:
            lines.append(_source(file, previous + 1, gutter, 0, options, paint))
        elif previous and number > previous + 2:
            lines.append(paint("gutter", "..."))
        previous = number
        shift = _shift(file.lines.line_text(number), marks[number], options.width - gutter - 3)
        lines.append(_source(file, number, gutter, shift, options, paint))
        text = file.lines.line_text(number)
        lines += [f"{empty} {row}" for row in _underlines(text, marks[number], shift, paint, severity)]
    return [*lines, empty]


def _marks(file: SourceFile, places: list[Place], primary: Place) -> dict[int, list[_Mark]]:
    marks: dict[int, list[_Mark]] = {}
    for place in places:
        start = file.position(place.span.start)
        end = file.position(max(place.span.start, place.span.end))
        length = len(file.lines.line_text(start.line))
        last = end.column - 1 if end.line == start.line else length
        mine = _Mark(start.column - 1, max(min(last, length), start.column), harmless(place.label), place is primary)
        same = next((m for m in marks.get(start.line, ()) if (m.start, m.end) == (mine.start, mine.end)), None)
        if same is None:
            marks.setdefault(start.line, []).append(mine)
        else:
            same.label = ", ".join(filter(None, dict.fromkeys((same.label, mine.label))))
            same.primary = same.primary or mine.primary
    return marks


def _shift(text: str, marks: list[_Mark], width: int) -> int:
    """How many characters of a long line are cut off at its left, so that the first mark can be seen."""
    if len(text) <= width:
        return 0
    start, end = min(m.start for m in marks), max(m.end for m in marks)
    if end <= width - 4:
        return 0
    return max(0, min(start - 8, len(text) - width + 4))


def _source(file: SourceFile, number: int, gutter: int, shift: int, options: Options, paint: Paint) -> str:
    text = file.lines.line_text(number)
    width = max(20, options.width - gutter - 3)
    shown = text[shift:]
    before = "..." if shift else ""
    if shift:
        shown = shown[3:]
    room = width - len(before)
    if len(shown) > room:
        shown = shown[: room - 3] + "..."
    shown = harmless(shown.replace("\t", TAB))
    return f"{paint('gutter', f'{number:>{gutter}} |')} {before}{shown}".rstrip()


def _underlines(text: str, marks: list[_Mark], shift: int, paint: Paint, severity: str) -> list[str]:
    """A row with all marks and the last label, then a row for each other label."""
    ordered = sorted(marks, key=lambda m: (m.start, m.end))
    row, position, plain_width = "", 0, 0
    for mark in ordered:
        start = columns(text[shift : max(shift, mark.start)].replace("\t", TAB))
        width = max(1, columns(text[max(shift, mark.start) : mark.end].replace("\t", TAB)))
        if start < position:
            width -= position - start
            start = position
            if width <= 0:
                continue
        row += " " * (start - plain_width) + paint(*_pen(mark, severity, width))
        plain_width = position = start + width
    last = ordered[-1]
    if last.label:
        row += " " + paint(severity if last.primary else "gutter", last.label)
    rows = [row]
    for mark in reversed(ordered[:-1]):
        if mark.label:
            start = columns(text[shift : max(shift, mark.start)].replace("\t", TAB))
            rows.append(" " * start + paint(severity if mark.primary else "gutter", mark.label))
    return rows


def _pen(mark: _Mark, severity: str, width: int) -> tuple[str, str]:
    width = min(width, 200)
    return (severity, "^" * width) if mark.primary else ("gutter", "-" * width)
