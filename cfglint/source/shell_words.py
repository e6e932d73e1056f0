"""Words of shell text: quotes, expansions, and the brackets they come in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cfglint.source.node import SourceFile, Span
from cfglint.source.shell_arithmetic import evaluate
from cfglint.source.shell_values import Fields, Piece, Variable, Variables

MAX_FAILURES: Final = 4
"""Brackets searched in vain to the end of the text before the search is given up, which keeps the time linear."""
MAX_NESTING: Final = 8
"""Scripts inside scripts, and defaults inside defaults."""
PLAIN: Final = re.compile(r"[^ \t\r\n\\'\"$`;&|<>()]+")
PLACEHOLDER: Final = re.compile(r"<[A-Za-z](?:[\w ./:,'-]{0,78}[\w.])?>")
"""``<PATH TO THE DATASET>``: to be filled in by hand; a shell would take it for two redirections."""
_IN_DOUBLE: Final = re.compile(r"[^\\\"$`]+")
_IN_HEREDOC: Final = re.compile(r"[^\\$`]+")
NEWLINE: Final = re.compile(r"\r\n|\n|\r")
LINE: Final = re.compile(r"[^\r\n]*")
NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PARAMETER: Final = re.compile(r"[A-Za-z_]\w*|[0-9]|[@*#?$!-]")
_CAT_HEREDOC: Final = re.compile(r"\s*cat\s*<<-?[ \t]*(\\|['\"]?)([\w.-]+)['\"]?[ \t]*\r?\n")
_INTERESTING: Final = {
    ")": re.compile(r"[\\'\"`$()#<\n]"),
    "}": re.compile(r"[\\'\"`$}]"),
    '"': re.compile(r"[\\\"`$]"),
}
_IN_ANSI: Final = re.compile(r"[^\\']+")
_DEFAULT: Final = re.compile(r"(\[[@*]\])?(:?[-=+?])")
_INDEX: Final = re.compile(r"\[([0-9]{1,6})\]$")
_HEREDOC_INSIDE: Final = re.compile(r"<(-?)[ \t]*['\"\\]?([A-Za-z_][\w.-]*)['\"]?")
_COUNT: Final = re.compile(r"#([A-Za-z_]\w*)\[[@*]\]\}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class Stop(Exception):
    """The rest is not read."""


class OpenQuote(Stop):
    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


class WordReader:
    """Reads words of ``text``, expanding what is known.

    ``starts`` and ``ends`` give each character's place in the file where the two texts differ (a ``bash -c`` string, a
    heredoc).
    """

    def __init__(
        self,
        file: SourceFile,
        text: str,
        variables: Variables,
        starts: Sequence[int] | None = None,
        ends: Sequence[int] | None = None,
    ) -> None:
        self.file = file
        self.text = text
        self.size = len(text)
        """Where reading ends: the text's end, or that of the part being expanded."""
        self.starts = starts
        self.ends = ends
        self.variables = variables
        self.nesting = 0
        self.failures = 0

    # places

    def start_of(self, at: int) -> int:
        if self.starts is None:
            return at
        return self.starts[at] if at < len(self.starts) else (self.ends[-1] if self.ends else 0)

    def end_of(self, at: int) -> int:
        if self.ends is None:
            return at
        return self.ends[at - 1] if 0 < at <= len(self.ends) else self.start_of(at)

    def span(self, start: int, end: int) -> Span:
        begin = self.start_of(start)
        return Span(begin, max(begin, self.end_of(end)))

    def piece(self, text: str, start: int, end: int, *, known: bool = True, quoted: bool = False) -> Piece:
        span = self.span(start, end)
        return Piece(text, span.start, span.end, known, quoted)

    def substitution(self, at: int, end: int) -> None:
        """What to do with the commands of ``$( … )``, which stand from ``at`` to ``end``."""

    # words

    def word(self, at: int, fields: Fields) -> int:
        """Read one written word into ``fields``; the offset behind it."""
        text, size = self.text, self.size
        while at < size:
            plain = PLAIN.match(text, at, size)
            if plain:
                fields.add(self.piece(plain.group(), at, plain.end()))
                at = plain.end()
                continue
            char = text[at]
            if char == "\\":
                newline = NEWLINE.match(text, at + 1, size)
                if newline:
                    at = newline.end()
                    continue
                if at + 1 < size:
                    fields.add(self.piece(text[at + 1], at + 1, at + 2, quoted=True))
                at += 2
            elif char == "'":
                end = text.find("'", at + 1, size)
                if end < 0:
                    raise OpenQuote(at, "quotes")
                fields.quote()
                if end > at + 1:
                    fields.add(self.piece(text[at + 1 : end], at + 1, end, quoted=True))
                at = end + 1
            elif char == '"':
                fields.quote()
                at = self.double_quoted(at + 1, fields)
            elif char == "$":
                at = self.dollar(at, fields, quoted=False)
            elif char == "`":
                at = self.backtick(at, fields, quoted=False)
            elif char in "<>" and text[at + 1 : at + 2] == "(":
                end = self.close(at + 2, ")")
                if end < 0:
                    raise OpenQuote(at, "a process substitution")
                fields.add(self.piece(text[at:end], at, end, known=False))
                at = end
            elif char == "<" and (placeholder := PLACEHOLDER.match(text, at, size)):
                fields.add(self.piece(placeholder.group(), at, placeholder.end(), known=False))
                at = placeholder.end()
            else:
                break
        return min(at, size)

    def double_quoted(self, at: int, fields: Fields, *, heredoc: bool = False, inner: bool = False) -> int:
        """Text up to the closing double quote (or to the end of a heredoc); the offset behind it.

        ``inner``: up to the next double quote or the end, which is left where it stands.
        """
        text, size = self.text, self.size
        opened = at - 1
        pattern = _IN_HEREDOC if heredoc else _IN_DOUBLE
        while at < size:
            plain = pattern.match(text, at, size)
            if plain:
                fields.add(self.piece(plain.group(), at, plain.end(), quoted=True))
                at = plain.end()
                continue
            char = text[at]
            if char == '"':
                return at if inner else at + 1
            if char == "\\":
                newline = NEWLINE.match(text, at + 1, size)
                if newline:
                    at = newline.end()
                elif text[at + 1 : at + 2] in ("$", "`", "\\") or (text[at + 1 : at + 2] == '"' and not heredoc):
                    fields.add(self.piece(text[at + 1], at + 1, at + 2, quoted=True))
                    at += 2
                else:
                    fields.add(self.piece("\\", at, at + 1, quoted=True))
                    at += 1
            elif char == "$":
                at = self.dollar(at, fields, quoted=True)
            else:
                at = self.backtick(at, fields, quoted=True)
        if heredoc or inner:
            return min(at, size)
        raise OpenQuote(opened, "quotes")

    def backtick(self, at: int, fields: Fields, *, quoted: bool) -> int:
        text = self.text
        end = at + 1
        while True:
            end = text.find("`", end, self.size)
            if end < 0:
                raise OpenQuote(at, "backquotes")
            if text[end - 1] != "\\":
                break
            end += 1
        fields.add(self.piece(text[at : end + 1], at, end + 1, known=False, quoted=quoted))
        self.substitution(at + 1, end)
        return end + 1

    def dollar(self, at: int, fields: Fields, *, quoted: bool) -> int:
        text = self.text
        following = text[at + 1 : at + 2] if at + 1 < self.size else ""
        if following == "(":
            return self.parenthesized(at, fields, quoted=quoted)
        if following == "{":
            end = self.close(at + 2, "}", quoted=quoted)
            if end < 0:
                raise OpenQuote(at, "${")
            self.braced(at, end, fields, quoted=quoted)
            return end
        if following == "'" and not quoted:
            return self.ansi(at, fields)
        if following == '"' and not quoted:
            fields.quote()
            return self.double_quoted(at + 2, fields)
        name = _PARAMETER.match(text, at + 1, self.size)
        if not name:
            fields.add(self.piece("$", at, at + 1, quoted=quoted))
            return at + 1
        self.value(name.group(), at, name.end(), fields, quoted=quoted)
        return name.end()

    def value(self, name: str, at: int, end: int, fields: Fields, *, quoted: bool, whole: bool = False) -> None:
        """A variable's value, or the text as written where it is not known. ``whole``: every item of an array."""
        variable = self.variables.get(name)
        if variable is not None and variable.items is not None:
            if whole:
                fields.expand_array(variable.items, quoted)
            elif variable.items:
                fields.expand(variable.items[0], quoted)
            return
        if variable is not None and variable.pieces is not None:
            fields.expand(variable.pieces, quoted)
            return
        fields.add(self.piece(self.text[at:end], at, end, known=False, quoted=quoted))

    def ansi(self, at: int, fields: Fields) -> int:
        """``$'…'`` with C escapes."""
        text = self.text
        here = at + 2
        fields.quote()
        while True:
            found = _IN_ANSI.match(text, here, self.size)
            if found:
                fields.add(self.piece(found.group(), here, found.end(), quoted=True))
                here = found.end()
            if here >= self.size:
                raise OpenQuote(at, "quotes")
            if text[here] == "'":
                return here + 1
            escape = text[here + 1 : here + 2]
            content = _ESCAPES.get(escape, escape)
            fields.add(self.piece(content, here, min(here + 2, self.size), quoted=True))
            here += 2

    def parenthesized(self, at: int, fields: Fields, *, quoted: bool) -> int:
        """``$(…)`` or ``$((…))``."""
        text = self.text
        end = self.close(at + 2, ")")
        if end < 0:
            raise OpenQuote(at, "$(")
        if text.startswith("$((", at) and text[end - 2 : end] == "))":
            result = evaluate(text[at + 3 : end - 2], self.integer)
            if result is not None:
                fields.add(self.piece(str(result), at, end, quoted=quoted))
            else:
                fields.add(self.piece(text[at:end], at, end, known=False, quoted=quoted))
            return end
        found = _CAT_HEREDOC.match(text, at + 2, end - 1)
        if found:
            body, behind = heredoc_end(text, found.end(), found.group(2), True, end - 1)
            if not text[behind : end - 1].strip():
                body = max(
                    found.end(), body - (len(text[found.end() : body]) - len(text[found.end() : body].rstrip("\r\n")))
                )
                inner = Fields(splitting=False)
                self.expand_text(found.end(), body, inner, literal=bool(found.group(1)))
                fields.expand([piece._replace(quoted=quoted) for piece in inner.pieces()], quoted)
                return end
        fields.add(self.piece(text[at:end], at, end, known=False, quoted=quoted))
        self.substitution(at + 2, end - 1)
        return end

    def integer(self, name: str) -> int | None:
        variable = self.variables.get(name)
        if variable is None or variable.pieces is None or not all(p.known for p in variable.pieces):
            return None
        content = "".join(piece.text for piece in variable.pieces).strip()
        return int(content) if re.fullmatch(r"-?[0-9]{1,18}", content) else None

    def braced(self, at: int, end: int, fields: Fields, *, quoted: bool) -> None:
        """``${…}``, from its dollar sign to behind its brace."""
        text = self.text
        count = _COUNT.match(text, at + 2, end)
        if count:
            counted = self.variables.get(count.group(1))
            if counted is not None and counted.items is not None:
                fields.add(self.piece(str(len(counted.items)), at, end, quoted=quoted))
            else:
                fields.add(self.piece(text[at:end], at, end, known=False, quoted=quoted))
            return
        name = _PARAMETER.match(text, at + 2, end - 1)
        if not name:
            fields.add(self.piece(text[at:end], at, end, known=False, quoted=quoted))
            return
        rest = name.end()
        variable = self.variables.get(name.group())
        if rest == end - 1:
            self.value(name.group(), at, end, fields, quoted=quoted)
            return
        operation = text[rest : end - 1]
        if operation in ("[@]", "[*]"):
            self.value(name.group(), at, end, fields, quoted=quoted and operation == "[@]", whole=True)
            return
        found = _DEFAULT.match(text, rest, end - 1)
        if found and name.group() not in "@*#?$!-":
            self.defaulted(name.group(), found, at, end, fields, quoted=quoted)
            return
        index = _INDEX.match(operation)
        if index and variable is not None and variable.items is not None and int(index.group(1)) < len(variable.items):
            fields.expand(variable.items[int(index.group(1))], quoted)
            return
        fields.add(self.piece(text[at:end], at, end, known=False, quoted=quoted))

    def defaulted(self, name: str, found: re.Match[str], at: int, end: int, fields: Fields, *, quoted: bool) -> None:
        """``${NAME:-word}`` and its like: a variable the script never sets counts as unset."""
        text = self.text
        variable = self.variables.get(name)
        operator = found.group(2)
        sign = operator[-1]
        absent = variable is None or (operator[0] == ":" and variable.empty)
        unknown = self.piece(text[at:end], at, end, known=False, quoted=quoted)
        if sign == "+":
            if variable is not None and not variable.known:
                fields.add(unknown)
            elif not absent:
                self.default(found.end(), end - 1, fields, quoted=quoted)
        elif not absent:
            self.value(name, at, end, fields, quoted=quoted, whole=bool(found.group(1)))
        elif sign == "?":
            fields.add(unknown)
        else:
            self.default(found.end(), end - 1, fields, quoted=quoted)
            if sign == "=" and NAME.fullmatch(name):
                content = Fields(splitting=False)
                self.default(found.end(), end - 1, content, quoted=quoted)
                exported = variable is not None and variable.exported
                shown = self.span(found.end(), end - 1)
                self.variables.set(name, Variable(content.pieces(), exported=exported, shown=shown))

    def default(self, start: int, end: int, fields: Fields, *, quoted: bool) -> None:
        """The word inside ``${NAME:-word}``."""
        if self.nesting >= MAX_NESTING:
            fields.add(self.piece(self.text[start:end], start, end, known=False, quoted=quoted))
            return
        size, self.size = self.size, end
        self.nesting += 1
        try:
            here = start
            while here < end:
                if quoted:
                    here = self.default_quoted(here, fields)
                    continue
                behind = self.word(here, fields)
                if behind <= here:
                    behind = here + 1
                    if self.text[here] in " \t\r\n" and fields.splitting:
                        fields.open = False
                    else:  # operators are text here
                        fields.add(self.piece(self.text[here], here, behind))
                here = behind
        finally:
            self.size = size
            self.nesting -= 1

    def default_quoted(self, at: int, fields: Fields) -> int:
        """A default inside double quotes: double quotes in it open and close, single quotes are text."""
        if self.text[at] == '"':
            return self.double_quoted(at + 1, fields)
        return max(self.double_quoted(at, fields, inner=True), at + 1)

    def expand_text(self, at: int, end: int, fields: Fields, *, literal: bool) -> None:
        """Heredoc text: dollar signs count, quotes do not."""
        if literal or at >= end:
            if end > at:
                fields.add(self.piece(self.text[at:end], at, end, quoted=True))
            return
        size, self.size = self.size, end
        try:
            self.double_quoted(at, fields, heredoc=True)
        finally:
            self.size = size

    def close(self, at: int, closer: str, *, quoted: bool = False) -> int:
        """The offset behind the bracket that closes what was opened before ``at``; -1 where there is none."""
        text, size = self.text, self.size
        if self.failures >= MAX_FAILURES:
            return -1
        stack = [closer]
        doubles = 1 if quoted else 0
        heredocs: list[tuple[str, bool]] = []
        while stack:
            top = stack[-1]
            found = _INTERESTING[top].search(text, at, size)
            if not found:
                return self.failed()
            at = found.end()
            char = found.group()
            if char == "\\":
                at += 1
            elif char == top:
                stack.pop()
                doubles -= top == '"'
            elif char == '"':
                stack.append('"')
                doubles += 1
            elif char == "'":
                if top == "}" and doubles:
                    continue
                at = text.find("'", at, size) + 1
                if not at:
                    return self.failed()
            elif char == "`":
                at = text.find("`", at, size) + 1
                if not at:
                    return self.failed()
            elif char == "$":
                following = text[at : at + 1]
                if following == "(":
                    stack.append(")")
                    at += 1
                elif following == "{":
                    stack.append("}")
                    at += 1
                elif following == "#":
                    at += 1
            elif char == "(":
                stack.append(")")
            elif char == "#":
                if at >= 2 and text[at - 2] in " \t\r\n;(":
                    at = LINE.match(text, at, size).end()  # type: ignore[union-attr]
            elif char == "<":
                opened = _HEREDOC_INSIDE.match(text, at, size)
                if opened and text[at - 2 : at - 1] != "<":
                    heredocs.append((opened.group(2), bool(opened.group(1))))
                    at = opened.end()
            elif char == "\n" and heredocs:
                for delimiter, tabs in heredocs:
                    _, at = heredoc_end(text, at, delimiter, tabs, size)
                heredocs = []
        return at if at <= size else self.failed()

    def failed(self) -> int:
        self.failures += 1
        return -1


def heredoc_end(text: str, at: int, delimiter: str, tabs: bool, size: int) -> tuple[int, int]:
    """The end of a heredoc's body and the offset of the line behind its delimiter."""
    lead = r"[ \t]*" if tabs else ""
    found = re.compile(rf"^{lead}{re.escape(delimiter)}[ \t]*(?:\r\n|\n|\r|$)", re.MULTILINE).search(text, at, size)
    if not found:
        return size, size
    return found.start(), min(found.end(), size)
