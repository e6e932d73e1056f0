"""Shell text to commands: words with places, variables with known values, heredocs, continuation faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from cfglint.source.node import Document, SourceFile, Span


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command after quote removal and expansion.

    ``text`` holds what is known: a variable whose value the script sets to a constant is expanded; one whose value
    is not known stays as written (``${NAME}``) and ``known`` is False. ``raw`` is the source text at ``span``, which
    lies where the text itself stands: for a word that is nothing but an expanded variable, in the variable's
    definition. ``use`` is then the place in the command.
    """

    text: str
    raw: str
    span: Span
    known: bool = True
    quoted: bool = False
    use: Span | None = None


@dataclass(slots=True, eq=False)
class Command:
    """A simple command: its words (the program first), the assignments before it, and the environment known there.

    ``environment`` holds what the script has exported so far and the assignments before the command; a value that is
    not known stays as written, with ``known`` False. It is shared between commands: do not change it.
    """

    words: list[Word]
    span: Span
    assignments: dict[str, Word] = field(default_factory=dict)
    environment: dict[str, Word] = field(default_factory=dict)
    heredoc: str | None = None
    """Text of the command's (last) heredoc as written."""
    heredoc_span: Span | None = None
    output: Word | None = None
    """The file that standard output goes to (``> file``, ``>> file``)."""
    image: Word | None = None
    """The image that a Dockerfile's stage builds on, whose own entry point runs ``words`` that begin with an option."""

    @property
    def program(self) -> str:
        return self.words[0].text if self.words else ""


@dataclass(slots=True, eq=False)
class Script:
    """The commands of a shell script or Dockerfile in order, with ``#SBATCH``-like header directives."""

    commands: list[Command] = field(default_factory=list)
    directives: list[Word] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    image_command: Command | None = None
    """Of no words, where a Dockerfile's last stage names no command: its base image's own runs, in the stage's environment."""


@dataclass(slots=True, eq=False)
class Instruction:
    """A Dockerfile instruction: ``FROM``, ``ENV``, ``CMD``, ``ENTRYPOINT`` …, with its words."""

    name: str
    words: list[Word]
    span: Span
    exec_form: bool = False


def parse_shell(path: str, text: str) -> SourceFile:
    """Read a shell script. Never raises for what the text says; time is linear in the text.

    Scripts are read the way they run from top to bottom: a variable has the value last assigned, one that branches
    or loops assign differently is unknown, and a default (``${A:-8}``) stands for a variable the script never sets.
    """
    from cfglint.source.shell_scan import Scanner

    file = SourceFile(path, text, "shell")
    file.script = Script()
    Scanner(file, text).run()
    file.problems.sort(key=lambda p: p.span.start)
    file.comments.sort(key=lambda c: c.span.start)
    file.documents.append(Document(file, None, 0, Span(0, len(text))))
    return file


def commands_of(file: SourceFile, text: str, offsets: list[int]) -> list[Command]:
    """The commands of shell text that stands inside another file, a YAML value say.

    ``offsets[i]`` is the place in ``file`` of the character ``text[i]``. Problems are not reported.
    """
    from cfglint.source.shell_scan import Scanner

    kept = file.script
    file.script = Script()
    try:
        Scanner(file, text, offsets, [offset + 1 for offset in offsets], depth=1).run()
        return file.script.commands
    finally:
        file.script = kept
