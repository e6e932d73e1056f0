"""What a training job's files say key by key: the trainer's arguments, its DeepSpeed settings, its Accelerate file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import boolean, integer, number, scalar
from cfglint.jobs.facts import DefaultOrigin, Fact, FileOrigin, Origin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.source.node import Mapping, Node, Route

HF_TRAINERS = ("hf-training-args", "trl", "llamafactory", "axolotl", "ms-swift")
"""Dialects whose runs end in transformers' ``Trainer``."""

COMMANDS = frozenset({"trl", "llamafactory", "axolotl"})
"""Those of them whose files hold a run's whole arguments: what they leave out takes the framework's default."""


NAMED_SIZE = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,2})?)[bB](?![A-Za-z0-9])")
"""Billions of parameters as models' names state them: ``Baichuan2-13B-Base``. For models the catalogue does not have."""

OWN_LOOP = "open-instruct"
"""Scripts that take transformers' argument names but train in a loop of their own."""


class Settings:
    """One mapping of settings in a file: DeepSpeed's own file, or its settings in place."""

    def __init__(self, reading: Reading, prefix: Route, certain: bool = True) -> None:
        self.reading = reading
        self.prefix = prefix
        self.certain = certain

    def node(self, *route: str | int) -> Node | None:
        return self.reading.at(*self.prefix, *route)

    def value(self, *route: str | int) -> Any:
        """The scalar at ``route``; None for null, for a mapping and where there is nothing."""
        return scalar(self.node(*route))

    def has(self, *route: str | int) -> bool:
        return self.node(*route) is not None

    def number(self, *route: str | int) -> float | None:
        """A number written as a number; text (``auto``) is none."""
        value = self.value(*route)
        return None if isinstance(value, str) else number(value)

    def integer(self, *route: str | int) -> int | None:
        value = self.value(*route)
        return None if isinstance(value, str) else integer(value)

    def on(self, *route: str | int) -> bool | None:
        """A switch; None where it is not stated or not known (``auto``)."""
        value = self.value(*route)
        return value if isinstance(value, bool) else None

    def origin(self, *route: str | int) -> FileOrigin:
        return self.reading.origin(*self.prefix, *route)

    def fact(self, *route: str | int) -> Fact[Any]:
        """The value at ``route`` as a fact, for a finding's places."""
        return Fact(self.value(*route), self.origin(*route), self.certain)


def trainer_readings(job: TrainingJob) -> list[Reading]:
    """The job's trainer arguments: those on the command line first, then the run's own file."""
    found = [
        r
        for r in job.readings
        if r.dialect in HF_TRAINERS and r.role in ("run", "arguments") and r.context.get("script") != OWN_LOOP
    ]
    return sorted(found, key=lambda r: 0 if r.role == "arguments" else 1)


def argument(job: TrainingJob, *keys: str) -> Fact[Any] | None:
    """The value a trainer argument is given, and where; None where no file gives one. A null counts as not given."""
    for reading in trainer_readings(job):
        for key in keys:
            value = reading.value(key)
            if value is not None:
                return Fact(value, reading.origin(key))
    return None


def argument_number(job: TrainingJob, *keys: str) -> Fact[float] | None:
    """A trainer argument's number. Text that is a number counts: the argument parser reads it so."""
    found = argument(job, *keys)
    value = None if found is None else number(found.value)
    return None if found is None or value is None else Fact(value, found.origin)


def argument_on(job: TrainingJob, *keys: str) -> Fact[bool] | None:
    """A trainer argument's switch as the argument parser reads it."""
    found = argument(job, *keys)
    value = None if found is None else boolean(found.value)
    return None if found is None or value is None else Fact(value, found.origin)


def placeholder(value: Any) -> bool:
    """Whether a value is filled in later (``${EVAL_STEPS}``, ``{{ steps }}``); ``auto`` is a value here."""
    return is_unknown(value) and str(value).strip().lower() != "auto"


def word(fact: Fact[Any] | None) -> str | None:
    """A fact's value as a lower-case word; YAML's ``no`` is false and means the word. None where it is not known."""
    if fact is None or is_unknown(fact.value):
        return None
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    return str(fact.value).strip().lower().rpartition(".")[2]


