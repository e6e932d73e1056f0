"""Arguments of the serving engines and their life by version, environment names, what quantization methods need.

Versions are samples: the arguments were read from some releases, not from each. What lies between two samples that differ is
not known, and the functions say so.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cfglint.catalog import data

Engine = Literal["vllm", "sglang"]


class _Computed:
    """A default that the engine computes when it starts."""

    def __repr__(self) -> str:
        return "computed"


COMPUTED: Final = _Computed()


@dataclass(frozen=True, slots=True)
class Argument:
    """One command-line argument."""

    engine: str
    name: str
    """With its dashes; ``model_tag`` is vLLM's positional."""
    aliases: tuple[str, ...]
    group: str
    type: str | None
    """As the engine's source annotates it; None where only older versions have the argument."""
    choices: tuple[Any, ...] | None
    """None where any value is taken or the choices are computed."""
    constraint: Mapping[str, str]
    """Bounds as pydantic names them: ``{"ge": "1"}``."""
    required: bool
    resolved_at_start: bool
    """A null default is replaced while the engine starts."""
    default: Any
    """In the newest sampled version that has it; ``COMPUTED`` where the engine computes it."""
    defaults: tuple[tuple[str, Any], ...]
    """From which sampled version on it had which default."""
    present_in: tuple[str, ...]
    """Sampled versions that have it."""
    deprecated_in: tuple[str, ...]
    replaced_by: str | None
    """The argument that its deprecation note names."""
    newest_sampled: str

    @property
    def since(self) -> str:
        """The first sampled version that has it; it may be older."""
        return self.present_in[0]

    @property
    def absent_from(self) -> str | None:
        """The first sampled version after the last that has it; None where the newest sample has it."""
        versions = sampled_versions(self.engine)
        last = versions.index(self.present_in[-1])
        return versions[last + 1] if last + 1 < len(versions) else None

    def default_at(self, version: str) -> Any:
        """The default in force at a version: that of the newest sample not after it."""
        value = self.defaults[0][1] if self.defaults else self.default
        for since, default in self.defaults:
            if version_key(since) <= version_key(version):
                value = default
        return value


def sampled_versions(engine: str) -> tuple[str, ...]:
    """The versions whose arguments were read, oldest first; empty for an engine that is not known."""
    return tuple(_document(engine)["versions"]) if engine in ("vllm", "sglang") else ()


def engine_source(engine: str) -> tuple[str, str]:
    """Where an engine's rows are from, and the day they were taken."""
    document = _document(engine)
    return document["source"], document["checked"]


def engine_argument(engine: str, name: str) -> Argument | None:
    """The argument of that name or alias, in any spelling: ``--max-model-len``, ``max_model_len``; ``--no-x`` of a switch.

    None where the engine is not known or no sampled version has it.
    """
    if engine not in ("vllm", "sglang"):
        return None
    key = _names(engine).get(_plain(name))
    if key is None and _plain(name).startswith("no-"):
        key = _names(engine).get(_plain(name)[3:])
        if key is not None and "bool" not in str(_rows(engine)[key].get("type", "bool")):
            key = None
    if key is None and name.startswith("--"):
        # argparse takes any beginning that only one argument has: --tp, --gpu-memory-util
        begun = {full for plain, full in _names(engine).items() if plain.startswith(_plain(name))}
        key = begun.pop() if len(begun) == 1 else None
    return None if key is None else _argument(engine, key)


def engine_arguments(engine: str) -> tuple[Argument, ...]:
    return tuple(_argument(engine, name) for name in _rows(engine)) if engine in ("vllm", "sglang") else ()


@functools.lru_cache(maxsize=2)
def argument_names(engine: str) -> dict[str, tuple[str, ...]]:
    """Every argument's name with its aliases, as Python writes them: ``max_model_len``. Recognising a file needs no more."""
    if engine not in ("vllm", "sglang"):
        return {}
    rows = _rows(engine).items()
    return {_attribute(name): tuple(_attribute(alias) for alias in row.get("aliases", ())) for name, row in rows}


