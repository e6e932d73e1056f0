"""Fixes: edits of character ranges of the original text, checked before anything is written.

Rules build edits with :func:`replace_value`, :func:`rename_key`, :func:`remove_key` and :func:`insert_key`; each returns
None where the text does not allow a small, certain edit (a value behind a YAML alias, a merged key). :func:`apply_fixes`
takes what does not overlap, parses the result, compares the tree with the one intended, lints again, and drops every
fix that does not do what it says. Byte-order mark and line ends stay as they are.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cfglint.jobs.facts import Reading
from cfglint.lint.finding import Change, Edit, Finding, Fix
from cfglint.source.node import Document, Entry, Format, Node, Route, Scalar, SourceFile, Span, at, plain
from cfglint.source.node import Mapping as Table
from cfglint.source.node import Sequence as List

MAX_ROUNDS: Final = 8
"""A fix may uncover the next one; more rounds than this means that two rules undo each other."""

_ASSIGN: Final = re.compile(r"[ \t]*[:=][ \t]*")
_ALIAS: Final = re.compile(r"[ \t]*:[ \t]*\*[^\s,\]}]+")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_REST_OF_LINE: Final = re.compile(r"[^\r\n]*")
_BLANK_OR_COMMENT: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?$")
_BARE_TOML_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_YAML: Final = re.compile(r"[A-Za-z_/.][\w./+-]*(?: [\w./+-]+)*")


# Builders ------------------------------------------------------------------------------------------------------------


def replace_value(reading: Reading, route: Route, new_text: str) -> Edit | None:
    """Write ``new_text`` where the value at ``route`` stands. ``new_text`` is in the format's own syntax (see
    :func:`value_text`) and on one line."""
    document, text = reading.document, reading.document.file.text
    node = at(reading.root, *route)
    if node is None or "\n" in new_text:
        return None
    whole = (*reading.base, *route)
    entry = reading.entry(*route)
    change = Change("replace", whole, value_text=new_text)
    if entry is None:
        parent = at(reading.root, *route[:-1]) if route else None
        if not isinstance(parent, List) or not _inside(node.span, parent.span) or not isinstance(node, Scalar):
            return None
        return Edit(document, node.span, new_text, change)
    if not _own(document, entry):
        return None
    start, end = node.span.start, node.span.end
    if not isinstance(node, Scalar) and "\n" in text[entry.key.span.end : start]:
        # a block below its key becomes a value beside it
        assign = _ASSIGN.match(text, entry.key.span.end)
        start = assign.end() if assign else start
        return Edit(document, Span(start, end), new_text if text[start - 1] in " \t" else f" {new_text}", change)
    if start == end and start > 0 and text[start - 1] in ":=":
        return Edit(document, node.span, f" {new_text}", change)
    return Edit(document, node.span, new_text, change)


def rename_key(reading: Reading, route: Route, new_key: str) -> Edit | None:
    """Call the key at ``route`` ``new_key``, where no such key stands beside it."""
    entry = reading.entry(*route)
    parent = at(reading.root, *route[:-1])
    if entry is None or entry.merged or not isinstance(parent, Table) or new_key in parent:
        return None
    written = _key_text(reading.document.file.format, new_key, entry.key)
    return Edit(reading.document, entry.key.span, written, Change("rename", (*reading.base, *route), new_key))


def remove_key(reading: Reading, route: Route) -> Edit | None:
    """Take the key at ``route`` out, with its value and, where it has the line for itself, the line."""
    document = reading.document
    entry, parent = reading.entry(*route), at(reading.root, *route[:-1]) if route else None
    if entry is None or not isinstance(parent, Table) or not _own(document, entry, aliases=True):
        return None
    siblings = [e for e in parent.entries if not e.merged]
    if len(siblings) != len(parent.entries) or len({e.name for e in siblings}) != len(siblings):
        return None
    change = Change("remove", (*reading.base, *route))
    position = next((i for i, e in enumerate(siblings) if e is entry), None)
    if position is None:
        return None
    if _is_flow(document, parent):
        span = _flow_removal(document, siblings, position)
        return Edit(document, span, "", change)
    return _block_removal(document, siblings, position, change)


def insert_key(reading: Reading, after_route: Route, key: str, value_text: str) -> Edit | None:
    """Put ``key`` with ``value_text`` behind the key at ``after_route``, in the same mapping and the same layout."""
    document, text = reading.document, reading.document.file.text
    entry = reading.entry(*after_route)
    parent = at(reading.root, *after_route[:-1]) if after_route else None
    if entry is None or not isinstance(parent, Table) or key in parent or not _own(document, entry, aliases=True):
        return None
    change = Change("insert", (*reading.base, *after_route), key, value_text)
    format = document.file.format
    written = _key_text(format, key, entry.key if format == "json" else None)
    pair = f"{written} = {value_text}" if format == "toml" else f"{written}: {value_text}"
    end = _entry_end(document, entry)
    line_start = max(text.rfind("\n", 0, entry.key.span.start), text.rfind("\r", 0, entry.key.span.start)) + 1
    before = text[line_start : entry.key.span.start]
    if _is_flow(document, parent):
        fresh_line = f"{_line_end(document.file)}{before}" if not before.strip() and line_start else " "
        return Edit(document, Span(end, end), f",{fresh_line}{pair}", change)
    if (
        format == "toml"
        and not isinstance(entry.value, Scalar)
        and text[entry.value.span.start : entry.value.span.start + 1] == "["
        and entry.value.span.start < entry.key.span.start
    ):
        return None  # a [table] header: what follows it belongs to that table
    rest = _REST_OF_LINE.match(text, end)
    stop = rest.end() if rest else end
    if not _BLANK_OR_COMMENT.fullmatch(text[end:stop]):
        return None
    indent = before if not before.strip() else " " * len(before)
    return Edit(document, Span(stop, stop), f"{_line_end(document.file)}{indent}{pair}", change)


def value_text(format: Format, value: str | int | float | bool | None) -> str:
    """A value in a format's syntax, so that its reader reads that very value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        shown = repr(value)
        # YAML 1.1 wants a point in a number with an exponent, and a sign in the exponent
        if format == "yaml" and "e" in shown and "." not in shown:
            mantissa, exponent = shown.split("e")
            return f"{mantissa}.0e{exponent if exponent[0] in '+-' else '+' + exponent}"
        return shown
    if format == "yaml":
        from cfglint.source.yaml import plain_value

        if _PLAIN_YAML.fullmatch(value) and plain_value(value) == value:
            return value
        return json.dumps(value, ensure_ascii=False)
    if format in ("shell", "dockerfile"):
        from shlex import quote

        return quote(value)
    return json.dumps(value, ensure_ascii=False)


