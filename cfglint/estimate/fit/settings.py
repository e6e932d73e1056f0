"""From changed facts to the keys that say them in the user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cfglint.estimate.fit.keys import FRAMEWORKS, HYDRA, KEYS, SHARDING_FACTS
from cfglint.estimate.fit.result import Setting
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, FileOrigin, Reading
from cfglint.jobs.job import Job

JOB_FILE = "cfglint-job"
ENGINE_FILES = ("deepspeed", "accelerate")
"""Dialects of the files that hold a run's sharding."""


def settings_for(job: Job, says: Mapping[str, Any]) -> tuple[Setting, ...] | None:
    """The keys to set so that the files say ``says``; None where one of the facts has no key in the job's framework."""
    found: dict[tuple[str, str], Setting] = {}
    for fact, value in says.items():
        settings = _for_fact(job, fact, value)
        if settings is None:
            return None
        found.update(((s.dialect, s.key), s) for s in settings)
    return tuple(found.values())


def states_facts(job: Job) -> bool:
    """Whether the job is said in its facts' own names: in a job file, or by a program."""
    return not job.readings or job.reading(JOB_FILE) is not None


def accumulation_follows(job: Job) -> bool:
    """Whether the files state the effective batch, so that accumulation follows from the micro-batch."""
    return job.value("global_batch_size") is not None and job.fact("gradient_accumulation_steps") is None


def _for_fact(job: Job, fact: str, value: Any) -> list[Setting] | None:
    if states_facts(job):
        if not _framework_can(job, fact, value):
            return None
        names = ("offload_parameters", "offload_optimizer") if fact == "fsdp_offload" else (fact,)
        return [Setting(JOB_FILE, name, value, "".join(job.documents[:1])) for name in names]
    if fact == "gradient_accumulation_steps" and accumulation_follows(job):
        return []
    written = list(_written(job, fact, value)) or list(_switched(job, fact, value))
    if written:
        return written
    statement = job.fact(fact)
    if fact == "sequence_length" and statement is not None and not isinstance(statement.origin, DefaultOrigin):
        # put together from several keys: which of them to lower is the user's to say
        return None
    for reading in _readings(job, fact):
        entry = entry_for(reading.dialect, fact, value)
        if entry is None:
            continue
        if isinstance(entry, str):
            return [Setting(reading.dialect, _flag(reading, entry), value, reading.document.path)]
        settings = []
        for key, said in entry.items():
            if key.startswith("@"):
                dialect, _, other = key[1:].partition(" ")
                settings.append(Setting(dialect, other, said))
            else:
                settings.append(Setting(reading.dialect, _flag(reading, key), said, reading.document.path))
        return settings
    return None


def entry_for(dialect: str, fact: str, value: Any) -> str | Mapping[str, Any] | None:
    """The dialect's row for a fact with this value, else for the fact with any number."""
    table = KEYS.get(dialect, {})
    return table.get(f"{fact}={value}") or table.get(fact)


def _framework_can(job: Job, fact: str, value: Any) -> bool:
    framework = str(job.value("framework") or "").lower()
    dialect = FRAMEWORKS.get(framework, framework)
    if dialect not in KEYS or fact == "gradient_accumulation_steps":
        return True
    return entry_for(dialect, fact, value) is not None


def _written(job: Job, fact: str, value: Any) -> Iterator[Setting]:
    """Keys that state the fact's number now: all of them, since they must agree."""
    for statement in job.statements(fact):
        origin = statement.origin
        if not isinstance(origin, FileOrigin) or statement.value is UNKNOWN or isinstance(statement.value, bool):
            continue
        reading = _reading_of(job, origin)
        if reading is None:
            continue
        route = origin.route[len(reading.base) :]
        if "zero_optimization" in route:
            # DeepSpeed's settings, also where they stand inside the trainer's file
            inside = [str(step) for step in route[: route.index("zero_optimization")]]
            entry = entry_for("deepspeed", fact, value)
            if isinstance(entry, Mapping):
                for key, said in entry.items():
                    yield Setting(reading.dialect, ".".join([*inside, key]), said, reading.document.path)
            continue
        if isinstance(statement.value, (int, float)) and reading.value(*route) is not None:
            key = ".".join(map(str, route))
            yield Setting(reading.dialect, _as_written(reading, origin, key), value, reading.document.path)


def _switched(job: Job, fact: str, value: Any) -> Iterator[Setting]:
    """The switch that states checkpointing now, the other way round."""
    statement = job.fact(fact)
    if fact != "gradient_checkpointing" or statement is None or not isinstance(statement.origin, FileOrigin):
        return
    reading = _reading_of(job, statement.origin)
    if reading is None or {statement.value, value} != {"none", "full"}:
        return
    route = statement.origin.route[len(reading.base) :]
    now = reading.value(*route)
    if isinstance(now, bool):
        key = ".".join(map(str, route))
        yield Setting(reading.dialect, _as_written(reading, statement.origin, key), not now, reading.document.path)


def _reading_of(job: Job, origin: FileOrigin) -> Reading | None:
    for reading in job.readings:
        if reading.document is origin.document and origin.route[: len(reading.base)] == reading.base:
            entry = reading.entry(*origin.route[len(reading.base) :])
            if entry is not None and entry.key.span == origin.key_span:
                return reading
    return None


def _readings(job: Job, fact: str) -> list[Reading]:
    """Where a key may be added: for sharding the engine's own file first, else what the job is named after."""
    if fact not in SHARDING_FACTS:
        return job.readings
    first = [r for name in ENGINE_FILES for r in job.readings if r.dialect == name and _chosen(r, fact)]
    return [*first, *(r for r in job.readings if r.dialect not in ENGINE_FILES)]


def _chosen(reading: Reading, fact: str) -> bool:
    """Whether an Accelerate file leaves room for the engine that the fact belongs to."""
    kind = reading.context.get("distributed_type", "")
    other = "DEEPSPEED" if fact.startswith("fsdp") else "FSDP"
    return bool(kind != other)


def is_command(reading: Reading) -> bool:
    """Settings that are flags of a command line."""
    return reading.carrier is not None or bool(reading.context.get("command_line"))


def _as_written(reading: Reading, origin: FileOrigin, key: str) -> str:
    text = origin.document.file.text[origin.key_span.start : origin.key_span.end]
    return text.partition("=")[0] if text.startswith("-") else key


def _flag(reading: Reading, key: str) -> str:
    return f"--{key}" if is_command(reading) and reading.dialect not in HYDRA else key
