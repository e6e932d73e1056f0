"""The shell scanner: one pass over the text that reads commands and follows variables as it goes.

It is not a shell. It follows what decides the words of a launch line (quoting, continuations, constants, defaults,
arrays, arithmetic, heredocs) and calls everything else unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from cfglint.source.node import Comment, Problem, SourceFile, Span
from cfglint.source.problems import ARGUMENTS_LOST, OPEN_QUOTE
from cfglint.source.shell import Command, Script, Word
from cfglint.source.shell_values import (
    Fields,
    Piece,
    Variable,
    Variables,
    too_long,
    variable_word,
    word_of,
)
from cfglint.source.shell_words import (
    LINE,
    MAX_FAILURES,
    MAX_NESTING,
    NAME,
    NEWLINE,
    PLACEHOLDER,
    PLAIN,
    OpenQuote,
    Stop,
    WordReader,
    heredoc_end,
)

MAX_PIECES_READ: Final = 400_000
"""Words and pieces of words of one script, expansions included; reading stops there."""
MAX_CONDITION: Final = 1_000
"""Characters of a test that are kept."""
MAX_NESTED_TEXT: Final = 500_000
"""Characters of ``bash -c`` strings and heredocs read as scripts of their own, all together."""
NESTED_COST: Final = 16
"""What a nested script costs of that besides its text."""
MAX_FRAMES: Final = 200
"""Open ``if``, ``for``, ``case``, ``{`` … at one time; beyond that reading stops."""
_BLANK: Final = re.compile(r"(?:[ \t]|\\\r?\n)+")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^\]\s]*\])?(\+?=)")
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.:-]*)[ \t]*\([ \t]*\)")
_REDIRECT: Final = re.compile(r"([0-9]+|\{\w+\})?(<<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|&>>?")
_LOST_FLAG: Final = re.compile(
    r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*[ \t]*(?=--?[A-Za-z]|\+{0,2}[A-Za-z_]\w*(?:\.[\w-]+)+=)"
)
_SLASH_BLANKS: Final = re.compile(r"\\[ \t]+(?=[\r\n]|$)")
_DIRECTIVE: Final = re.compile(r"#SBATCH[ \t]+")
_DIRECTIVE_WORD: Final = re.compile(r"(?:[^\s\"'#]|(?<=[^\s])#|\"[^\"\r\n]*\"|'[^'\r\n]*')+")
_UNSET_TEST: Final = re.compile(r"-z[ \t]+\"?\$\{?([A-Za-z_]\w*)(?::?[-+]x?)?\}?\"?")
_ESAC: Final = re.compile(r"esac\b")
_IN: Final = re.compile(r"(?:[ \t\r\n]|\\\r?\n)*in\b")
_FUNCTION_NAME: Final = re.compile(r"[ \t]*([A-Za-z_][\w.:-]*)[ \t]*(?:\([ \t]*\))?[ \t\r\n]*(\{)?")
_FUNCTION_BODY: Final = re.compile(r"[ \t\r\n]*\{(?=[\s]|$)")
_TEST_END: Final = re.compile(r"\s\]\](?=[\s;&|)]|$)")
_RESERVED: Final = frozenset(
    {"if", "then", "elif", "else", "fi", "for", "select", "while", "until", "do", "done", "case", "esac", "function"}
    | {"{", "}", "!"}
)
_DECLARERS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_COMMAND_OPTIONS: Final = frozenset({"--wrap", "--command", "--COMMAND"})
"""Options that hold a command: of sbatch, of xpk, gcloud and MaxText's multihost runners."""
_SHELL_ENTRY_POINTS: Final = frozenset(
    f"--entrypoint={folder}{shell}" for shell in _SHELLS for folder in ("", "/bin/", "/usr/bin/")
)
_SHELL_TEXT: Final = re.compile(r"-[a-z]*c")
"""``-c`` and ``-lc`` of a shell, whose next word is a script."""
_COMMAND_WORDS: Final = frozenset({"tmux", "ssh", "pdsh"})
"""Programs that run, or type elsewhere, what one of their words spells: ``tmux new -d "…"``, ``ssh host "…"``."""
_LAUNCHER_LINE: Final = re.compile(
    r"^[ \t]*(?:exec |srun [^\n]*)?(?:torchrun|vllm serve|accelerate launch|deepspeed|sglang serve|trtllm-serve|llama-server"
    r"|python3? -m (?:vllm|sglang|torch\.distributed)\b)[ \t.]",
    re.MULTILINE,
)
_MANIFEST_LINE: Final = re.compile(r"^[ \t]*apiVersion:", re.MULTILINE)
_TO_FILL_IN: Final = re.compile(r"REPLACE_ENV_[A-Z]")
"""What llm-d-benchmark fills in before it uses the text."""
_VARIABLE_ALONE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_BLANK_INSIDE: Final = re.compile(r"\S[ \t\n\\]+\S")
_TESTS: Final = frozenset({"[", "[[", "test"})


@dataclass(slots=True)
class _Frame:
    """An open compound command. ``outcomes``: for each finished branch the values it left."""

    kind: str
    start: int
    outcomes: list[dict[str, Variable | None]] = field(default_factory=list)
    before: dict[str, Variable | None] = field(default_factory=dict)
    otherwise: bool = False
    pattern: bool = False
    condition: str = ""
    name: str = ""


@dataclass(slots=True)
class _Heredoc:
    delimiter: str
    literal: bool
    tabs: bool


@dataclass(slots=True)
class _Building:
    """The simple command being read."""

    start: int
    end: int = 0
    words: list[Word] = field(default_factory=list)
    fields: list[list[Piece]] = field(default_factory=list)
    assignments: dict[str, Word] = field(default_factory=dict)
    replaced: dict[str, Variable | None] = field(default_factory=dict)
    heredocs: list[_Heredoc] = field(default_factory=list)
    output: Word | None = None
    comment: tuple[int, int] | None = None
    slash: tuple[int, int] | None = None


class Scanner(WordReader):
    """Reads the commands of ``text`` into ``file.script``.

    ``depth`` counts scripts within scripts. Problems and comments are those of the outermost text only.
    """

    def __init__(
        self,
        file: SourceFile,
        text: str,
        starts: Sequence[int] | None = None,
        ends: Sequence[int] | None = None,
        *,
        depth: int = 0,
        outer: Scanner | None = None,
        directives: bool = False,
    ) -> None:
        super().__init__(file, text, outer.variables if outer else Variables(file.text), starts, ends)
        self.script: Script = file.script if file.script is not None else Script()
        self.depth = depth
        self.functions: dict[str, dict[str, Variable | None]] = outer.functions if outer else {}
        self.budget: list[int] = outer.budget if outer else [MAX_PIECES_READ, MAX_NESTED_TEXT]
        self.frames: list[_Frame] = []
        self.building = _Building(0)
        self.pending: list[tuple[_Heredoc, Command | None]] = []
        self.operator = ""
        """``&&`` or ``||`` before the command being read."""
        self.tested = ""
        """The test that the list being read began with."""
        self.header = depth == 0 or directives
        """No command has been read yet: ``#SBATCH`` lines count."""
        self.export_all = False

    # the whole

    def run(self) -> None:
        base = len(self.variables.journals)
        try:
            self.commands()
        except OpenQuote as stop:
            self.finish(self.size, at_newline=False)
            if self.depth == 0:
                span = Span(stop.at, min(stop.at + 1, self.size))
                message = f"the text ends inside {stop.what} opened here"
                self.file.problems.append(Problem(OPEN_QUOTE, message, span, accepted_by=("shell fragment",)))
        except Stop:
            pass
        while len(self.variables.journals) > base:
            self.variables.close_branch()

    def commands(self) -> None:
        at = 0
        text, size = self.text, self.size
        while True:
            at = self.blanks(at)
            if self.frames and self.frames[-1].pattern and not self.building.words:
                at = self.case_pattern(at)
                if at >= size:
                    break
                continue
            if at >= size:
                break
            char = text[at]
            if char == "\n" or char == "\r":
                at = self.newline(at)
            elif char == "#":
                at = self.comment(at)
            elif char in ";&|()" and not text.startswith("&>", at):
                at = self.control(at)
            else:
                redirect = _REDIRECT.match(text, at)
                if redirect and not PLACEHOLDER.match(text, at):
                    at = self.redirect(at, redirect)
                else:
                    at = self.token(at)
        self.finish(size, at_newline=False)

    def blanks(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def newline(self, at: int) -> int:
        after = NEWLINE.match(self.text, at).end()  # type: ignore[union-attr]
        self.finish(at, at_newline=True)
        pending, self.pending = self.pending, []
        for heredoc, command in pending:
            after = self.heredoc(after, heredoc, command)
        self.operator = self.tested = ""
        return after

    def comment(self, at: int) -> int:
        end = LINE.match(self.text, at).end()  # type: ignore[union-attr]
        if self.depth == 0:
            self.file.comments.append(Comment(Span(at, end), self.text[at:end].lstrip("#").strip()))
        if self.header:
            directive = _DIRECTIVE.match(self.text, at)
            if directive and (at == 0 or self.text[at - 1] in "\r\n"):
                self.directive(directive.end(), end)
        self.building.comment = (at, end)
        return end

    def directive(self, at: int, end: int) -> None:
        for found in _DIRECTIVE_WORD.finditer(self.text, at, end):
            if self.text[at : found.start()].strip(" \t"):  # a comment, or a quote that does not close
                return
            raw = found.group()
            content = raw.replace('"', "").replace("'", "")
            known = "$" not in content
            span = self.span(found.start(), found.end())
            self.script.directives.append(Word(content, raw, span, known, content != raw))
            at = found.end()

    def control(self, at: int) -> int:
        text = self.text
        pair = text[at : at + 2]
        if text.startswith(";;&", at):
            operator = ";;&"
        elif pair in ("&&", "||", ";;", ";&", "|&"):
            operator = pair
        else:
            operator = text[at]
        end = at + len(operator)
        if operator == "(":
            return self.parenthesis(at)
        self.finish(at, at_newline=False)
        if operator in (";;", ";&", ";;&"):
            if self.frames and self.frames[-1].kind == "case":
                self.end_branch(self.frames[-1])
                self.frames[-1].pattern = True
            self.operator = ""
        elif operator == ")":
            if self.frames and self.frames[-1].kind == "(":
                self.pop(merge=False)
            self.operator = ""
        else:
            self.operator = operator if operator in ("&&", "||") else ""
        if not self.operator:
            self.tested = ""
        return end

    def parenthesis(self, at: int) -> int:
        text = self.text
        if self.building.words or self.building.assignments:
            # not shell: leave the command, go on behind
            self.finish(at, at_newline=False)
            return at + 1
        if text.startswith("((", at):
            end = self.close(at + 2, ")")
            if end > 0 and text[end : end + 1] == ")":
                return end + 1
        self.push("(", at)
        return at + 1

    # compound commands

    def push(self, kind: str, at: int, name: str = "") -> _Frame:
        if len(self.frames) >= MAX_FRAMES:
            raise Stop
        frame = _Frame(kind, at, name=name)
        self.frames.append(frame)
        self.variables.open_branch()
        return frame

    def end_branch(self, frame: _Frame) -> None:
        before, after = self.variables.close_branch()
        for name, value in before.items():
            frame.before.setdefault(name, value)
        frame.outcomes.append(after)
        self.variables.open_branch()

    def pop(self, *, merge: bool) -> None:
        frame = self.frames.pop()
        before, after = self.variables.close_branch()
        if frame.kind == "function":
            self.functions[frame.name] = after
        if not merge:
            return
        for name, value in before.items():
            frame.before.setdefault(name, value)
        if not frame.pattern:  # behind ;; no branch is open
            frame.outcomes.append(after)
        unset = {m.group(1) for m in _UNSET_TEST.finditer(frame.condition)} if frame.kind == "if" else set()
        for name, old in frame.before.items():
            ends = [outcome.get(name, old) for outcome in frame.outcomes]
            if not frame.otherwise and not (old is None and name in unset):
                ends.append(old)
            self.variables.set(name, _merged(name, ends))

    def case_pattern(self, at: int) -> int:
        """Behind the next pattern of a ``case``, or behind its ``esac``."""
        text = self.text
        while True:
            at = self.blanks(at)
            char = text[at : at + 1]
            if char in ("\n", "\r"):
                at += 1
            elif char == "#":
                at = self.comment(at)
            else:
                break
        if _ESAC.match(text, at):
            self.pop(merge=True)
            self.building = _Building(at + 4)
            return at + 4
        start = at
        if text[at : at + 1] == "(":
            at += 1
        end = self.close(at, ")")
        if end < 0:
            raise Stop
        frame = self.frames[-1]
        frame.pattern = False
        if text[start : end - 1].strip(" \t(") == "*":
            frame.otherwise = True
        self.building = _Building(end)
        return end

    def reserved(self, word: str, at: int, end: int) -> int | None:
        """Behind a reserved word at command position, None where ``word`` is none."""
        frames = self.frames
        top = frames[-1].kind if frames else ""
        if word == "if":
            self.push("if", end)
        elif word in ("while", "until"):
            self.push("loop", at)
        elif word == "then":
            if top == "if" and not frames[-1].outcomes and not frames[-1].condition:
                frames[-1].condition = self.text[frames[-1].start : at][:MAX_CONDITION]
        elif word in ("else", "elif"):
            if top == "if":
                self.end_branch(frames[-1])
                frames[-1].otherwise = word == "else"
        elif word == "fi":
            if top == "if":
                self.pop(merge=True)
        elif word == "do":
            pass
        elif word == "done":
            if top == "loop":
                self.pop(merge=True)
        elif word in ("for", "select"):
            return self.for_loop(at, end)
        elif word == "case":
            return self.case_word(at, end)
        elif word == "esac":
            if top == "case":
                self.pop(merge=True)
        elif word == "{":
            self.push("{", at)
        elif word == "}":
            if top == "function":
                self.pop(merge=False)
            elif top == "{":
                self.group()
        elif word == "function":
            return self.function(at, end)
        elif word != "!":
            return None
        self.operator = self.tested = ""
        return end

    def group(self) -> None:
        """Close ``{ … }``: what it set stays set."""
        self.frames.pop()
        _, after = self.variables.close_branch()
        for name, value in after.items():
            self.variables.set(name, value)

    def for_loop(self, at: int, end: int) -> int:
        text = self.text
        here = self.blanks(end)
        if text.startswith("((", here):
            close = self.close(here + 2, ")")
            self.push("loop", at)
            return close + 1 if close > 0 and text[close : close + 1] == ")" else here + 2
        name = NAME.match(text, here)
        if not name:
            return end
        self.push("loop", at)
        self.variables.set(name.group(), Variable(shown=self.span(name.start(), name.end())))
        here = self.blanks(name.end())
        while here < self.size and text[here] not in ";\r\n":
            if text[here] in "&|()<>":
                here += 1
            elif text[here] == "#":
                here = LINE.match(text, here).end()  # type: ignore[union-attr]
            else:
                here = self.word(here, Fields())
            here = self.blanks(here)
        return here

    def case_word(self, at: int, end: int) -> int:
        here = self.blanks(end)
        if here >= self.size or self.text[here] in "\r\n;&|()<>":
            return end
        here = self.word(here, Fields())
        found = _IN.match(self.text, here)
        if not found:
            return here
        self.push("case", at).pattern = True
        return found.end()

    def function(self, at: int, end: int) -> int:
        found = _FUNCTION_NAME.match(self.text, end)
        if not found:
            return end
        if found.group(2):
            self.push("function", at, found.group(1))
        return found.end()

    # simple commands

    def token(self, at: int) -> int:
        """A word or assignment at ``at``."""
        text = self.text
        building = self.building
        first = not building.words
        if first and not building.assignments:
            building.start = at
            plain = PLAIN.match(text, at)
            if plain:
                end = self.opening(plain.group(), at, plain.end())
                if end is not None:
                    return end
        declares = not first and building.words[0].text in _DECLARERS
        if not first and not declares and self.starts is None and self.plain_word(at):
            return building.end
        if first or declares:
            found = _ASSIGNMENT.match(text, at)
            if found:
                return self.assignment(found)
        if first:
            self.restore()
        slash = _SLASH_BLANKS.match(text, at)
        if slash:
            building.slash = (at, slash.end())
            return slash.end()
        fields = Fields()
        end = self.word(at, fields)
        if end <= at:
            return at + 1
        self.take(fields, at, end)
        return end

    def plain_word(self, at: int) -> bool:
        """Take a word that needs no thought: most do not."""
        text = self.text
        plain = PLAIN.match(text, at)
        if not plain:
            return False
        end = plain.end()
        if end < self.size and text[end] not in " \t\r\n;|&":
            return False
        self.budget[0] -= 2
        if self.budget[0] < 0:
            raise Stop
        raw = plain.group()
        self.building.words.append(Word(raw, raw, Span(at, end)))
        self.building.fields.append([Piece(raw, at, end)])
        self.building.end = end
        return True

    def opening(self, word: str, at: int, end: int) -> int | None:
        """Compound commands and function definitions that begin where a command may begin."""
        text = self.text
        if word in _RESERVED and (end >= self.size or text[end] in " \t\r\n;&|()<>"):
            behind = self.reserved(word, at, end)
            if behind is not None:
                self.building = _Building(behind)
                return behind
        if word == "[[":
            close = _TEST_END.search(text, end) if self.failures < MAX_FAILURES else None
            if close is None:
                self.failures += 1
            else:
                self.tested = text[at : close.end()][:MAX_CONDITION]
                self.building = _Building(close.end())
                return close.end()
        if end < self.size and (text[end] == "(" or text[end] in " \t"):
            found = _FUNCTION.match(text, at)
            if found and found.group(1) not in ("if", "while"):
                body = _FUNCTION_BODY.match(text, found.end())
                if body:
                    self.push("function", at, found.group(1))
                    self.building = _Building(body.end())
                    return body.end()
                return found.end()
        return None

    def restore(self) -> None:
        """Assignments before a command hold for that command only."""
        for name, old in self.building.replaced.items():
            self.variables.set(name, old)
        self.building.replaced = {}

    def take(self, fields: Fields, at: int, end: int) -> None:
        building = self.building
        words = fields.words()
        self.budget[0] -= sum([len(pieces) for pieces in words]) + 1
        if self.budget[0] < 0:
            raise Stop
        span = self.span(at, end)
        alone = len(words) == 1
        for pieces in words:
            building.words.append(
                word_of(self.file.text, pieces, span.start, span.end, alone=alone, quoted=fields.quoted)
            )
            building.fields.append(pieces)
        building.end = end

    def assignment(self, found: re.Match[str]) -> int:
        text = self.text
        name, index, sign = found.group(1), found.group(2), found.group(3)
        at = found.end()
        building = self.building
        declares = bool(building.words)
        if text[at : at + 1] == "(" and index is None:
            items, end = self.array(at + 1)
            variable = Variable(None, items, shown=self.span(at, end))
        else:
            fields = Fields(splitting=False)
            end = self.word(at, fields) if at < self.size else at
            variable = Variable(fields.pieces(), shown=self.span(at, end))
        old = self.variables.get(name)
        if index is not None:
            variable = Variable(shown=variable.shown)
        elif sign == "+=":
            variable = _appended(old, variable)
        exported = self.export_all or (old is not None and old.exported)
        if declares:
            words = [word.text for word in building.words]
            if words[0] == "export" or (words[0] in ("declare", "typeset") and any(w[:2] == "-x" for w in words)):
                exported = True
        self.budget[0] -= len(variable.pieces or ()) + len(variable.items or ()) + 1
        if self.budget[0] < 0:
            raise Stop
        if too_long(variable):
            variable = Variable(shown=variable.shown)
        variable = variable._replace(exported=exported)
        building.replaced.setdefault(name, old)
        self.variables.set(name, self.conditional(name, old, variable))
        building.assignments[name] = variable_word(self.file.text, variable)
        building.end = end
        if declares:
            fields = Fields(splitting=False)
            fields.add(self.piece(text[found.start() : at], found.start(), at))
            for piece in variable.pieces or ():
                fields.add(piece)
            self.take(fields, found.start(), end)
        return end

    def conditional(self, name: str, old: Variable | None, new: Variable) -> Variable:
        """What an assignment behind ``&&`` or ``||`` leaves: not known where it may not happen and would matter."""
        if self.operator not in ("&&", "||") or (self.operator == "&&" and not self.tested):
            return new
        if new.same_value(old):
            return new
        if old is None and self.operator == "&&" and name in _UNSET_TEST.findall(self.tested):
            return new
        return _merged(name, [old, new]) or new

    def array(self, at: int) -> tuple[tuple[tuple[Piece, ...], ...], int]:
        """The items up to the closing parenthesis, and the offset behind it."""
        text = self.text
        opened = at - 1
        items: list[tuple[Piece, ...]] = []
        while True:
            at = self.blanks(at)
            if at >= self.size:
                raise OpenQuote(opened, "an array")
            char = text[at]
            if char in "\r\n":
                at += 1
            elif char == "#":
                at = self.comment(at)
                self.building.comment = None
            elif char == ")":
                return tuple(items), at + 1
            elif char in ";&|<>(":
                at += 1
            else:
                fields = Fields()
                end = self.word(at, fields)
                items.extend(tuple(pieces) for pieces in fields.words())
                at = max(end, at + 1)

    def redirect(self, at: int, found: re.Match[str]) -> int:
        text = self.text
        operator = found.group(2) or "&>"
        here = self.blanks(found.end())
        if operator in ("<<", "<<-"):
            return self.heredoc_start(here, operator == "<<-")
        if here >= self.size or text[here] in "\r\n;&|()":
            return here
        fields = Fields(splitting=False)
        end = self.word(here, fields)
        if operator in (">", ">>", ">|", "&>", "&>>") and found.group(1) in (None, "1"):
            span = self.span(here, end)
            self.building.output = word_of(
                self.file.text, list(fields.pieces()), span.start, span.end, alone=True, quoted=fields.quoted
            )
        return max(end, here)

    def heredoc_start(self, at: int, tabs: bool) -> int:
        text = self.text
        delimiter: list[str] = []
        literal = False
        while at < self.size and text[at] not in " \t\r\n;&|<>()":
            char = text[at]
            if char in "'\"":
                end = text.find(char, at + 1)
                if end < 0:
                    raise OpenQuote(at, "quotes")
                delimiter.append(text[at + 1 : end])
                literal = True
                at = end + 1
            elif char == "\\":
                delimiter.append(text[at + 1 : at + 2])
                literal = True
                at += 2
            else:
                delimiter.append(char)
                at += 1
        self.building.heredocs.append(_Heredoc("".join(delimiter), literal, tabs))
        return min(at, self.size)

    def heredoc(self, at: int, heredoc: _Heredoc, command: Command | None) -> int:
        """Read a heredoc's body, which begins at ``at``; the offset of the line behind it."""
        text = self.text
        end, behind = heredoc_end(text, at, heredoc.delimiter, heredoc.tabs, self.size)
        if command is None:
            return behind
        command.heredoc = text[at:end]
        command.heredoc_span = self.span(at, end)
        words = [word.text for word in command.words]
        if words[0] == "read":
            self.read_heredoc(words, at, end, heredoc)
        elif _feeds_shell(words):
            self.nested(*self.unescaped(at, end, heredoc.literal), directives=any(w == "sbatch" for w in words))
        elif words[0] in ("cat", "tee") and _starts_programs(text[at:end]):
            before = len(self.script.commands)
            self.nested(*self.unescaped(at, end, heredoc.literal))
            for inner in self.script.commands[before:]:
                inner.words = [replace(w, known=False) if _TO_FILL_IN.search(w.text) else w for w in inner.words]
        return behind

    def read_heredoc(self, words: list[str], at: int, end: int, heredoc: _Heredoc) -> None:
        """``read -r -d '' NAME <<EOF``: the whole body, without the blanks around it."""
        name = words[-1]
        if "-d" not in words or not NAME.fullmatch(name):
            return
        body = self.text[at:end]
        start = at + len(body) - len(body.lstrip())
        fields = Fields(splitting=False)
        self.expand_text(start, at + len(body.rstrip()), fields, literal=heredoc.literal)
        variable = Variable(fields.pieces(), shown=self.span(start, max(start, at + len(body.rstrip()))))
        self.variables.set(name, Variable(shown=variable.shown) if too_long(variable) else variable)

    def unescaped(self, at: int, end: int, literal: bool) -> tuple[str, list[int], list[int]]:
        """A heredoc's text as the inner shell gets it, with each character's place in the file."""
        text = self.text
        kept: list[int] = []
        while at < end:
            if not literal and text[at] == "\\" and at + 1 < end and text[at + 1] in "$`\\":
                at += 1
            kept.append(at)
            at += 1
        return (
            "".join(text[i] for i in kept),
            [self.start_of(i) for i in kept],
            [self.end_of(i + 1) for i in kept],
        )

    def finish(self, at: int, *, at_newline: bool) -> None:
        """End the command being read."""
        building = self.building
        self.building = _Building(at)
        if not building.words:
            self.header = self.header and not building.assignments
            self.pending.extend((heredoc, None) for heredoc in building.heredocs)
            return
        self.header = False
        words = building.words
        if at_newline:
            self.lost_arguments(building, at)
        program = words[0].text
        if program in self.functions:
            words[0] = replace(words[0], known=False)
        environment = self.variables.exported()
        if building.assignments and program not in _DECLARERS:
            environment = {**environment, **building.assignments}
        command = Command(
            words, self.span(building.start, building.end), building.assignments, environment, output=building.output
        )
        self.pending.extend((heredoc, command) for heredoc in building.heredocs)
        if program in _TESTS:
            self.tested = self.text[building.start : building.end][:MAX_CONDITION]
        if not program.startswith("-"):
            self.script.commands.append(command)
            self.effects(command)
            self.inner(command, building.fields)

    def effects(self, command: Command) -> None:
        """What builtins do to variables."""
        words = [word.text for word in command.words]
        program = words[0]
        if program == "export":
            for word in words[1:]:
                if NAME.fullmatch(word):
                    old = self.variables.get(word)
                    if old is not None:
                        self.variables.set(word, old._replace(exported=True))
        elif program == "unset":
            for word in words[1:]:
                if NAME.fullmatch(word):
                    self.variables.set(word, None)
        elif program == "set":
            if "-a" in words or "allexport" in words:
                self.export_all = "+a" not in words and "+o" not in words
        elif program in ("read", "mapfile", "readarray", "getopts", "printf", "let"):
            self.unknown_from(program, command)
        elif program in self.functions:
            self.budget[0] -= len(self.functions[program])
            for name, value in self.functions[program].items():
                old = self.variables.get(name)
                constant = value is not None and value.known
                if value is not None and constant and self._constant(value):
                    self.variables.set(name, value)
                elif value is None or not value.same_value(old):
                    shown = value.shown if value is not None else None
                    exported = bool((value and value.exported) or (old and old.exported))
                    self.variables.set(name, Variable(exported=exported, shown=shown))

    @staticmethod
    def _constant(value: Variable) -> bool:
        """True where a value was written out where it was assigned, with no variable in it."""
        if value.pieces is None or value.shown is None:
            return False
        return all(p.known and value.shown.start <= p.start and p.end <= value.shown.end for p in value.pieces)

    def unknown_from(self, program: str, command: Command) -> None:
        words = command.words[1:]
        if program == "printf":
            words = [words[1]] if len(words) > 1 and words[0].text == "-v" else []
        for word in words:
            name = word.text.partition("=")[0] if program == "let" else word.text
            if NAME.fullmatch(name):
                self.variables.set(name, Variable(shown=word.span))

    # scripts inside commands

    def inner(self, command: Command, fields: list[list[Piece]]) -> None:
        """``bash -c '…'``, ``eval "…"``, ``sbatch --wrap "…"`` and ``--command "…"`` of any program hold commands of their own."""
        words = command.words
        for i, word in enumerate(words[:-1]):
            name = word.text.rpartition("/")[2]
            if name in _SHELLS:
                j = i + 1
                while j < len(words) - 1 and words[j].text[:1] in ("-", "+"):
                    if not words[j].text.startswith("--") and "c" in words[j].text:
                        self.nested(*_characters(fields[j + 1]))
                        return
                    j += 1
            if (name in _SHELLS and words[i - 1].text == "--entrypoint") or word.text in _SHELL_ENTRY_POINTS:
                for j in range(i + 1, len(words) - 1):  # `docker run --entrypoint bash IMAGE -c "…"`
                    if _SHELL_TEXT.fullmatch(words[j].text) and any(blank in words[j + 1].text for blank in " \t\n"):
                        self.nested(*_characters(fields[j + 1]))
                        return
        program = command.program
        lead = 1 if program == "eval" and len(words) > 1 else 0
        if not words[lead].known and self.alternative(words[lead].text, words[lead + 1 :]):
            return
        if program == "eval" and len(words) == 2 and any(blank in words[1].text for blank in " \t\n"):
            self.evaluated(fields[1])
        elif program in _COMMAND_WORDS:
            for i, word in enumerate(words[1:], 1):
                if any(blank in word.text for blank in " \t\n") and words[i - 1].text not in ("-o", "-n"):
                    self.nested(*_characters(fields[i]))
        else:
            for i, word in enumerate(words):
                option, equals, _ = word.text.partition("=")
                if option not in _COMMAND_OPTIONS:
                    continue
                if equals:
                    text, starts, ends = _characters(fields[i])
                    cut = len(option) + 1
                    self.nested(text[cut:], starts[cut:], ends[cut:])
                elif i + 1 < len(words) and any(blank in words[i + 1].text for blank in " \t\n"):
                    self.nested(*_characters(fields[i + 1]))

    def alternative(self, word: str, rest: list[Word]) -> bool:
        """``$CMD …`` where branches gave CMD different commands: the last of them is read, as commands in branches are."""
        match = _VARIABLE_ALONE.fullmatch(word)
        value = self.variables.get(match.group(1)) if match else None
        if value is None or value.known or value.shown is None or self.starts is not None:
            return False
        start, end = value.shown.start, value.shown.end
        text = self.text
        if end - start > 1 and text[start] in "\"'" and text[end - 1] == text[start]:
            start, end = start + 1, end - 1
        if not _BLANK_INSIDE.search(text, start, end):
            return False
        before = len(self.script.commands)
        self.nested(text[start:end], list(range(start, end)), list(range(start + 1, end + 1)))
        if len(self.script.commands) == before:
            return False
        self.script.commands[-1].words = [*self.script.commands[-1].words, *rest]
        return True

    def evaluated(self, pieces: list[Piece]) -> None:
        """The text that ``eval`` reads again. What was unknown in it stays so: it has been looked up already."""
        names = {match[1] for piece in pieces if not piece.known and (match := _VARIABLE_ALONE.fullmatch(piece.text))}
        before = {name: value for name in names if (value := self.variables.get(name)) is not None}
        for name in before:
            self.variables.set(name, Variable())
        self.nested(*_characters(pieces))
        for name, value in before.items():
            self.variables.set(name, value)

    def nested(self, text: str, starts: list[int], ends: list[int], *, directives: bool = False) -> None:
        self.budget[1] -= len(text) + NESTED_COST
        if not text or self.depth >= MAX_NESTING or self.budget[1] < 0:
            return
        self.variables.open_branch()
        try:
            Scanner(self.file, text, starts, ends, depth=self.depth + 1, outer=self, directives=directives).run()
        finally:
            self.variables.close_branch()

    def substitution(self, at: int, end: int) -> None:
        """Commands of ``$( … )``, in place."""
        if self.starts is None:
            starts, ends = list(range(at, end)), list(range(at + 1, end + 1))
        else:
            starts, ends = list(self.starts[at:end]), list((self.ends or self.starts)[at:end])
        self.nested(self.text[at:end], starts, ends)

    def lost_arguments(self, building: _Building, at: int) -> None:
        """Report flags on the lines below a command that ended too early."""
        if self.depth or building.words[0].text.startswith("-") or building.heredocs:
            return
        after = NEWLINE.match(self.text, at)
        found = _LOST_FLAG.match(self.text, after.end()) if after else None
        if not found or not after:
            return
        flag = found.end()
        flag_end = LINE.match(self.text, flag).end()  # type: ignore[union-attr]
        lost = Span(flag, flag + len(self.text[flag:flag_end].rstrip(" \t\\")))
        if building.comment is not None:
            span = Span(*building.comment)
            why = "a comment ends the continued command here"
        elif building.slash is not None:
            span = Span(*building.slash)
            why = "blanks after the backslash end the continued command here"
        elif not self.text[max(building.end, 0) : at].strip(" \t"):
            span = Span(building.words[-1].span.start, building.end)
            last = building.words[-1]
            if last.use is not None:
                span = Span(last.use.start, last.use.end)
            why = "the command ends here, without a backslash"
        else:
            # a backslash with an empty line after it
            slash = self.text.rfind("\\", building.end, at)
            span = Span(slash, slash + 1) if slash >= 0 else Span(max(building.end - 1, 0), building.end)
            why = "an empty line after the backslash ends the command here"
        message = f"{why}: the arguments below it are not passed"
        self.file.problems.append(Problem(ARGUMENTS_LOST, message, span, related=((lost, "not passed"),)))


def _merged(name: str, ends: list[Variable | None]) -> Variable | None:
    """One value for what several branches leave: theirs where they agree, else what they begin with, and an unknown rest."""
    first = ends[0]
    if all(end is first for end in ends):
        return first
    set_ones = [end for end in ends if end is not None]
    exported = any(end.exported for end in set_ones)
    if first is not None and all(first.same_value(end) for end in ends):
        return first._replace(exported=exported)
    shown = set_ones[-1].shown
    if len(set_ones) == len(ends):
        rest = _unknown_rest(name, shown, set_ones)
        pieces = [end.pieces for end in set_ones if end.pieces is not None]
        if len(pieces) == len(ends) and (common := _beginning(pieces)):
            tails = [value[len(common) :] for value in pieces]
            if all(_starts_blank(tail) for tail in tails if tail) and not common[-1].text.endswith((" ", "\t", "\n")):
                common = (*common, Piece(" ", rest.start, rest.start))
            return Variable((*common, rest), exported=exported, shown=shown)
        items = [end.items for end in set_ones if end.items is not None]
        if len(items) == len(ends) and (kept := _beginning(items)):
            return Variable(None, (*kept, (rest,)), exported=exported, shown=shown)
    return Variable(exported=exported, shown=shown)


_T = TypeVar("_T")


def _beginning(values: list[tuple[_T, ...]]) -> tuple[_T, ...]:
    """What all begin with, written at the same place: ``A="$A --more"`` in a branch keeps what A was."""
    count = 0
    for parts in zip(*values):  # noqa: B905 - as far as the shortest goes
        if any(part != parts[0] for part in parts):
            break
        count += 1
    return values[0][:count]


def _starts_blank(pieces: tuple[Piece, ...]) -> bool:
    return pieces[0].text[:1] in (" ", "\t", "\n")


def _unknown_rest(name: str, shown: Span | None, ends: list[Variable]) -> Piece:
    """What follows a common beginning, at the place of an assignment."""
    if shown is None:
        pieces = [piece for end in ends for piece in (end.pieces or (end.items or ((),))[-1])]
        shown = Span(pieces[-1].start, pieces[-1].end) if pieces else Span(0, 0)
    return Piece(f"${{{name}}}", shown.start, shown.end, known=False)


def _appended(old: Variable | None, new: Variable) -> Variable:
    """``NAME+=…``."""
    if old is None:
        return new
    if new.items is not None:
        if old.items is not None:
            return Variable(None, (*old.items, *new.items), shown=new.shown)
        if old.pieces is not None:
            return Variable(None, (old.pieces, *new.items), shown=new.shown)
        return Variable(shown=new.shown)
    if old.pieces is not None and new.pieces is not None:
        return Variable((*old.pieces, *new.pieces), shown=new.shown)
    return Variable(shown=new.shown)


def _starts_programs(body: str) -> bool:
    """True for the text of a script that is written to a file: it begins with ``#!`` or has a launcher's line."""
    if _MANIFEST_LINE.search(body):
        return False
    return body.startswith(("#!/bin/", "#!/usr/bin/env")) or _LAUNCHER_LINE.search(body) is not None


def _feeds_shell(words: list[str]) -> bool:
    """True where a command reads a script from standard input."""
    programs = [word.rpartition("/")[2] for word in words]
    return programs[0] in ("sbatch", "ssh") or any(
        program in _SHELLS and not any(later[:1] not in ("-", "") for later in words[i + 1 :])
        for i, program in enumerate(programs)
    )


def _characters(pieces: list[Piece]) -> tuple[str, list[int], list[int]]:
    """Text of pieces with each character's place."""
    starts: list[int] = []
    ends: list[int] = []
    for piece in pieces:
        if piece.end - piece.start == len(piece.text):
            starts.extend(range(piece.start, piece.end))
            ends.extend(range(piece.start + 1, piece.end + 1))
        else:
            starts.extend([piece.start] * len(piece.text))
            ends.extend([piece.end] * len(piece.text))
    return "".join(piece.text for piece in pieces), starts, ends
