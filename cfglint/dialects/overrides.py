"""Overrides on a command line, ``a.b.c=value`` as Hydra, OmegaConf and torchtune take them, as a tree like a file's.

Hydra's marks are read: ``+key=`` and ``++key=`` add, ``~key`` takes away (it is left out here), ``a@b=choice`` picks a
group's file. A list is written ``[a,b]``; a key given twice keeps its last value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cfglint.source.node import Entry, Mapping, Node, Scalar, Sequence, Span
from cfglint.source.shell import Word
from cfglint.source.yaml import plain_value

_KEY: Final = re.compile(r"\+{0,2}([A-Za-z_][\w-]*(?:\.[\w-]+)*)=")
_GROUP: Final = re.compile(r"\+?([\w/.-]+)@([\w.]*)=")
MOST_STEPS: Final = 16
"""Keys deeper than this are left out."""


def is_override(word: Word) -> bool:
    return _KEY.match(word.text) is not None


def nested(words: Iterable[Word], whole: Span) -> Mapping:
    """The tree of all overrides among ``words``; ``whole`` is the place of the command."""
    root = Mapping(whole)
    for word in words:
        match = _KEY.match(word.text)
        if match is None:
            continue
        steps = match.group(1).split(".")
        if len(steps) > MOST_STEPS:
            continue
        plainly = word.raw.startswith(match.group(0))
        key_end = word.span.start + len(match.group(0)) - 1 if plainly else word.span.end
        key_span = Span(word.span.start, min(key_end, word.span.end))
        value_span = Span(min(key_end + 1, word.span.end), word.span.end) if plainly else word.span
        _put(root, steps, key_span, word.span, _value(word, word.text[match.end() :], value_span))
    return root


def nest_flags(flags: Mapping, whole: Span) -> Mapping:
    """Flags with dotted names (``--train.epochs 3``, as jsonargparse takes them) as a tree."""
    root = Mapping(whole)
    for entry in flags.entries:
        steps = entry.name.split(".")
        if len(steps) <= MOST_STEPS and all(steps):
            _put(root, steps, entry.key.span, entry.key.span, entry.value)
    return root


def groups(words: Iterable[Word]) -> dict[str, str]:
    """Choices of Hydra's config groups: ``model@actor.model=hf`` as ``actor.model`` to ``hf``."""
    found: dict[str, str] = {}
    for word in words:
        match = _GROUP.match(word.text)
        if match is not None:
            found[match.group(2)] = word.text[match.end() :]
    return found


def _put(root: Mapping, steps: list[str], key: Span, whole: Span, value: Node) -> None:
    here = root
    for step in steps[:-1]:
        found = here.get(step)
        if not isinstance(found, Mapping):
            found = Mapping(whole)
            _set(here, step, key, found)
        here = found
    _set(here, steps[-1], key, value)


def _set(mapping: Mapping, name: str, key: Span, value: Node) -> None:
    mapping.entries = [entry for entry in mapping.entries if entry.name != name]
    mapping.entries.append(Entry(Scalar(key, name, name), value))
    mapping._index = None


def _value(word: Word, text: str, span: Span) -> Node:
    if not word.known:
        return Scalar(span, text if "$" in text else "${unknown}", text)
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        items = [part.strip().strip("\"'") for part in inner[1:-1].split(",")]
        return Sequence(span, [Scalar(span, plain_value(item), item) for item in items if item])
    bare = inner.strip("\"'") if len(inner) >= 2 and inner[0] in "\"'" and inner[-1] == inner[0] else inner
    return Scalar(span, plain_value(bare) if bare == inner else bare, text)