def _key_text(format: Format, key: str, like: Scalar | None) -> str:
    if format == "json":
        return json.dumps(key, ensure_ascii=False)
    if format == "toml":
        return key if _BARE_TOML_KEY.fullmatch(key) and not (like and like.quoted) else json.dumps(key)
    if format == "yaml":
        if like is not None and like.style == "single" and "'" not in key:
            return f"'{key}'"
        if like is not None and like.style == "double":
            return json.dumps(key, ensure_ascii=False)
        return value_text("yaml", key)
    return key


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _own(document: Document, entry: Entry, *, aliases: bool = False) -> bool:
    """True where the entry's value stands behind its key, not behind an alias, an anchor or a merge key."""
    if entry.merged or document.file.fatal:
        return False
    text, key_end = document.file.text, entry.key.span.end
    if document.file.format in ("shell", "dockerfile"):
        return True
    if document.file.format == "yaml" and _ALIAS.match(text, key_end):
        return aliases
    start = entry.value.span.start
    if start < key_end:
        # TOML puts the brackets of a table before its name
        return document.file.format == "toml" and not isinstance(entry.value, Scalar)
    return not (document.file.format == "yaml" and "&" in _without_comments(text[key_end:start]))


def _without_comments(text: str) -> str:
    return re.sub(r"#[^\r\n]*", "", text)


