"""Silencing: ``# cfglint: ignore[CODE] reason`` comments, ``ignore-file``, per-file ignores, ignored places in settings.

Silenced findings are marked, not dropped, so that reports can count them. What silences nothing is itself reported
(``SUP001``): a reader of the config should not believe in a fault that is gone. A comment that cannot be read is
``SUP002``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cfglint.jobs.pragma import Directive, directive, is_silencing, read_pragmas
from cfglint.lint.engine_rules import UnreadableComment, UnusedIgnore
from cfglint.lint.finding import Edit, Finding, Fix, Place
from cfglint.lint.selection import Selectable, selected, suggestion, unknown_selectors
from cfglint.settings import IgnoredPlace, Settings
from cfglint.source.node import Document, Route, SourceFile, Span, at

_IGNORE: Final = re.compile(
    r"(?P<verb>ignore(?:-file)?)[ \t]*\[(?P<rules>[^\]]*)\][ \t:,–—-]*(?P<reason>.*)", re.DOTALL
)
_RULE_NAME: Final = re.compile(r"[^\s,]+")
_CODE: Final = re.compile(r"(?P<family>[A-Z]{2,})[0-9]+")


@dataclass(slots=True, eq=False)
class Ignore:
    """One ignore comment. ``lines`` are the lines whose findings it silences, None for the whole file."""

    selectors: list[tuple[str, Span]]
    reason: str
    span: Span
    lines: frozenset[int] | None
    used: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Ignores:
    """The ignore comments of a file, and those that cannot be read (message, place)."""

    comments: list[Ignore] = field(default_factory=list)
    problems: list[tuple[str, Span]] = field(default_factory=list)


def read_ignores(file: SourceFile) -> Ignores:
    """Every ``ignore[…]`` and ``ignore-file[…]`` comment of a file."""
    found = Ignores()
    for comment in file.comments:
        stated = directive(file, comment)
        if stated is None or not is_silencing(stated.text):
            continue
        matched = _IGNORE.match(stated.text)
        if matched is None:
            found.problems.append(("name the rules to silence: `# cfglint: ignore[CODE] reason`", comment.span))
            continue
        selectors = _selectors(stated, matched)
        if not selectors:
            found.problems.append(("no rule is named between the brackets", comment.span))
        elif matched["verb"] == "ignore-file":
            if _at_top(file, comment.span):
                found.comments.append(Ignore(selectors, matched["reason"].strip(), comment.span, None))
            else:
                message = "`ignore-file` has effect only in the comments at the top of a file"
                found.problems.append((message, comment.span))
        else:
            lines = frozenset(_lines_of(file, comment.span))
            found.comments.append(Ignore(selectors, matched["reason"].strip(), comment.span, lines))
    return found


def silence(
    findings: Iterable[Finding],
    files: Mapping[str, SourceFile],
    settings_for: Callable[[str], Settings],
    rules: Mapping[str, Selectable],
    active: Callable[[str], frozenset[str]],
) -> list[Finding]:
    """Mark the findings that are silenced, and return findings about the silencing itself.

    ``rules``: all that are known; ``active``: the codes that ran on a path. Comments are looked at before settings, so
    that an unused comment is one that really silences nothing.
    """
    findings = list(findings)
    comments = {path: read_ignores(file) for path, file in files.items() if file.comments}
    places: dict[tuple[str, Route], tuple[IgnoredPlace, bool]] = {}
    for finding in findings:
        path = finding.reported_path
        settings = settings_for(path)
        ignores = comments.get(path)
        if ignores is not None:
            _by_comment(finding, files[path], ignores)
        _by_settings(finding, path, settings, places)
    made: list[Finding] = []
    for path, file in files.items():
        on = active(path)
        settings = settings_for(path)
        for place in settings.ignored_places:
            if settings.matches(path, place.file) and not file.fatal:
                places.setdefault((place.origin.path, place.route), (place, False))
        if not file.comments:
            continue
        new = [*_comment_problems(file, comments[path], rules), *_unused(file, comments[path], rules, on, findings)]
        for finding in new:
            if finding.code in on:
                _by_settings(finding, path, settings, places)
                made.append(finding)
    made.extend(_unused_places(places, rules, active))
    return made


def key_matches(pattern: str, route: Route) -> bool:
    """True where a key path names a route: ``a.b[0]`` or ``/a/b/0``; ``*`` stands for one step, ``**`` for any number."""
    return _steps_match(_steps(pattern), [str(step) for step in route])


def _selectors(stated: Directive, matched: re.Match[str]) -> list[tuple[str, Span]]:
    offset = matched.start("rules")
    return [(m[0], stated.span(offset + m.start(), offset + m.end())) for m in _RULE_NAME.finditer(matched["rules"])]


def _at_top(file: SourceFile, span: Span) -> bool:
    before = file.text[: span.start].splitlines()
    return all(not line.strip() or line.lstrip().startswith(("#", "---", "%")) for line in before)


def _alone(file: SourceFile, span: Span) -> bool:
    """True where the comment is all there is on its line."""
    line = file.position(span.start).line
    return file.lines.line_text(line).lstrip().startswith("#")


def _lines_of(file: SourceFile, span: Span) -> Iterator[int]:
    line = file.position(span.start).line
    yield line
    if not _alone(file, span):
        return
    # a comment on its own speaks for the next line that is not itself a comment
    while line < len(file.lines):
        line += 1
        if not file.lines.line_text(line).lstrip().startswith("#"):
            yield line
            return


def _by_comment(finding: Finding, file: SourceFile, ignores: Ignores) -> None:
    lines = _finding_lines(finding, file)
    for ignore in ignores.comments:
        if ignore.lines is not None and not (ignore.lines & lines):
            continue
        for selector, _ in ignore.selectors:
            if selected((selector,), finding.code, finding.name):
                ignore.used.add(selector)
                if finding.suppressed is None:
                    finding.suppressed, finding.justification = "comment", ignore.reason


def _finding_lines(finding: Finding, file: SourceFile) -> frozenset[int]:
    """The lines of a finding's primary place; in scripts those of the whole command, which may hold no comments inside."""
    if finding.primary is None:
        return frozenset()
    start, end = finding.primary.span.start, finding.primary.span.end
    if file.script is not None:
        spans = [c.span for c in file.script.commands] + [i.span for i in file.script.instructions]
        for span in spans:
            if span.start <= start < span.end:
                start, end = min(start, span.start), max(end, span.end)
    last = file.position(max(start, end - 1)).line
    return frozenset(range(file.position(start).line, last + 1))


