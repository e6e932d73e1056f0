"""Facts stated in comments: ``# cfglint: gpu=A100-80GB gpus=8 nodes=2`` and ``# cfglint: dialect=axolotl``.

A comment speaks for the whole file. Values with blanks are quoted: ``gpu="RTX 4090"``. Comments that silence
(``ignore[...]``, ``ignore-file[...]``) are read by :mod:`cfglint.lint.suppress`; both start with :func:`directive`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from cfglint.jobs.facts import FileOrigin
from cfglint.source.node import Comment, Document, Problem, SourceFile, Span
from cfglint.source.whole_number import whole_number

T = TypeVar("T")

PRAGMA_PROBLEM: Final = "SUP002"
"""Code of a cfglint comment that cannot be read."""

_DIRECTIVE: Final = re.compile(r"(?:^|#[ \t]*)cfglint[ \t]*:[ \t]*")
_NO_COLON: Final = re.compile(r"^cfglint[ \t]+(?=(?:gpu|gpus|nodes|dialect)=|ignore(?:-file)?\[)")
_ASSIGNMENT: Final = re.compile(r"""(?P<key>[A-Za-z_][\w-]*)=(?P<value>"[^"]*"|'[^']*'|[^\s,;"']\S*)?""")
_SEPARATOR: Final = re.compile(r"[\s,;]+")


@dataclass(frozen=True, slots=True)
class Directive:
    """What stands after ``cfglint:`` in a comment; ``start`` is the offset of its first character in the file."""

    text: str
    start: int
    comment: Comment

    def span(self, start: int, end: int) -> Span:
        """The place in the file of ``text[start:end]``."""
        return Span(self.start + start, self.start + end)


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One ``key=value`` of a pragma."""

    key: str
    value: T
    key_span: Span
    value_span: Span

    def origin(self, document: Document) -> FileOrigin:
        """Where the fact comes from, for :class:`cfglint.jobs.facts.Fact`. ``document``: any document of the file."""
        return FileOrigin(document, (f"cfglint: {self.key}",), self.key_span, self.value_span)


@dataclass(slots=True)
class Pragmas:
    """What the comments of a file state. Of two statements of one key the first counts, the second is a problem."""

    gpu: Statement[str] | None = None
    gpus: Statement[int] | None = None
    """Per node."""
    nodes: Statement[int] | None = None
    dialect: Statement[str] | None = None
    problems: list[Problem] = field(default_factory=list)


def directive(file: SourceFile, comment: Comment) -> Directive | None:
    """The cfglint directive a comment holds; also behind other words: ``# tuned by hand  # cfglint: ignore[MEM001]``."""
    if "cfglint" not in comment.text:
        return None
    found = _DIRECTIVE.search(comment.text)
    if found is None:
        return None
    text = comment.text[found.end() :]
    offset = file.text.find(comment.text, comment.span.start)
    start = (offset if offset >= 0 else comment.span.start) + found.end()
    return Directive(text, start, comment)


def is_silencing(text: str) -> bool:
    """True for ``ignore…`` and ``ignore-file…``, which are not facts."""
    return re.match(r"(?i)(?:ignore|disable|noqa)\b", text) is not None


def read_pragmas(file: SourceFile) -> Pragmas:
    """Every ``# cfglint: key=value`` of a file, with its place. Never raises: what cannot be read is a problem."""
    pragmas = Pragmas()
    for comment in file.comments:
        found = directive(file, comment)
        if found is None:
            missing = _NO_COLON.match(comment.text)
            if missing:
                pragmas.problems.append(
                    Problem(PRAGMA_PROBLEM, "a cfglint comment needs a colon: `# cfglint: …`", comment.span)
                )
        elif not is_silencing(found.text):
            _read(found, pragmas)
    return pragmas


def _read(found: Directive, pragmas: Pragmas) -> None:
    position = 0
    text = found.text.rstrip()
    if not text:
        pragmas.problems.append(Problem(PRAGMA_PROBLEM, f"nothing after `cfglint:`; {_KNOWN}", found.comment.span))
    while position < len(text):
        blank = _SEPARATOR.match(text, position)
        if blank:
            position = blank.end()
            continue
        assignment = _ASSIGNMENT.match(text, position)
        if assignment is None:
            end = re.compile(r"\S+").match(text, position)
            stop = end.end() if end else len(text)
            word = text[position:stop]
            pragmas.problems.append(
                Problem(PRAGMA_PROBLEM, f"`{word}` is not `key=value`; {_KNOWN}", found.span(position, stop))
            )
            return
        position = assignment.end()
        _state(found, assignment, pragmas)


def _state(found: Directive, assignment: re.Match[str], pragmas: Pragmas) -> None:
    key, written = assignment["key"], assignment["value"] or ""
    key_span = found.span(*assignment.span("key"))
    value_span = found.span(
        *(assignment.span("value") if assignment["value"] else (assignment.end(), assignment.end()))
    )
    whole = Span(key_span.start, value_span.end)
    value = written[1:-1] if written[:1] in "\"'" and len(written) >= 2 else written.rstrip(",;")

    def problem(message: str) -> None:
        pragmas.problems.append(Problem(PRAGMA_PROBLEM, message, whole))

    reader = _KEYS.get(key)
    if reader is None:
        from difflib import get_close_matches

        close = get_close_matches(key, _KEYS, n=1)
        hint = f"did you mean `{close[0]}`?" if close else _KNOWN
        problem(f"unknown key `{key}` in a cfglint comment; {hint}")
    elif not value:
        problem(f"`{key}=` has no value")
    elif getattr(pragmas, key) is not None:
        problem(f"`{key}` is already stated in this file; the first one counts")
    else:
        read = reader(value)
        if read is None:
            problem(f"`{key}={value}`: a whole number from 1 is needed")
        else:
            setattr(pragmas, key, Statement(key, read, key_span, value_span))


def _count(text: str) -> int | None:
    return whole_number(text) or None  # none of them can be 0


_KEYS: Final[dict[str, Callable[[str], Any]]] = {"gpu": str, "gpus": _count, "nodes": _count, "dialect": str}
_KNOWN: Final = "known are gpu=, gpus= (per node), nodes=, dialect=, ignore[…] and ignore-file[…]"