def _entry_end(document: Document, entry: Entry) -> int:
    alias = _ALIAS.match(document.file.text, entry.key.span.end) if document.file.format == "yaml" else None
    return alias.end() if alias else max(entry.value.span.end, entry.key.span.end)


def _is_flow(document: Document, table: Table) -> bool:
    return document.file.format == "json" or document.file.text[table.span.start : table.span.start + 1] == "{"


def _line_end(file: SourceFile) -> str:
    found = _LINE_END.search(file.text)
    return found.group() if found else "\n"


def _flow_removal(document: Document, siblings: Sequence[Entry], position: int) -> Span:
    entry = siblings[position]
    if position + 1 < len(siblings):
        return Span(entry.key.span.start, siblings[position + 1].key.span.start)
    end = _entry_end(document, entry)
    if position:
        return Span(_entry_end(document, siblings[position - 1]), end)
    comma = re.compile(r"[ \t]*,").match(document.file.text, end)
    return Span(entry.key.span.start, comma.end() if comma else end)


def _block_removal(document: Document, siblings: Sequence[Entry], position: int, change: Change) -> Edit | None:
    text, entry = document.file.text, siblings[position]
    if entry.value.span.start < entry.key.span.start:
        return None  # a TOML table: its keys may be spread over the file
    start, end = entry.key.span.start, _entry_end(document, entry)
    if text[end : end + 1] == ":":
        end += 1
    rest = _REST_OF_LINE.match(text, end)
    stop = rest.end() if rest else end
    if document.file.format == "yaml" and end == entry.key.span.end:
        return None
    tail = text[end:stop]
    if isinstance(entry.value, Scalar) and not entry.value.raw:
        tail = tail.lstrip(" \t:")
    if not _BLANK_OR_COMMENT.fullmatch(tail):
        return None
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    before = text[line_start:start]
    if before.strip():
        if position + 1 < len(siblings) and document.file.format == "yaml":
            return Edit(document, Span(start, siblings[position + 1].key.span.start), "", change)
        return Edit(document, Span(start, end), "{}", change) if len(siblings) == 1 else None
    if len(siblings) == 1 and document.file.format == "yaml" and len(change.route) > 1:
        return Edit(document, Span(start, end), "{}", change)
    line_end = _LINE_END.match(text, stop)
    return Edit(document, Span(line_start, line_end.end() if line_end else stop), "", change)


# Application ---------------------------------------------------------------------------------------------------------


@dataclass
class Dropped:
    """A fix that was not applied, and why."""

    finding: Finding
    fix: Fix
    why: str


@dataclass
class Fixed:
    """``texts``: path to new text, without byte-order mark. ``findings``: what is left, from the last linting."""

    texts: dict[str, str] = field(default_factory=dict)
    applied: list[tuple[Finding, Fix]] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


Lint = Callable[[Mapping[str, SourceFile]], Sequence[Finding]]
"""Findings of the run with these files in place of the ones on disk."""


def apply_fixes(findings: Iterable[Finding], files: Mapping[str, SourceFile], lint: Lint, *, unsafe: bool) -> Fixed:
    """Apply the first suitable fix of each finding, round by round. Nothing is written to disk here."""
    result = Fixed()
    current = dict(files)
    left = list(findings)
    for _ in range(MAX_ROUNDS):
        given_up = {_identity(d.finding) for d in result.dropped}
        chosen, dropped = _choose(left, current, unsafe, given_up)
        result.dropped.extend(dropped)
        if not chosen:
            break
        kept, current, left, dropped = _checked(chosen, left, current, lint)
        result.dropped.extend(dropped)
        result.applied.extend(kept)
        if not kept and not dropped:
            break
    result.texts = {path: file.text for path, file in current.items() if file.text != files[path].text}
    return result


def edited(file: SourceFile, edits: Sequence[Edit]) -> str:
    """The text with edits applied. They must not overlap."""
    text, position, parts = file.text, 0, []
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        parts += [text[position : edit.span.start], edit.text]
        position = edit.span.end
    return "".join((*parts, text[position:]))


