"""Command-line flags as a mapping node, so that a command is read with the same code as a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from cfglint.source.node import Entry, Mapping, Node, Scalar, Sequence, Span, Value
from cfglint.source.shell import Word


@dataclass(slots=True, eq=False)
class Arguments:
    """Flags by name (dashes as underscores) and the words that belong to none."""

    mapping: Mapping
    positionals: list[Word] = field(default_factory=list)


def scalar_of(word: Word) -> Scalar:
    """A word as the scalar an argument parser would make of it: int, float, bool, else text. Unknown words stay text."""
    return Scalar(
        word.span, typed(word.text) if word.known else word.text, word.raw, "double" if word.quoted else "plain"
    )


def typed(text: str) -> Value:
    """``8`` → 8, ``1e-5`` → 1e-05, ``True`` → True, ``none``/text → text."""
    if text in ("True", "true"):
        return True
    if text in ("False", "false"):
        return False
    if text[:1] in "+-.0123456789" and len(text) <= 64:
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            pass
    return text


def is_flag(word: Word) -> bool:
    """A word that starts an option. ``-1`` and ``-0.5`` are values."""
    text = word.text
    if not text.startswith("-") or len(text) < 2:
        return False
    return not (text[1].isdigit() or text[1] == ".")


def flag_name(text: str) -> str:
    return text.lstrip("-").replace("-", "_")


def read_flags(words: Iterable[Word], booleans: Collection[str] = (), several: Collection[str] = ()) -> Arguments:
    """Flags and positionals of ``words`` (without the program).

    ``booleans`` take no value (a following word is a positional); a flag not named there takes the next word unless that
    is a flag. A flag followed by several words takes them all when it is in ``several``. ``--no-x`` of a flag ``x``
    stays ``no_x``. A flag given twice keeps both entries, the last wins, as argparse has it.
    """
    items = list(words)
    entries: list[Entry] = []
    positionals: list[Word] = []
    i = 0
    while i < len(items):
        word = items[i]
        i += 1
        if word.text == "--":
            positionals.extend(items[i:])
            break
        if not is_flag(word):
            positionals.append(word)
            continue
        text, equals, inline = word.text.partition("=")
        name = flag_name(text)
        if not name:
            continue
        key_end = word.span.start + (len(text) if word.raw.startswith(text) else word.span.end - word.span.start)
        key = Scalar(Span(word.span.start, key_end), name, text)
        value: Node
        if equals:
            value_start = min(key_end + 1, word.span.end) if word.raw.startswith(text) else word.span.start
            value = Scalar(
                Span(value_start, word.span.end),
                typed(inline) if word.known else inline,
                inline,
                "double" if word.quoted else "plain",
            )
        elif name in booleans or i >= len(items) or is_flag(items[i]):
            value = Scalar(word.span, True, "")
        elif name in several:
            taken = []
            while i < len(items) and not is_flag(items[i]):
                taken.append(items[i])
                i += 1
            value = Sequence(Span(taken[0].span.start, taken[-1].span.end), [scalar_of(w) for w in taken])
        else:
            value = scalar_of(items[i])
            i += 1
        entries.append(Entry(key, value))
    if items:
        span = Span(min(w.span.start for w in items), max(w.span.end for w in items))
    else:
        span = Span(0, 0)
    return Arguments(Mapping(span, entries), positionals)


CALLERS = frozenset({"$@", "${@}", "$*", "${*}", "${@:1}", "${@:2}"})
"""What the script itself was called with: nothing, as far as anyone knows."""


def open_ended(words: Iterable[Word]) -> bool:
    """True where arguments may hide in a word that is not known: ``${OPTIONS}``, set differently by branches."""
    return any(not word.known and word.text[:1] in "$`" and word.text not in CALLERS for word in words)
