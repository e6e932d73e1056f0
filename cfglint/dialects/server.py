"""What the command lines of all serving engines have in common: a reading of their arguments, with what surrounds them.

An engine's dialect names its arguments, says which of them are facts (:data:`FACT_KINDS`) and which are switches, and
makes its readings with :func:`server_reading`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import ContainerRun, basename, image_version, program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.schema import holds_placeholder
from cfglint.jobs.facts import UNKNOWN, FileOrigin, Reading, Reference
from cfglint.source.node import Entry, Node, Scalar, Sequence, Span, plain, value_at
from cfglint.source.node import Mapping as Table
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

FACT_KINDS: Final[Mapping[str, str]] = {
    "model_id": "text",
    "dtype": "text",
    "quantization": "text",
    "kv_cache_dtype": "text",
    "max_model_len": "integer",
    "max_num_seqs": "integer",
    "max_num_batched_tokens": "integer",
    "block_size": "integer",
    "tensor_parallel_size": "integer",
    "pipeline_parallel_size": "integer",
    "data_parallel_size": "integer",
    "context_parallel_size": "integer",
    "expert_parallel_size": "integer",
    "max_loras": "integer",
    "max_lora_rank": "integer",
    "gpu_memory_utilization": "number",
    "mem_fraction_static": "number",
    "cpu_offload_gb": "number",
    "enforce_eager": "switch",
    "enable_prefix_caching": "switch",
    "enable_lora": "switch",
    "enable_expert_parallel": "switch",
    "trust_remote_code": "switch",
}
"""What a serving job's facts hold."""


def own_name(key: str, names: Mapping[str, str]) -> str:
    """The argument's own name with underscores; ``names`` maps short names and aliases to it."""
    name = key.strip().lstrip("-").replace("-", "_")
    return names.get(name, name)


ARGUMENT_LIST: Final = re.compile(
    r"\$\$?(\{\w+\[[@*]\](:[^}]*)?\}|\{?[@*](:[^}]*)?\}?|\{?\w*(args|opts|options|flags|params)\b.*)", re.IGNORECASE
)


def values_of(positionals: Iterable[Word]) -> list[Word]:
    """The words that are a value of their own, without those that stand for more arguments: ``"${EXTRA[@]}"``, ``$@``."""
    return [word for word in positionals if not ARGUMENT_LIST.fullmatch(word.text)]


def flags_of(
    words: Iterable[Word],
    names: Mapping[str, str],
    switches: Collection[str] = (),
    several: Collection[str] = (),
) -> tuple[list[Entry], list[Word]]:
    """Flags under their own names, and the values that belong to none."""
    parsed = read_flags(words, booleans=switches, several=several)
    entries = []
    for entry in parsed.mapping.entries:
        name = own_name(entry.name, names)
        if name != entry.name:
            entry = Entry(Scalar(entry.key.span, name, entry.key.raw), entry.value)
        entries.append(entry)
    return entries, values_of(parsed.positionals)


def model_entry(word: Word, name: str) -> Entry:
    """A positional word as the argument it stands for."""
    return Entry(Scalar(word.span, name, word.raw), Scalar(word.span, word.text, word.raw))


def environment_entries(launch: Launch, variables: Mapping[str, str]) -> list[Entry]:
    """Arguments that the environment states: variable to the argument's own name."""
    from cfglint.dialects.flags import typed

    entries = []
    for variable, name in variables.items():
        word = launch.environment.get(variable)
        if word is not None:
            value = typed(word.text) if word.known else word.text
            entries.append(Entry(Scalar(word.span, name, variable), Scalar(word.span, value, word.raw)))
    return entries


def server_reading(
    engine: str, launch: Launch, entries: list[Entry], why: str, *, own_images: Collection[str] = ()
) -> Reading:
    """The reading of an engine's arguments. ``own_images``: base names of images whose tag is the engine's version."""
    spans = [entry.key.span for entry in entries] + [entry.value.span for entry in entries]
    if not spans:
        spans = [word.span for word in launch.words] or ([launch.image.span] if launch.image else [Span(0, 0)])
    root = Table(Span(min(s.start for s in spans), max(s.end for s in spans)), entries)
    reading = Reading(
        engine, launch.document, root, role="run", kind="serve", framework=engine, carrier=launch.carrier, why=why
    )
    started = program(launch.words)
    reading.context["command_line"] = True
    reading.context["program"] = started.name if started else ""
    reading.context["environment"] = launch.environment
    if launch.image is not None:
        reading.context["image"] = launch.image
        version = image_version(launch.image.text)
        if version is not None and launch.image.known and image_name(launch.image.text) in own_images:
            reading.context["versions"] = {engine: version}
            origin = FileOrigin(launch.document, ("image",), launch.image.span, launch.image.span)
            reading.facts.state("framework_version", version, origin)
    return reading


def place_model(reading: Reading, launch: Launch) -> None:
    """Where on the host the model lies, for a path that a volume of the container holds: the folder's name tells more."""
    path = reading.facts.value("model_id")
    if not isinstance(path, str) or not path.startswith("/"):
        return
    inside = ""
    for source, target in _volumes(launch):
        target = target.rstrip("/")
        below = path == target or path.startswith(target + "/")
        if below and len(target) > len(inside) and source.startswith(("/", ".", "~", "$")):
            inside = target
            place = _WITH_DEFAULT.sub(r"\1", source).rstrip("/")
            reading.context["model_place"] = place + path[len(target) :].rstrip("/")