def encoded(file: SourceFile, text: str) -> bytes:
    """The bytes to write: the file's encoding and byte-order mark stay."""
    from cfglint.source.text import file_bytes

    return file_bytes(file, text)


def fault_of(file: SourceFile, edits: Sequence[Edit]) -> tuple[SourceFile | None, str]:
    """Parse the edited text and compare its tree with the intended one. The second value says what is wrong."""
    from cfglint.source.text import parse_text

    if file.encoding is None:
        return None, "the file is not UTF-8"
    if file.fatal:
        return None, "the file does not parse"
    made = parse_text(file.path, edited(file, edits), file.format)
    made.bom, made.encoding = file.bom, file.encoding
    if made.fatal or len(made.problems) > len(file.problems):
        return None, "the changed text would not parse"
    if file.script is not None:
        return (
            (made, "")
            if _same_script(file, made, edits)
            else (None, "it would change more of the command than it says")
        )
    wanted = [plain(document.root) for document in file.documents]
    by_document: dict[int, list[Change]] = {}
    for edit in edits:
        if edit.change is not None:
            by_document.setdefault(edit.document.index, []).append(edit.change)
    for index, changes in by_document.items():
        # renames last: the other changes name keys as they were
        for change in sorted(changes, key=lambda c: c.kind == "rename"):
            if not _intend(wanted, index, change, file.format):
                return None, "it does not fit the file"
    if not _same(wanted, [plain(document.root) for document in made.documents]):
        return None, "it would change more than it says"
    return made, ""


def _choose(
    findings: Iterable[Finding], files: Mapping[str, SourceFile], unsafe: bool, given_up: set[tuple[str, str, str, str]]
) -> tuple[list[tuple[Finding, Fix]], list[Dropped]]:
    chosen: list[tuple[Finding, Fix]] = []
    dropped: list[Dropped] = []
    taken: dict[str, list[Edit]] = {}
    for finding in findings:
        if finding.suppressed is not None or _identity(finding) in given_up:
            continue
        fix = next((f for f in finding.fixes if f.edits and (f.safe or unsafe)), None)
        if fix is None:
            continue
        if any(edit.document.file is not files.get(edit.document.path) for edit in fix.edits):
            dropped.append(Dropped(finding, fix, "it edits a file that is not part of this run"))
            continue
        if any(_overlap(edit, other) for edit in fix.edits for other in taken.get(edit.document.path, ())):
            continue  # the next round's turn
        why = ""
        for path in {edit.document.path for edit in fix.edits}:
            mine = [e for e in fix.edits if e.document.path == path]
            why = why or fault_of(files[path], [*taken.get(path, ()), *mine])[1]
        if why:
            dropped.append(Dropped(finding, fix, why))
            continue
        for edit in fix.edits:
            taken.setdefault(edit.document.path, []).append(edit)
        chosen.append((finding, fix))
    return chosen, dropped


def _checked(
    chosen: list[tuple[Finding, Fix]], before: list[Finding], files: dict[str, SourceFile], lint: Lint
) -> tuple[list[tuple[Finding, Fix]], dict[str, SourceFile], list[Finding], list[Dropped]]:
    """Lint with the chosen fixes in place; where they do harm, find out which by halves."""
    trial = _with(files, chosen)
    after = list(lint(trial))
    why = _harm(chosen, before, after)
    if not why:
        return chosen, trial, after, []
    if len(chosen) == 1:
        return [], files, before, [Dropped(*chosen[0], why)]
    middle = len(chosen) // 2
    kept, files, left, dropped = _checked(chosen[:middle], before, files, lint)
    # offsets of the second half belong to the text before; it gets its turn in the next round, if the first was taken
    if kept:
        return kept, files, left, dropped
    kept, files, left, more = _checked(chosen[middle:], before, files, lint)
    return kept, files, left, [*dropped, *more]