def trainer_fact(job: TrainingJob, name: str) -> Fact[Any] | None:
    """What the trainer itself takes for a fact: its arguments, then its default. None where it is not known."""
    default: Fact[Any] | None = None
    for reading in trainer_readings(job):
        for fact in reading.facts.statements(name):
            if isinstance(fact.origin, DefaultOrigin):
                default = default or fact
            elif (
                fact.value is None
                or is_unknown(fact.value)
                or (not fact.value and not isinstance(fact.value, (int, float)))
            ):
                return None
            else:
                return fact
    return default


def is_default(fact: Fact[Any]) -> bool:
    return isinstance(fact.origin, DefaultOrigin)


def guessed(job: TrainingJob, reading: Reading) -> bool:
    """Whether a file was put into the job only because it is the sole neighbour."""
    return any(
        not fact.certain and isinstance(fact.origin, FileOrigin) and fact.origin.document is reading.document
        for name in job.names()
        for fact in job.statements(name)
    )


def deepspeed_settings(job: TrainingJob) -> Settings | None:
    """The settings DeepSpeed gets in this job: the file it names, or the mapping in the trainer's own file."""
    for reading in trainer_readings(job):
        for key in ("deepspeed", "deepspeed_config"):
            if isinstance(reading.at(key), Mapping) and "deepspeed" in reading.context:
                return Settings(reading, (key,))
    found = job.reading("deepspeed")
    return None if found is None else Settings(found, (), not guessed(job, found))


def uses_deepspeed(job: TrainingJob) -> bool:
    """Whether the job's files name or hold DeepSpeed settings."""
    return deepspeed_settings(job) is not None or any(
        "deepspeed" in r.context or any(reference.role == "deepspeed" for reference in r.references)
        for r in job.readings
    )


def accelerate_reading(job: TrainingJob) -> Reading | None:
    return job.reading("accelerate")


def short(origin: Origin) -> str:
    """A default's name for a message; empty for what stands in a file."""
    return origin.describe() if isinstance(origin, DefaultOrigin) else ""


def shown(value: Any) -> str:
    """A value as people write it: ``2e-05``, ``true``, ``16``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def data_parallel_ranks(job: TrainingJob) -> int | None:
    """GPUs that each take their own micro-batches, where all counts are known."""
    world = job.hardware.world_size
    if world is None:
        return None
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"):
        if job.undecided(name):
            return None
        size = job.value(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1 or world % size:
            return None
        world //= size
    return world


def parameter_count(job: TrainingJob) -> int:
    """The model's parameters: from the catalogue or its config, else as its name states them, else 0."""
    row = job.model.row if job.model is not None else None
    total = getattr(row, "params_total", None)
    if total is None and job.architecture is not None:
        total = job.architecture.total_parameters
    if total is None:
        named = NAMED_SIZE.search(str(job.value("model_id") or "").rsplit("/", 1)[-1])
        total = int(float(named.group(1)) * 1e9) if named else 0
    return total if isinstance(total, int) else 0


def trains_adapters(job: TrainingJob) -> bool | None:
    """Whether adapters are trained rather than the weights; None where the method is not known."""
    method = job.value("method")
    if not isinstance(method, str):
        return None
    return any(part in ("lora", "qlora", "dora") for part in method.split("+"))


def sections(job: TrainingJob, name: str) -> Iterator[Settings]:
    """Mappings called ``name`` (``fsdp_config``) in the trainer's arguments, the Accelerate file, and the file they name."""
    for reading in [*trainer_readings(job), *(r for r in job.readings if r.dialect == "accelerate")]:
        if isinstance(reading.at(name), Mapping):
            yield Settings(reading, (name,))
    for reading in job.readings if name == "fsdp_config" else ():
        if reading.dialect == "hf-training-args" and reading.role == "part":
            yield Settings(reading, (name,) if isinstance(reading.at(name), Mapping) else ())


def handed_to_deepspeed(job: TrainingJob) -> Fact[str] | None:
    """The ``--deepspeed_config`` of a script that calls ``deepspeed.initialize`` itself; None for transformers' trainers.

    DeepSpeed's own ``add_config_arguments`` makes that flag; transformers' is ``--deepspeed``. Nothing fills in what such a
    file leaves to somebody else.
    """
    if trainer_readings(job) or accelerate_reading(job) is not None:
        return None
    for reading in job.readings:
        if reading.role == "launch":
            for reference in reading.references:
                origin = reference.origin
                if (
                    reference.role == "deepspeed"
                    and isinstance(origin, FileOrigin)
                    and origin.route[-1:] == (OWN_FLAG,)
                ):
                    return Fact(reference.target, origin)
    return None


OWN_FLAG = "deepspeed_config"
