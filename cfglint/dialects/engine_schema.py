"""The serving engines' arguments as key tables, from the catalogue that holds them (:mod:`cfglint.catalog.engines`).

The engines were sampled at some releases only. Where two samples differ, what lies between them is not known, and a
key's status there is ``unknown-version``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cfglint.dialects.schema import KeyInfo, Reader, Schema

if TYPE_CHECKING:
    from cfglint.catalog.engines import Argument

ENGINES: Final = ("sglang", "vllm")

_READERS: Final = {
    "vllm": Reader(
        loader="yaml.safe_load (--config): every key becomes a command-line argument",
        conversion="text",
        unknown_keys="error",
        note="Keys may be written with dashes or underscores.",
    ),
    "sglang": Reader(
        loader="yaml.safe_load (--config): every key becomes a command-line argument",
        conversion="text",
        unknown_keys="error",
        note="Keys may be written with dashes or underscores.",
    ),
}

_TITLES: Final = {"vllm": "vLLM", "sglang": "SGLang"}

_SIMPLE: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "bool | None": "bool | None",
    "int | None": "int | None",
    "float | None": "float | None",
    "str | None": "str | None",
    "Optional[bool]": "bool | None",
    "Optional[int]": "int | None",
    "Optional[float]": "float | None",
    "Optional[str]": "str | None",
}
"""Annotations whose values are told apart; any other is taken as it comes (enumerations, JSON, lists)."""

_WITH_UNITS: Final = frozenset({"max_model_len", "max_num_batched_tokens", "max_num_seqs", "kv_cache_memory_bytes"})
"""Integers that may be written with a unit: ``32k``, ``1.5K``, ``8G``."""


def engine_schema(engine: str) -> Schema:
    """The key table of an engine. Raises KeyError for one the catalogue has no arguments of."""
    if engine not in ENGINES:
        raise KeyError(engine)
    from cfglint.catalog.engines import engine_arguments, engine_source, sampled_versions

    source, checked = engine_source(engine)
    versions = sampled_versions(engine)
    keys: dict[str, KeyInfo] = {}
    for argument in engine_arguments(engine):
        info = _key(argument, versions)
        for name in (*argument.aliases, argument.name):
            plain = _plain(name)
            keys[plain] = replace(info, name=plain)
            if "bool" in info.type:
                keys.setdefault(f"no_{plain}", replace(info, name=f"no_{plain}", defaults=()))
    for argument in engine_arguments(engine):  # a name wins over another argument's alias
        keys[_plain(argument.name)] = _key(argument, versions)
    keys.setdefault("config", KeyInfo("config", "str"))
    return Schema(
        name=engine,
        framework=engine,
        versions=versions,
        source=source,
        checked=checked,
        reader=_READERS[engine],
        keys=keys,
        title=_TITLES[engine],
        dashes=True,
    )


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _key(argument: Argument, versions: tuple[str, ...]) -> KeyInfo:
    name = _plain(argument.name)
    first, last = versions.index(argument.present_in[0]), versions.index(argument.present_in[-1])
    kind = _SIMPLE.get(argument.type or "", "any")
    return KeyInfo(
        name=name,
        type="any" if name in _WITH_UNITS else kind,
        defaults=tuple((since, value) for since, value in argument.defaults if _plain_value(value)),
        since=argument.since if first else None,
        removed_in=argument.absent_from,
        deprecated_in=argument.deprecated_in[0] if argument.deprecated_in else None,
        renamed_to=_plain(argument.replaced_by) if argument.replaced_by else None,
        absent_at=versions[first - 1] if first else None,
        present_at=versions[last] if argument.absent_from else None,
    )


def _plain_value(value: Any) -> bool:
    from cfglint.catalog.engines import COMPUTED

    return value is not COMPUTED
