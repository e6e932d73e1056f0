"""Shell text to commands: words with places, variables with known values, heredocs, continuation faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from cfglint.source.node import SourceFile, Span


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command after quote removal and expansion.

    ``text`` holds what is known: a variable whose value the script sets to a constant is expanded; one whose value
    is not known stays as written (``${NAME}``) and ``known`` is False. ``raw`` is the source text.
    """

    text: str
    raw: str
    span: Span
    known: bool = True
    quoted: bool = False


@dataclass(slots=True, eq=False)
class Command:
    """A simple command: its words (the program first), the assignments before it, and the environment known there."""

    words: list[Word]
    span: Span
    assignments: dict[str, Word] = field(default_factory=dict)
    environment: dict[str, Word] = field(default_factory=dict)
    heredoc: str | None = None

    @property
    def program(self) -> str:
        return self.words[0].text if self.words else ""


@dataclass(slots=True, eq=False)
class Script:
    """The commands of a shell script or Dockerfile in order, with ``#SBATCH``-like header directives."""

    commands: list[Command] = field(default_factory=list)
    directives: list[Word] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Instruction:
    """A Dockerfile instruction: ``FROM``, ``ENV``, ``CMD``, ``ENTRYPOINT`` …, with its words."""

    name: str
    words: list[Word]
    span: Span
    exec_form: bool = False


def parse_shell(path: str, text: str) -> SourceFile:
    raise NotImplementedError
