"""The batch of trainers that sample groups of completions (GRPO, RLOO), as TRL and Axolotl count it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import UNKNOWN, Fact, FileOrigin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.source.node import Route, Scalar

NUM_GENERATIONS = 8
"""TRL's default in every release from 0.14 to 1.16."""


@dataclass(frozen=True)
class SamplingBatch:
    """Numbers are None where they are not stated or not known. ``world_size`` counts training processes."""

    reading: Reading
    num_generations: int
    generations: Fact[Any] | None
    micro_batch: Fact[Any]
    accumulation: Fact[Any]
    world_size: int | None
    processes: Fact[Any] | None
    generation_batch: Fact[Any] | None
    steps_per_generation: Fact[Any] | None


def setting(job: TrainingJob, *keys: str) -> Fact[Any] | None:
    """A setting of the sampling trainer: TRL's own key, or Axolotl's under ``trl``. Arguments on the line come first."""
    readings = [r for r in job.readings if r.dialect in ("trl", "axolotl")]
    for reading in sorted(readings, key=lambda r: r.role != "arguments"):
        for key in keys:
            route: Route = (key,) if reading.dialect == "trl" else ("trl", key)
            node = reading.at(*route)
            if node is not None and not isinstance(node, Scalar):
                return Fact(UNKNOWN, reading.origin(*route))
            if node is not None and node.value is not None:
                return Fact(node.value, reading.origin(*route))
    return None


def sampling_reading(job: TrainingJob) -> Reading | None:
    """The reading that shows a GRPO or RLOO run."""
    for reading in job.readings:
        if reading.dialect in ("trl", "axolotl") and reading.context.get("trainer") in ("grpo", "rloo"):
            return reading
    return None


def training_processes(job: TrainingJob) -> tuple[int | None, Fact[Any] | None]:
    """How many processes train, and where it is said: the launcher's own count before the hardware's, since vLLM may have
    GPUs for itself."""
    launchers = {id(r.document) for r in job.readings if r.dialect in ("accelerate", "launch")}
    for fact in job.statements("gpus_per_node"):
        launched = isinstance(fact.origin, FileOrigin) and id(fact.origin.document) in launchers
        if launched and isinstance(fact.value, int) and fact.value > 0:
            nodes = next((f.value for f in job.statements("nodes") if isinstance(f.origin, FileOrigin)), 1)
            return (fact.value * nodes, fact) if isinstance(nodes, int) else (None, None)
    if vllm_has_devices(job):
        return None, None
    return job.hardware.world_size, job.gpus_per_node


def vllm_has_devices(job: TrainingJob) -> bool:
    """Whether vLLM generates on GPUs of its own, so that not all of the machine's train: ``vllm_device`` up to TRL 0.15, and
    server mode."""
    on, mode, device = setting(job, "use_vllm"), setting(job, "vllm_mode"), setting(job, "vllm_device")
    if on is None or boolean(on.value) is not True:
        return False
    return device is not None or (mode is not None and str(mode.value).lower() == "server")


def in_words(processes: int) -> str:
    return f"{processes} process" if processes == 1 else f"{processes} processes"


def completions(count: int) -> str:
    return f"{count} completion" if count == 1 else f"{count} completions"


def sampling_batch(job: TrainingJob) -> SamplingBatch | None:
    """The batch as far as the files state it; None where a needed number is stated but not known."""
    reading = sampling_reading(job)
    micro, accumulation = job.micro_batch_size, job.gradient_accumulation_steps
    if reading is None or micro is None or accumulation is None or job.undecided("gradient_accumulation_steps"):
        return None
    if reading.dialect == "trl" and reading.context.get("trainer") == "rloo" and reading.value("rloo_k") is not None:
        return None
    found: dict[str, Fact[Any] | None] = {}
    for key in ("num_generations", "generation_batch_size", "steps_per_generation"):
        fact = setting(job, key)
        if fact is not None and (is_unknown(fact.value) or integer(fact.value) is None):
            return None
        found[key] = fact
    generations = found["num_generations"]
    if generations is None and reading.dialect == "axolotl":
        return None
    count = integer(generations.value) if generations is not None else NUM_GENERATIONS
    if count is None:
        return None
    return SamplingBatch(
        reading,
        count,
        generations,
        micro,
        accumulation,
        *training_processes(job),
        found["generation_batch_size"],
        found["steps_per_generation"],
    )