def _by_settings(
    finding: Finding, path: str, settings: Settings, places: dict[tuple[str, Route], tuple[IgnoredPlace, bool]]
) -> None:
    for place in settings.ignored_places:
        if (
            selected(place.rules, finding.code, finding.name)
            and settings.matches(path, place.file)
            and (place.key is None or (finding.primary is not None and key_matches(place.key, finding.primary.route)))
        ):
            places[(place.origin.path, place.route)] = (place, True)
            if finding.suppressed is None:
                finding.suppressed, finding.justification = "settings", place.reason
    for glob, selectors in settings.per_file_ignores.items():
        if (
            finding.suppressed is None
            and selected(selectors, finding.code, finding.name)
            and settings.matches(path, glob)
        ):
            finding.suppressed = "settings"
            finding.justification = f"per-file-ignores of {settings.path}"


def _comment_problems(file: SourceFile, ignores: Ignores, rules: Mapping[str, Selectable]) -> Iterator[Finding]:
    document = _document(file)
    for problem in read_pragmas(file).problems:
        yield UnreadableComment().finding(problem.message, Place(document, problem.span))
    for message, span in ignores.problems:
        yield UnreadableComment().finding(message, Place(document, span))
    families = {m["family"] for code in rules if (m := _CODE.fullmatch(code))}
    for ignore in ignores.comments:
        for selector, span in ignore.selectors:
            if not unknown_selectors([selector], rules):
                continue
            code = _CODE.fullmatch(selector)
            hint = suggestion(selector, rules)
            # a code of a family, or a name, that nobody here has may well be a plugin's that is not loaded
            if (code and code["family"] in families) or (code is None and hint):
                yield UnreadableComment().finding(f"no rule is called `{selector}`", Place(document, span), help=hint)


