"""Shell text inside a YAML value, read with every word at its place in the file."""

from __future__ import annotations

from collections.abc import Iterable

from cfglint.source.node import Document, Scalar
from cfglint.source.shell import Command, Word, commands_of

_BETWEEN = " \t\r\n\\'\""
"""What a YAML value's source has beside the value's own characters: indentation, line breaks, quotes, escapes."""


def offsets_of(document: Document, scalar: Scalar, text: str) -> list[int]:
    """The place in the file of each character of a scalar's value."""
    source, end = document.file.text, scalar.span.end
    at = scalar.span.start
    if scalar.style in ("literal", "folded"):
        line = source.find("\n", at, end)
        at = end if line < 0 else line + 1
    elif scalar.quoted:
        at += 1
    offsets = []
    for character in text:
        if not character.isspace():
            step = at
            while step < end and source[step] != character and source[step] in _BETWEEN:
                step += 1
            if step < end and source[step] == character:
                at = step
        offsets.append(min(at, max(scalar.span.start, end - 1)))
        if at < end and (not character.isspace() or source[at] == character):
            at += 1
    return offsets


def shell_commands(document: Document, script: Scalar, variables: Iterable[tuple[str, Word]] = ()) -> list[Command]:
    """The commands of a script that is a YAML value. ``variables`` are set before it runs, as if exported on top of it."""
    text = script.value if isinstance(script.value, str) else ""
    before, places = "", []
    for name, word in variables:
        value = "'" + word.text.replace("'", "'\\''") + "'"
        line = f"export {name}={value}\n"
        before += line
        start = len(f"export {name}=")
        for i in range(len(line)):
            inside = i - start - 1
            places.append(word.span.start + min(max(inside, 0), max(word.span.end - word.span.start - 1, 0)))
    return commands_of(document.file, before + text, [*places, *offsets_of(document, script, text)])