def known_at(engine: str, name: str, version: str) -> bool | None:
    """Does the engine have the argument at that version. None where it is not known: between samples that differ, before the
    first, or after the last for an argument that it did not have."""
    argument = engine_argument(engine, name)
    if argument is None:
        return None
    return _present(sampled_versions(engine), frozenset(argument.present_in), version)


def begins_argument(engine: str, name: str) -> bool:
    """Whether an argument of any sampled version begins so: argparse then takes it, or says that it is ambiguous."""
    plain = _plain(name)
    return engine in ("vllm", "sglang") and len(plain) > 1 and any(full.startswith(plain) for full in _names(engine))


def similar_arguments(engine: str, name: str, n: int = 3) -> tuple[str, ...]:
    """The nearest arguments of the newest sampled version, for "did you mean"."""
    import difflib  # only where something was not found

    if engine not in ("vllm", "sglang"):
        return ()
    newest = len(sampled_versions(engine)) - 1
    current = {plain: key for plain, key in _names(engine).items() if newest in _rows(engine)[key]["present"]}
    found: list[str] = []
    for match in difflib.get_close_matches(_plain(name), current, n=2 * n, cutoff=0.7):
        if current[match] not in found:
            found.append(current[match])
    return tuple(found[:n])


def environment_known_at(engine: str, name: str, version: str) -> bool | None:
    """Does the engine's source read the environment variable at that version; None where it is not known."""
    if engine != "vllm":
        return None
    present = _document(engine)["env"].get(name)
    if present is None:
        return None
    versions = sampled_versions(engine)
    return _present(versions, frozenset(versions[index] for index in present), version)


def environment_names(engine: str) -> frozenset[str]:
    """Every environment name that a sampled version reads."""
    return frozenset(_document(engine)["env"]) if engine == "vllm" else frozenset()


@dataclass(frozen=True, slots=True)
class QuantizationNeeds:
    """What vLLM asks of a device for a quantization method at a sampled version."""

    method: str
    version: str
    """The sampled version the facts are of."""
    capability: tuple[int, int] | None
    """The lowest CUDA compute capability; None where the method states none."""
    dtypes: tuple[str, ...]
    """Activation dtypes it takes; empty where not stated."""


def quantization_needs(method: str, version: str | None = None) -> QuantizationNeeds | None:
    """What vLLM's quantization method needs at ``version`` (the newest sample without one).

    Between two samples the milder demand of both counts, so that none is stated that the version may not make.
    None where neither has such a method, or the version is older than the first sample.
    """
    tables = _document("vllm")["quantization"]
    sampled = sorted(tables, key=version_key)
    chosen = [sampled[-1]]
    if version is not None:
        asked = version_key(version)
        before = [one for one in sampled if version_key(one) <= asked]
        after = [one for one in sampled if version_key(one) >= asked]
        if not before:
            return None
        chosen = list(dict.fromkeys([before[-1], *after[:1]]))
    found = [needs for one in chosen if (needs := _needs_at(method, one, tables[one])) is not None]
    if not found:
        return None
    capabilities = [needs.capability for needs in found if needs.capability is not None]
    return QuantizationNeeds(
        method=found[0].method,
        version=" to ".join(needs.version for needs in found),
        capability=min(capabilities) if len(capabilities) == len(found) else None,
        dtypes=tuple(dict.fromkeys(dtype for needs in found for dtype in needs.dtypes)),
    )