def _with(files: dict[str, SourceFile], chosen: list[tuple[Finding, Fix]]) -> dict[str, SourceFile]:
    edits: dict[str, list[Edit]] = {}
    for _, fix in chosen:
        for edit in fix.edits:
            edits.setdefault(edit.document.path, []).append(edit)
    trial = dict(files)
    for path, mine in edits.items():
        made, _ = fault_of(files[path], mine)
        if made is not None:
            trial[path] = made
    return trial


def _harm(chosen: list[tuple[Finding, Fix]], before: Iterable[Finding], after: Iterable[Finding]) -> str:
    """Why the fixes are no good: the finding is still there, or a new error came; empty if all is well."""
    after = list(after)
    fixed = {_identity(finding) for finding, _ in chosen}
    still = fixed & {_identity(f) for f in after if f.suppressed is None}
    if still:
        return "the finding would still be there"
    known = Counter((f.code, f.reported_path) for f in before if f.severity == "error")
    now = Counter((f.code, f.reported_path) for f in after if f.severity == "error")
    for (code, path), count in now.items():
        if count > known[(code, path)]:
            return f"it would bring a new error, {code} in {path}"
    return ""


def _identity(finding: Finding) -> tuple[str, str, str, str]:
    return finding.code, finding.reported_path, finding.key, finding.message


def _overlap(a: Edit, b: Edit) -> bool:
    if a.span.start == b.span.start:
        return True
    return a.span.start < b.span.end and b.span.start < a.span.end


def _same_script(old: SourceFile, new: SourceFile, edits: Sequence[Edit]) -> bool:
    if old.script is None or new.script is None:
        return False

    def words(file: SourceFile) -> list[list[str]]:
        assert file.script is not None
        return [[w.raw for w in c.words] for c in file.script.commands]

    before, after = words(old), words(new)
    if [len(c) for c in before] != [len(c) for c in after]:
        return False
    touched = sum(a != b for one, two in zip(before, after, strict=True) for a, b in zip(one, two, strict=True))
    return touched <= len(edits)


def _intend(documents: list[Any], index: int, change: Change, format: Format) -> bool:
    """Do to the plain tree what the change says. Nodes on the way are copied: what a YAML alias shares must not move."""
    if index >= len(documents) or not change.route:
        return False
    known, value = (True, None)
    if change.kind in ("replace", "insert"):
        known, value = _read_value(format, change.value_text)
    try:
        documents[index] = _changed(documents[index], change.route, change, value)
    except (KeyError, IndexError, TypeError):
        return False
    return known


def _changed(node: Any, route: Route, change: Change, value: Any) -> Any:
    made = copy.copy(node)
    step: Any = route[0]
    if len(route) > 1:
        made[step] = _changed(node[step], route[1:], change, value)
    elif change.kind == "replace":
        made[step] = value
    elif change.kind == "insert":
        made[change.key] = value
    else:
        moved = made.pop(step)
        if change.kind == "rename":
            made[change.key] = moved
    return made


def _read_value(format: Format, text: str) -> tuple[bool, Any]:
    from cfglint.source.text import parse_text

    wrapped = {"yaml": f"x: {text}\n", "json": f'{{"x": {text}}}', "toml": f"x = {text}\n"}.get(format)
    if wrapped is None:
        return False, None
    file = parse_text("value", wrapped, format)
    root = file.documents[0].root if file.documents else None
    node: Node | None = at(root, "x")
    if file.problems or node is None or not isinstance(root, Table) or len(root.entries) != 1:
        return False, None
    return True, plain(node)


def _same(a: Any, b: Any, seen: set[tuple[int, int]] | None = None) -> bool:
    """Equality that tells 1 from true and 1 from 1.0, and takes NaN as itself. Pairs met again are not compared again."""
    seen = set() if seen is None else seen
    if type(a) is not type(b):
        return False
    if not isinstance(a, (dict, list)):
        return bool(a == b) or (a != a and b != b)
    if (id(a), id(b)) in seen:
        return True
    seen.add((id(a), id(b)))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k], seen) for k in a)
    return len(a) == len(b) and all(_same(x, y, seen) for x, y in zip(a, b, strict=True))
