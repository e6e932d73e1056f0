"""Base of the rules that report what the reader of a format stumbles over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Place, Severity
from cfglint.lint.rule import Rule
from cfglint.source.node import Document, Problem, SourceFile


class ProblemRule(Rule):
    """Reports the problems of one code that the source layer found in a file some dialect claims."""

    family = "source"
    severity: ClassVar[Severity] = "error"
    kinds = ("file",)
    tip: ClassVar[str] = ""
    """The help of every finding."""

    def check_file(self, file: SourceFile, context: Context) -> Iterator[Finding]:
        document = file.documents[0] if file.documents else Document(file)
        for problem in file.problems:
            if problem.code == self.code and not self.tolerated(problem, file, context):
                yield self.report(problem, document, context)

    def tolerated(self, problem: Problem, file: SourceFile, context: Context) -> bool:
        """True where the program that reads this file takes it all the same."""
        return False

    def report(self, problem: Problem, document: Document, context: Context) -> Finding:
        related = tuple(Place(document, span, (), label) for span, label in problem.related)
        return self.finding(problem.message, Place(document, problem.span), *related, help=self.advice(problem))

    def advice(self, problem: Problem) -> str:
        return self.tip


READERS = {"deepspeed": "hjson", "gpt-neox": "yaml.safe_load"}
"""Dialects whose ``.json`` files are read by another reader than ``json.load``, with its name as the source layer has it."""


def read_leniently(problem: Problem, file: SourceFile, context: Context) -> bool:
    """True where every dialect that claims the file reads it with a reader that takes the problem."""
    dialects = dialects_of(file, context)
    return bool(dialects) and all(READERS.get(name) in problem.accepted_by for name in dialects)


def dialects_of(file: SourceFile, context: Context) -> set[str]:
    """Dialects that read a file."""
    return {r.dialect for r in context.readings if r.document.file is file}
