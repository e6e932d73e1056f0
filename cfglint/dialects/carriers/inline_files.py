"""Config files that stand inside another file: written by a script's heredoc, or held in a ConfigMap.

Each becomes a document of its own whose text is that of the outer file with all else blanked out, so that every place in it is
the place in the outer file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from cfglint.source import parse_text
from cfglint.source.detect import detect_format
from cfglint.source.node import Document, Mapping, Scalar, SourceFile, Span, value_at
from cfglint.source.shell import Command, Word, commands_of

INSIDE: Final = "inside"
"""Key of a reading's context: the name of the file that it was read from, where that stands inside another."""

MOST_FILES: Final = 8
"""Files that are read inside one."""
LONGEST: Final = 2**17
"""Characters of an outer file up to which it is searched."""

_NAMES: Final = (".json", ".yaml", ".yml", ".toml")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)")
_QUOTED: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")


def held_files(document: Document) -> Iterator[tuple[str, SourceFile]]:
    """Name and content of each config file that a ConfigMap's ``data`` holds as a block.

    YAML, JSON and TOML take the block's indentation as it is.
    """
    root, text = document.root, document.file.text
    if not isinstance(root, Mapping) or value_at(root, "kind") != "ConfigMap" or len(text) > LONGEST:
        return
    data = root.get("data")
    found: list[tuple[str, Span]] = []
    for name, entry in (data.index if isinstance(data, Mapping) else {}).items():
        value = entry.value
        start = text.find("\n", value.span.start, value.span.end) + 1
        literal = isinstance(value, Scalar) and value.style == "literal"
        if literal and start > 0 and name.lower().endswith(_NAMES):
            found.append((name, Span(start, value.span.end)))
    for name, span in found[:MOST_FILES]:
        yield name, _parsed(document, name, span, text[span.start : span.end])


def written_files(document: Document, commands: Iterable[Command]) -> Iterator[tuple[str, SourceFile]]:
    """``cat > ds_config.json <<EOF``: the variables that the script sets are put in where they fit."""
    text = document.file.text
    if len(text) > LONGEST:
        return
    found: list[tuple[str, Span]] = []
    for command in commands:
        output, span = _output(command), command.heredoc_span
        if output is None or span is None or not output.known or not output.text.lower().endswith(_NAMES):
            continue
        first = (command.heredoc or "").strip().partition("\n")[0]
        if first and first in text[span.start : span.end] and (output.text, span) not in found:
            found.append((output.text, span))
        if len(found) == MOST_FILES:
            break
    names = {name for _, span in found for name in _names(text[span.start : span.end])}
    values = _values(document, names) if document.script is not None else {}
    for name, span in found:
        yield name, _parsed(document, name, span, _filled(text[span.start : span.end], values))


def _parsed(document: Document, name: str, span: Span, content: str) -> SourceFile:
    text = document.file.text
    file = parse_text(
        document.path, _blank(text[: span.start]) + content + _blank(text[span.end :]), detect_format(name)
    )
    file.text = text  # what is shown and edited is the outer file
    return file


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _output(command: Command) -> Word | None:
    """Where ``cat`` or ``tee`` puts what it reads."""
    words = [word for word in command.words if not word.text.startswith("-")]
    name = os.path.basename(words[0].text) if words else ""
    if name == "tee":
        return words[1] if len(words) > 1 else None
    return command.output if name in ("cat", "") else None


def _places(content: str) -> list[re.Match[str]]:
    """Variables outside quotes."""
    return list(_VARIABLE.finditer(_QUOTED.sub(lambda match: " " * len(match.group()), content)))


def _names(content: str) -> set[str]:
    return {match.group(1) or match.group(2) for match in _places(content)}


def _filled(content: str, values: dict[str, str]) -> str:
    """``content`` with known variables outside quotes replaced by their values, padded to the same length."""
    made, at = "", 0
    for match in _places(content):
        value = values.get(match.group(1) or match.group(2))
        made += content[at : match.start()]
        size = match.end() - match.start()
        made += value.ljust(size) if value is not None and len(value) <= size else content[match.start() : match.end()]
        at = match.end()
    return made + content[at:]


def _values(document: Document, names: set[str]) -> dict[str, str]:
    """What the script's variables hold when it has run to its end, where that is known; of those that it sets once."""
    text = document.file.text
    ordered = [name for name in sorted(names) if len(re.findall(rf"(?<![\w$]){name}\+?=", text)) == 1]
    if not ordered:
        return {}
    use = "\n: " + " ".join(f'x"${{{name}}}"' for name in ordered) + "\n"
    offsets = [*range(len(text)), *([max(0, len(text) - 1)] * len(use))]
    commands = commands_of(document.file, text + use, offsets)
    words = commands[-1].words[1:] if commands and commands[-1].program == ":" else []
    return {
        name: word.text[1:] for name, word in zip(ordered, words, strict=False) if word.known and len(word.text) > 1
    }