def _needs_at(method: str, version: str, table: Mapping[str, Any]) -> QuantizationNeeds | None:
    methods = {_squeezed(name): (name, facts) for name, facts in table.items()}
    named = methods.get(_squeezed(method))
    if named is None:
        return None
    lowest, dtypes = named[1] or (None, [])
    capability = None if lowest is None or lowest < 0 else (lowest // 10, lowest % 10)
    return QuantizationNeeds(named[0], version, capability, tuple(dtypes))


def quantization_methods(version: str | None = None) -> frozenset[str]:
    """The methods of the newest sample not after ``version``."""
    tables = _document("vllm")["quantization"]
    chosen = [
        one for one in sorted(tables, key=version_key) if version is None or version_key(one) <= version_key(version)
    ]
    return frozenset(tables[chosen[-1]]) if chosen else frozenset()


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """One of vLLM's attention backends, at the newest sampled version."""

    name: str
    dtypes: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    capability: tuple[int, int] | None
    """The lowest CUDA compute capability, where a single number states it."""


def attention_backend(name: str) -> AttentionBackend | None:
    row = _document("vllm")["attention_backends"].get(name.strip().upper())
    if not isinstance(row, dict):
        return None
    lowest = row["capability"]
    return AttentionBackend(
        name.strip().upper(),
        tuple(row["dtypes"]),
        tuple(row["kv_cache_dtypes"]),
        (lowest[0], lowest[1]) if lowest else None,
    )


def version_key(version: str) -> tuple[int, ...]:
    """Orders versions: numbers, then pre-releases before and post-releases after the release itself."""
    numbers = re.match(r"[vV]?(\d+(?:\.\d+)*)", version.strip())
    if numbers is None:
        return ()
    parts = [int(part) for part in numbers[1].split(".")][:4]
    rest = version.strip()[numbers.end() :]
    after = re.match(r"[.-]?post(\d+)", rest)
    before = re.match(r"[.-]?(?:rc|a|b|dev)\d*", rest)
    return (*parts, *[0] * (4 - len(parts)), int(after[1]) if after else -1 if before else 0)


def _present(versions: tuple[str, ...], present: frozenset[str], version: str) -> bool | None:
    asked = version_key(version)
    if not asked:
        return None
    before = [one for one in versions if version_key(one) <= asked]
    after = [one for one in versions if version_key(one) >= asked]
    if not before:
        return None
    if not after:
        return True if before[-1] in present else None
    low, high = before[-1] in present, after[0] in present
    return low if low == high else None


@functools.lru_cache(maxsize=2)
def _document(engine: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data.read(f"engine_{engine}.json"))
    return document


@functools.lru_cache(maxsize=2)
def _rows(engine: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _document(engine)["arguments"]}


@functools.lru_cache(maxsize=2)
def _names(engine: str) -> dict[str, str]:
    """Plain spellings of names and aliases; a name wins over another's alias."""
    table: dict[str, str] = {}
    for name, row in _rows(engine).items():
        for alias in row.get("aliases", ()):
            table.setdefault(_plain(alias), name)
    for name in _rows(engine):
        table[_plain(name)] = name
    return table


@functools.cache
def _argument(engine: str, name: str) -> Argument:
    row, versions = _rows(engine)[name], sampled_versions(engine)
    defaults = tuple((versions[index], _literal(value)) for index, value in row.get("defaults", ()))
    choices = row.get("choices")
    return Argument(
        engine=engine,
        name=name,
        aliases=tuple(row.get("aliases", ())),
        group=row.get("group", ""),
        type=row.get("type"),
        # an expression is computed when the engine starts
        choices=tuple(choices) if isinstance(choices, list) and choices else None,
        constraint=row.get("constraint", {}),
        required=row.get("required", False),
        resolved_at_start=row.get("resolved", False),
        default=defaults[-1][1] if defaults else None,
        defaults=defaults,
        present_in=tuple(versions[index] for index in row["present"]),
        deprecated_in=tuple(versions[index] for index in row.get("deprecated_in", ())),
        replaced_by=row.get("replaced_by"),
        newest_sampled=versions[-1],
    )


def _literal(value: Any) -> Any:
    return COMPUTED if isinstance(value, dict) and value.get("computed") else value


def _plain(name: str) -> str:
    """The name without its dashes in front, underscores as dashes; a short flag (``-tp``) keeps its letters."""
    return name.strip().lstrip("-").replace("_", "-")


def _attribute(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "-")
