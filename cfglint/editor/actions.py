"""What an editor offers at a finding: its safe fixes, and a comment that silences it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    Diagnostic,
    Position,
    Range,
    TextEdit,
    WorkspaceEdit,
)

from cfglint.editor.diagnostics import View, diagnostic
from cfglint.lint.finding import Edit, Finding, Fix
from cfglint.lint.fixes import fault_of
from cfglint.lint.suppress import Ignore, read_ignores
from cfglint.source.node import SourceFile, Span

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_COMMENTS: Final = frozenset({"yaml", "toml", "shell", "dockerfile"})
"""Formats that have comments."""


def code_actions(view: View, path: str, wanted: Range) -> list[CodeAction]:
    """Actions for the findings of a file that touch a range, safe fixes first."""
    touched = [
        (finding, shown)
        for finding in view.analysis.findings(path)
        if _overlap((shown := diagnostic(view, finding)).range, wanted)
    ]
    fixes = [action for finding, shown in touched for action in _fixes(view, finding, shown)]
    ignores: dict[str, CodeAction] = {}
    for finding, shown in touched:
        action = _ignore(view, finding, shown)
        if action is not None:
            ignores.setdefault(f"{finding.code} {shown.range.start.line}", action)
    return [*fixes, *ignores.values()]


def _overlap(a: Range, b: Range) -> bool:
    return _key(a.start) <= _key(b.end) and _key(b.start) <= _key(a.end)


def _key(position: Position) -> tuple[int, int]:
    return position.line, position.character


def _fixes(view: View, finding: Finding, shown: Diagnostic) -> Iterator[CodeAction]:
    safe = [fix for fix in finding.fixes if fix.safe and fix.edits and _sound(fix)]
    for fix in safe:
        yield CodeAction(
            title=f"{fix.title} ({finding.code})",
            kind=CodeActionKind.QuickFix,
            diagnostics=[shown],
            is_preferred=len(safe) == 1 or None,
            edit=_workspace_edit(view, fix.edits),
        )


def _sound(fix: Fix) -> bool:
    """True where the edited files parse and hold what the fix says and nothing else."""
    by_file: dict[int, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(id(edit.document.file), []).append(edit)
    return all(fault_of(edits[0].document.file, edits)[0] is not None for edits in by_file.values())


def _workspace_edit(view: View, edits: Sequence[Edit]) -> WorkspaceEdit:
    changes: dict[str, list[TextEdit]] = {}
    for edit in edits:
        file = edit.document.file
        place = view.positions(file).range(edit.span)
        changes.setdefault(view.uri(file.path), []).append(TextEdit(place, edit.text))
    return WorkspaceEdit(changes=changes)


def _ignore(view: View, finding: Finding, shown: Diagnostic) -> CodeAction | None:
    primary = finding.primary
    if primary is None or primary.document.file.format not in _COMMENTS:
        return None
    edit = ignore_edit(finding)
    if edit is None:
        return None
    return CodeAction(
        title=f"Ignore {finding.code} here",
        kind=CodeActionKind.QuickFix,
        diagnostics=[shown],
        edit=_workspace_edit(view, [edit]),
    )


def ignore_edit(finding: Finding) -> Edit | None:
    """The edit that silences a finding by a comment: into the brackets of one that is there, at the end of the line, or
    on a line of its own above. None where no place for one can be found."""
    primary = finding.primary
    if primary is None:
        return None
    file, start = primary.document.file, primary.span.start
    command = _command_around(file, start)
    if command is not None:
        start = command.start
    line = file.position(start).line
    for edit in _candidates(finding, line, beside=command is None):
        made, _ = fault_of(file, [edit])
        if made is not None and _silences(made, finding, line, edit):
            return edit
    return None


def _candidates(finding: Finding, line: int, *, beside: bool) -> Iterator[Edit]:
    assert finding.primary is not None
    document = finding.primary.document
    file = document.file
    known = next((i for i in read_ignores(file).comments if i.lines is not None and line in i.lines), None)
    if known is not None:
        yield Edit(document, Span(known.selectors[-1][1].end, known.selectors[-1][1].end), f", {finding.code}")
    comment = f"# cfglint: ignore[{finding.code}]"
    text, start = file.lines.line_text(line), file.lines.offset(line)
    if beside:
        end = start + len(text.rstrip())
        yield Edit(document, Span(end, start + len(text)), f"  {comment}")
    indent = text[: len(text) - len(text.lstrip())]
    line_end = _LINE_END.search(file.text)
    yield Edit(document, Span(start, start), f"{indent}{comment}{line_end.group() if line_end else chr(10)}")


def _silences(made: SourceFile, finding: Finding, line: int, edit: Edit) -> bool:
    """True where the edited file has an ignore comment that speaks of the finding's line."""
    moved = line + len(_LINE_END.findall(edit.text))

    def speaks(ignore: Ignore) -> bool:
        return (
            ignore.lines is not None
            and moved in ignore.lines
            and finding.code in [selector for selector, _ in ignore.selectors]
        )

    return any(speaks(ignore) for ignore in read_ignores(made).comments)


def _command_around(file: SourceFile, offset: int) -> Span | None:
    """The whole command a place in a script belongs to: a comment cannot stand inside one."""
    if file.script is None:
        return None
    spans = [c.span for c in file.script.commands] + [i.span for i in file.script.instructions]
    return next((span for span in spans if span.start <= offset < span.end), None)