def _volumes(launch: Launch) -> Iterator[tuple[str, str]]:
    """(place on the host, path in the container) of the volumes of ``docker run`` and compose."""
    run = launch.context.get("docker")
    if isinstance(run, ContainerRun):
        for word in [*run.options.get("v", ()), *run.options.get("volume", ())]:
            yield _bind(word.text)
        for word in run.options.get("mount", ()):
            parts = dict(part.partition("=")[::2] for part in word.text.split(","))
            yield parts.get("source", parts.get("src", "")), parts.get("target", parts.get("dst", ""))
    volumes = launch.container.get("volumes") if launch.container is not None and launch.carrier == "compose" else None
    for item in volumes.items if isinstance(volumes, Sequence) else ():
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield _bind(item.value)
        elif isinstance(item, Table):
            yield str(value_at(item, "source") or ""), str(value_at(item, "target") or "")


_WITH_DEFAULT: Final = re.compile(r"\$\{\w+:?-([^{}]*)\}")
_BIND: Final = re.compile(r"((?:\$\{[^}]*\}|[^:])+):(/[^:]*)(:.*)?")


def _bind(text: str) -> tuple[str, str]:
    """``host:container[:mode]``; the host's part may hold ``${VAR:-default}``."""
    found = _BIND.fullmatch(text)
    return (found[1], found[2]) if found is not None else ("", "")


def state_surroundings(reading: Reading, launch: Launch) -> None:
    """Accelerator, counts and host memory, as the carrier knows them, behind what the arguments say."""
    place_model(reading, launch)
    for name, pair in (("gpu", launch.gpu), ("gpus_per_node", launch.gpus), ("nodes", launch.nodes)):
        if pair is not None:
            origin = pair[1]
            if isinstance(origin, Word):
                origin = FileOrigin(launch.document, (name,), origin.span, origin.span)
            reading.facts.state(name, pair[0], origin)
    if launch.host_memory is not None:
        reading.facts.state("host_memory_bytes", launch.host_memory[0], launch.host_memory[1])


def state_facts(
    reading: Reading,
    facts: Mapping[str, str],
    names: Mapping[str, str],
    *,
    negations: Collection[str] = (),
    also_arguments: Collection[str] = (),
    positive: Collection[str] = (),
) -> None:
    """State facts from the reading's arguments; all others, and ``also_arguments``, go to ``engine_args``.

    ``negations`` are switches whose fact is their opposite (``disable_radix_cache``); of ``positive``, numbers that are
    not above zero say that the engine is to choose, and state nothing.
    """
    root = reading.root
    assert isinstance(root, Table)
    others: dict[str, Any] = {}
    for key, entry in root.index.items():
        name = own_name(key, names)
        value = plain(entry.value)
        fact = facts.get(name)
        if fact is None or name in also_arguments:
            others[name] = None if not_known(value) else value
        if fact is None:
            continue
        known = fact_value(fact, value)
        if name in negations and isinstance(known, bool):
            known = not known
        if name in positive and isinstance(known, (int, float)) and known <= 0:
            continue
        if known is not None:
            origin = FileOrigin(reading.document, (*reading.base, key), entry.key.span, entry.value.span)
            reading.facts.state(fact, known, origin)
    if others:
        reading.facts.state("engine_args", others, reading.origin())
    model = next(iter(reading.facts.statements("model_id")), None)
    if model is not None and isinstance(model.value, str) and isinstance(model.origin, FileOrigin):
        reading.references.append(Reference("model", model.value, model.origin, base="cwd"))


def not_known(value: Any) -> bool:
    """Text that something still has to fill in."""
    if not isinstance(value, str):
        return False
    return "${" in value or "$(" in value or "{{" in value or value.startswith("$") or holds_placeholder(value)


def fact_value(fact: str, value: Any) -> Any:
    """The value a fact takes, UNKNOWN where it is stated but not known here, None where it is of a wrong type."""
    if not_known(value):
        return UNKNOWN
    kind = FACT_KINDS.get(fact)
    if kind == "integer":
        return as_integer(value)
    if kind == "number":
        return as_number(value)
    if kind == "switch":
        return as_switch(value)
    if kind == "text":
        return value if isinstance(value, str) and value else None
    return value


def as_integer(value: Any) -> Any:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        count = whole_number(value.strip())
        return UNKNOWN if count is None else count
    return None


def as_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return UNKNOWN


def as_switch(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() in ("true", "false", "1", "0"):
        return value.strip().lower() in ("true", "1")
    return value if isinstance(value, bool) else None


def image_name(image: str) -> str:
    """``ghcr.io/huggingface/text-generation-inference:2.4.1`` → ``text-generation-inference``."""
    return basename(image.split("@")[0]).split(":")[0]


def words_for(arguments: Table, *, name: Callable[[str], str] = lambda key: f"--{key.replace('_', '-')}") -> list[Word]:
    """A mapping of settings as the command line it stands for, each word at the place of its key or value.

    ``name`` turns a key into a flag. A list becomes one value for each item, a mapping becomes JSON; null is left out.
    """
    words: list[Word] = []
    for key, entry in arguments.index.items():
        flag, span = name(key), entry.key.span
        value: Node = entry.value
        if isinstance(value, Scalar):
            if value.value is None:
                continue
            if isinstance(value.value, bool):
                words.append(Word(flag if value.value else f"{flag}=False", entry.key.raw, span))
                continue
            words.append(Word(flag, entry.key.raw, span))
            words.append(value_word(value))
            continue
        words.append(Word(flag, entry.key.raw, span))
        found = plain(value)
        if isinstance(found, list) and all(isinstance(item, (str, int, float)) for item in found):
            words.extend(Word(str(item), "", value.span) for item in found)
        else:
            words.append(Word(json.dumps(found, default=str), "", value.span, True, True))
    return words


def value_word(value: Scalar) -> Word:
    text = value.value if isinstance(value.value, str) else value.raw
    return Word(text, value.raw, value.span, not not_known(text) and "$" not in text, value.quoted)
