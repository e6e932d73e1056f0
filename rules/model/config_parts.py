"""The mappings of a ``config.json`` that hold a language model's settings: the top, or a nested text part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cfglint.dialects.values import integer, number, scalar
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Mapping, Node, Route

NESTED = ("text_config", "llm_config", "language_config")
"""Keys under which composite models keep their language model's config."""


@dataclass(frozen=True)
class Part:
    """One such mapping; ``route`` leads to it."""

    reading: Reading
    route: Route

    def node(self, *route: str | int) -> Node | None:
        return self.reading.at(*self.route, *route)

    def has(self, *route: str | int) -> bool:
        return self.node(*route) is not None

    def value(self, *route: str | int) -> Any:
        """The scalar at ``route``; None for null, mappings, lists and where there is nothing."""
        return scalar(self.node(*route))

    def integer(self, *route: str | int) -> int | None:
        value = self.value(*route)
        return None if isinstance(value, str) else integer(value)

    def number(self, *route: str | int) -> float | None:
        value = self.value(*route)
        return None if isinstance(value, str) else number(value)

    def origin(self, *route: str | int) -> FileOrigin:
        return self.reading.origin(*self.route, *route)


def parts(reading: Reading) -> Iterator[Part]:
    """The language model's settings in a ``config.json``. Nothing for models that bring code of their own
    (``auto_map``): their classes check, and mean, what they like."""
    if reading.dialect != "hf-model-config" or reading.at("auto_map") is not None:
        return
    yield Part(reading, ())
    for key in NESTED:
        if isinstance(reading.at(key), Mapping):
            yield Part(reading, (key,))


def rope_routes(part: Part) -> Iterator[Route]:
    """Routes to rope settings: ``rope_scaling`` and ``rope_parameters``, by layer type where they are nested."""
    for key in ("rope_scaling", "rope_parameters"):
        node = part.node(key)
        if not isinstance(node, Mapping):
            continue
        nested = [name for name in node.index if isinstance(part.node(key, name), Mapping)]
        if nested:
            yield from ((key, name) for name in nested)
        else:
            yield (key,)


def rope_type(part: Part, route: Route) -> str | None:
    """The kind of rope scaling: ``rope_type``, or ``type`` as it was called first."""
    for key in ("rope_type", "type"):
        value = part.value(*route, key)
        if isinstance(value, str):
            return value
    return None
