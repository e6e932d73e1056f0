"""Dockerfile text to instructions, and the command its image starts."""

from __future__ import annotations

import json
import re
from typing import Final

from cfglint.source.node import Comment, Document, SourceFile, Span
from cfglint.source.shell import Command, Instruction, Script, Word
from cfglint.source.shell_scan import Scanner
from cfglint.source.shell_values import Fields, Variable, Variables, too_long, word_of
from cfglint.source.shell_words import OpenQuote, WordReader

MAX_STAGES: Final = 200
"""Named stages that later ones may build on."""

_KNOWN: Final = frozenset(
    {
        "FROM", "RUN", "CMD", "LABEL", "MAINTAINER", "EXPOSE", "ENV", "ADD", "COPY", "ENTRYPOINT", "VOLUME", "USER",
        "WORKDIR", "ARG", "ONBUILD", "STOPSIGNAL", "HEALTHCHECK", "SHELL",
    }
)  # fmt: skip
_COMMANDS: Final = ("CMD", "ENTRYPOINT")
_INSTRUCTION: Final = re.compile(r"[ \t]*([A-Za-z]+)(?=[ \t\r\n\\`]|$)")
_LINE: Final = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")
_COMMENT_LINE: Final = re.compile(r"[ \t]*#")
_ESCAPE: Final = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*([\\`])[ \t]*$", re.IGNORECASE)
_HEREDOC: Final = re.compile(r"<<(-?)[ \t]*(['\"]?)([A-Za-z_]\w*)\2")
_STRING: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_SEPARATORS: Final = re.compile(r"[\s;&|<>()]*")
_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*")


class _Stage:
    """A build stage. It begins with what its base stage has."""

    def __init__(self, text: str, base: _Stage | None = None) -> None:
        self.variables = Variables(text)
        self.image: Word | None = None
        """The image at the bottom, through the stages it is built on."""
        self.entrypoint: Instruction | None = None
        self.command: Instruction | None = None
        self.changed = False
        if base is not None:
            self.image = base.image
            self.entrypoint, self.command = base.entrypoint, base.command
            for name, variable in base.variables.values.items():
                if variable.exported:  # ARG does not outlive its stage
                    self.variables.set(name, variable)


class _Dockerfile:
    def __init__(self, file: SourceFile, script: Script) -> None:
        self.file = file
        self.script = script
        self.text = file.text
        self.escape = "\\"
        self.before = _Stage(file.text)
        """What stands before the first ``FROM``: ``ARG`` that the ``FROM`` lines may use."""
        self.stage = self.before
        self.stages: dict[str, _Stage] = {}

    def run(self) -> None:
        at = 0
        first = True
        while at < len(self.text):
            line = _LINE.match(self.text, at)
            if line is None or not line.group():
                break
            content = line.group(1)
            if _COMMENT_LINE.match(content):
                escape = _ESCAPE.match(content) if first else None
                if escape:
                    self.escape = escape.group(1)
                self.comment(at, line.end(1))
                first = first and "=" in content
                at = line.end()
            elif not content.strip():
                at = line.end()
            else:
                first = False
                at = self.instruction(at)
        self.finish_stage()
        stage = self.stage
        if stage.image is not None and stage.entrypoint is None and stage.command is None:
            environment = stage.variables.exported()
            self.script.image_command = Command([], stage.image.span, environment=environment, image=stage.image)

    def comment(self, start: int, end: int) -> None:
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        self.file.comments.append(Comment(Span(start, end), self.text[start:end].lstrip("#").strip()))

    def instruction(self, at: int) -> int:
        """Read one instruction with its continued lines and heredocs; the offset behind it."""
        offsets, behind = self.logical_line(at)
        text = "".join([self.text[i] for i in offsets])
        found = _INSTRUCTION.match(text)
        behind = self.skip_heredocs(text, behind)
        if not found or found.group(1).upper() not in _KNOWN:
            return behind
        name = found.group(1).upper()
        rest = found.end()
        if name == "ONBUILD":
            return behind
        start = offsets[found.start(1)]
        end = offsets[len(text.rstrip()) - 1] + 1 if text.strip() else start
        instruction = Instruction(name, [], Span(start, max(start, end)))
        if name in ("CMD", "ENTRYPOINT", "RUN", "SHELL", "HEALTHCHECK") and text[rest:].lstrip().startswith("["):
            words = self.exec_words(text, rest, offsets)
            if words is not None:
                instruction.words, instruction.exec_form = words, True
        if not instruction.exec_form:
            instruction.words = self.words(text, rest, offsets, name)
        if name == "FROM":
            self.finish_stage()
            self.start_stage(instruction)
        self.script.instructions.append(instruction)
        if name == "ENTRYPOINT":
            if not self.stage.changed:
                self.stage.command = None  # an entry point of one's own discards the base's command
            self.stage.entrypoint, self.stage.changed = instruction, True
        elif name == "CMD":
            self.stage.command, self.stage.changed = instruction, True
        return behind

    def start_stage(self, instruction: Instruction) -> None:
        given = [word for word in instruction.words if not word.text.startswith("--")]
        words = [word.text for word in given]
        base = self.stages.get(words[0].lower()) if words else None
        self.stage = _Stage(self.text, base)
        if base is None and given:
            self.stage.image = given[0]
        if len(words) >= 3 and words[1].lower() == "as" and len(self.stages) < MAX_STAGES:
            self.stages[words[2].lower()] = self.stage

    def logical_line(self, at: int) -> tuple[list[int], int]:
        """Offsets of an instruction's characters, continuations and comment lines taken out."""
        offsets: list[int] = []
        size = len(self.text)
        while at < size:
            line = _LINE.match(self.text, at)
            if line is None:
                break
            content = line.group(1)
            if offsets and _COMMENT_LINE.match(content):
                self.comment(at, line.end(1))
                at = line.end()
                continue
            if offsets and not content.strip():  # Docker goes on over empty lines
                at = line.end()
                continue
            stripped = content.rstrip(" \t")
            if stripped.endswith(self.escape):
                offsets.extend(range(at, at + len(stripped) - 1))
                at = line.end()
                continue
            offsets.extend(range(at, at + len(content)))
            at = line.end()
            break
        return offsets, at

    def skip_heredocs(self, text: str, at: int) -> int:
        if "<<" not in text or not re.match(r"\s*(?:RUN|COPY|ADD)\b", text, re.IGNORECASE):
            return at
        for heredoc in _HEREDOC.finditer(text):
            delimiter = heredoc.group(3)
            lead = r"\t*" if heredoc.group(1) else ""
            end = re.compile(rf"^{lead}{delimiter}[ \t]*(?:\r\n|\n|\r|$)", re.MULTILINE).search(self.text, at)
            if end:
                at = end.end()
        return at

    def exec_words(self, text: str, at: int, offsets: list[int]) -> list[Word] | None:
        """Words of ``["a", "b"]``; None where that is not a JSON list of strings (Docker then takes it as shell)."""
        try:
            values = json.loads(text[at:])
        except (ValueError, RecursionError):
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            return None
        words: list[Word] = []
        for value, found in zip(values, _STRING.finditer(text, at), strict=False):
            start, end = offsets[found.start()], offsets[found.end() - 1] + 1
            words.append(Word(value, self.text[start:end], Span(start, end), quoted=True))
        return words

    def words(self, text: str, at: int, offsets: list[int], name: str) -> list[Word]:
        starts, ends = offsets, [offset + 1 for offset in offsets]
        variables = self.before.variables if name == "FROM" else self.stage.variables
        reader = WordReader(self.file, text, variables, starts, ends)
        defined: list[tuple[str, Fields, Span]] = []
        size = len(text.rstrip())
        words: list[Word] = []
        legacy = name == "ENV" and not re.match(r"[ \t]*[^\s=]+=", text[at:])
        try:
            while at < len(text):
                blank = _SEPARATORS.match(text, at)
                at = blank.end() if blank else at
                if at >= len(text):
                    break
                key = _KEY.match(text, at) if name in ("ENV", "ARG") else None
                start = at
                if key and text[key.end() : key.end() + 1] == "=":
                    value = Fields(splitting=False)
                    at = reader.word(key.end() + 1, value)
                    defined.append((key.group(), value, reader.span(key.end() + 1, at)))
                    fields = Fields(splitting=False)
                    fields.add(reader.piece(text[start : key.end() + 1], start, key.end() + 1))
                    for piece in value.pieces():
                        fields.add(piece)
                elif legacy and key:
                    value = Fields(splitting=False)
                    begin = key.end() + len(text[key.end() :]) - len(text[key.end() :].lstrip())
                    at = size
                    value.add(reader.piece(text[begin:at], begin, max(begin, at)))
                    defined.append((key.group(), value, reader.span(begin, max(begin, at))))
                    words.append(Word(key.group(), key.group(), reader.span(start, key.end())))
                    fields, start, at = value, begin, len(text)
                else:
                    # only ENV, ARG, FROM … are expanded by Docker; commands are by the shell they run in
                    fields = Fields(splitting=name in (*_COMMANDS, "RUN"))
                    at = max(reader.word(at, fields), at + 1)
                span = reader.span(start, min(at, size))
                alone = len(fields.fields) == 1 or not fields.splitting
                groups = fields.fields if fields.splitting else [list(fields.pieces())]
                for pieces in groups:
                    words.append(word_of(self.text, pieces, span.start, span.end, alone=alone, quoted=fields.quoted))
        except OpenQuote:
            pass
        for key_name, fields, span in defined:  # an instruction sees the values from before it
            variable = Variable(fields.pieces(), exported=name == "ENV", shown=span)
            self.stage.variables.set(key_name, None if too_long(variable) else variable)
        if name == "ARG":
            for word in words:
                default = self.before.variables.get(word.text)
                if default is not None and self.stage is not self.before:  # ``ARG NAME`` takes over the global default
                    self.stage.variables.set(word.text, default)
        return words

    def finish_stage(self) -> None:
        """Put together what the stage's image starts, when the next stage or the end is reached."""
        stage = self.stage
        entrypoint, command = stage.entrypoint, stage.command
        shown = entrypoint or command
        if shown is None or not stage.changed or not shown.words:
            return
        stage.changed = False
        if not shown.exec_form:  # a shell-form entry point takes no arguments from CMD
            self.shell_form(shown)
            return
        words, span = shown.words, shown.span
        if entrypoint is not None and command is not None:
            words = [*entrypoint.words, *command.words]
            span = Span(min(span.start, command.span.start), max(span.end, command.span.end))
        self.script.commands.append(Command(words, span, environment=stage.variables.exported(), image=stage.image))
        self.shell_script(words)

    def shell_form(self, instruction: Instruction) -> None:
        """``CMD a && b``: the commands of a shell line."""
        start = instruction.span.start
        offsets, _ = self.logical_line(start)
        text = "".join([self.text[i] for i in offsets])
        cut = len(instruction.name)
        self.scan(text[cut:], offsets[cut:], [offset + 1 for offset in offsets[cut:]])

    def shell_script(self, words: list[Word]) -> None:
        """``["bash", "-c", "…"]`` holds commands of its own."""
        for i, word in enumerate(words[:-2]):
            if word.text.rpartition("/")[2] in ("bash", "sh", "dash", "zsh") and re.fullmatch(
                r"-[a-z]*c[a-z]*", words[i + 1].text
            ):
                script = words[i + 2]
                if script.raw[1:-1] == script.text:
                    starts = list(range(script.span.start + 1, script.span.end - 1))
                    self.scan(script.text, starts, [start + 1 for start in starts])
                else:
                    size = len(script.text)
                    self.scan(script.text, [script.span.start] * size, [script.span.end] * size)
                return

    def scan(self, text: str, starts: list[int], ends: list[int]) -> None:
        before = len(self.script.commands)
        scanner = Scanner(self.file, text, starts, ends, depth=1)
        scanner.variables = self.stage.variables
        scanner.run()
        for command in self.script.commands[before:]:  # they run in the stage's image, and its tag states a version
            command.image = self.stage.image


def parse_dockerfile(path: str, text: str) -> SourceFile:
    """Read a Dockerfile. Never raises for what the text says.

    Every instruction is in ``script.instructions`` with its words; ``script.commands`` holds what each stage's image
    starts (``ENTRYPOINT`` with ``CMD`` behind it), not what ``RUN`` does while building.
    """
    file = SourceFile(path, text, "dockerfile")
    file.script = Script()
    _Dockerfile(file, file.script).run()
    file.comments.sort(key=lambda c: c.span.start)
    file.documents.append(Document(file, None, 0, Span(0, len(text))))
    return file