def _unused(
    file: SourceFile,
    ignores: Ignores,
    rules: Mapping[str, Selectable],
    on: frozenset[str],
    findings: Iterable[Finding],
) -> Iterator[Finding]:
    if file.fatal:
        return
    document = _document(file)
    for ignore in ignores.comments:
        unused = [(s, span) for s, span in ignore.selectors if s not in ignore.used and _all_ran(s, rules, on)]
        for selector, span in unused:
            fix = _removal(file, document, ignore, [s for s, _ in unused])
            yield UnusedIgnore().finding(
                f"`{selector}` reports nothing here",
                Place(document, span),
                help=_where_it_reports(selector, file, findings) or "remove it, so that a later fault is not hidden",
                fixes=(fix,) if selector == unused[0][0] else (),
            )


def _where_it_reports(selector: str, file: SourceFile, findings: Iterable[Finding]) -> str:
    """Of a rule that does report in the file, only at another line: where the comment belongs."""
    lines = {
        file.position(finding.primary.span.start).line
        for finding in findings
        if finding.primary is not None
        and finding.reported_path == file.path
        and finding.suppressed is None
        and selected((selector,), finding.code, finding.name)
    }
    return f"it reports at line {min(lines)}: the comment belongs there" if lines else ""


def _all_ran(selector: str, rules: Mapping[str, Selectable], on: frozenset[str]) -> bool:
    named = [code for code, rule in rules.items() if selected((selector,), code, rule.name)]
    return bool(named) and all(code in on for code in named)


def _removal(file: SourceFile, document: Document, ignore: Ignore, unused: list[str]) -> Fix:
    """Take unused names out of the brackets, or the whole comment where none stays."""
    kept = [s for s, _ in ignore.selectors if s not in unused]
    if kept:
        span = Span(ignore.selectors[0][1].start, ignore.selectors[-1][1].end)
        return Fix("remove what is unused from the ignore", (Edit(document, span, ", ".join(kept)),))
    text, start, end = file.text, ignore.span.start, ignore.span.end
    inner = text.rfind("#", start, ignore.selectors[0][1].start)
    start = inner if inner > start else start
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    if start == 0 or text[start - 1] in "\r\n":
        line_end = re.compile(r"\r\n|\n|\r").match(text, end)
        end = line_end.end() if line_end else end
    return Fix("remove the unused ignore", (Edit(document, Span(start, end), ""),))


def _unused_places(
    places: Mapping[tuple[str, Route], tuple[IgnoredPlace, bool]],
    rules: Mapping[str, Selectable],
    active: Callable[[str], frozenset[str]],
) -> Iterator[Finding]:
    for place, used in places.values():
        on = active(place.origin.path)
        if used or UnusedIgnore.code not in on or not all(_all_ran(s, rules, on) for s in place.rules):
            continue
        where = f"{place.file}, {place.key}" if place.key else place.file
        finding = UnusedIgnore().finding(
            f"`{', '.join(place.rules)}` reports nothing at {where}", _setting_place(place), help="remove the entry"
        )
        finding.path = place.origin.path
        yield finding


def _setting_place(place: IgnoredPlace) -> Place | None:
    from cfglint.source.text import parse_text

    try:
        file = parse_text(place.origin.path, Path(place.origin.path).read_text(encoding="utf-8-sig"), "toml")
    except (OSError, UnicodeDecodeError):
        return None
    node = at(_document(file).root, *place.route, "rule")
    return None if node is None else Place(_document(file), node.span, (*place.route, "rule"))


def _document(file: SourceFile) -> Document:
    return file.documents[0] if file.documents else Document(file, None, 0, Span(0, len(file.text)))


def _steps(pattern: str) -> list[str]:
    if pattern.startswith("/"):
        return [step.replace("~1", "/").replace("~0", "~") for step in pattern[1:].split("/")]
    steps: list[str] = []
    for part in re.split(r"\.(?![^\[]*\])", pattern):
        steps.extend(piece for piece in re.split(r"\[([^\]]*)\]", part) if piece)
    return [step.strip("\"'") for step in steps]


def _steps_match(pattern: list[str], steps: list[str]) -> bool:
    if not pattern:
        return not steps
    if pattern[0] == "**":
        return any(_steps_match(pattern[1:], steps[i:]) for i in range(len(steps) + 1))
    return bool(steps) and pattern[0] in ("*", steps[0]) and _steps_match(pattern[1:], steps[1:])
