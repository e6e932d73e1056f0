"""Jobs on several GPUs of which no file says how the model is shared among them.

A recipe for the Hugging Face trainers is often started with an Accelerate or DeepSpeed file that is named on the command
line only. The same recipe then needs 16 bytes per parameter on each GPU, or that divided by the number of GPUs. A verdict
is given only where both agree.
"""

from __future__ import annotations

from cfglint.estimate.result import Estimate, Interval
from cfglint.jobs.job import TrainingJob

SHARDING_FILES = frozenset({"accelerate", "deepspeed"})
"""Roles of files that may offload to the CPU besides sharding."""

OFFLOADING = "{} is named and not here: it may offload to the CPU"

MISSING = "sharding"
COUNT = "gpus_per_node"


def either(replicated: Estimate, sharded: Estimate, job: TrainingJob) -> Estimate:
    """``replicated`` with its intervals widened to hold ``sharded``'s; no verdict where the two differ."""
    memory, other = replicated.memory, sharded.memory
    ranks = job.hardware.world_size
    memory.allocated = _widened(memory.allocated, other.allocated)
    memory.reserved = _widened(memory.reserved, other.reserved)
    memory.used = _widened(memory.used, other.used)
    memory.floor = lesser(memory.floor, other.floor)
    words = f"how {ranks} GPUs" if ranks is not None else "how many GPUs there are and how they"
    replicated.assumptions.insert(
        0, f"no file says {words} share the model: shown replicated (DDP), the low end fully sharded (ZeRO-3)"
    )
    if memory.verdict not in ("unknown", other.verdict):
        memory.verdict = "unknown"
        memory.missing.append(MISSING if ranks is not None else COUNT)
    return replicated


def named_file(job: TrainingJob) -> str | None:
    """A sharding file that the job names and that is not at hand; None where there is none."""
    known = {reading.dialect for reading in job.readings}
    for reading in job.readings:
        for reference in reading.references:
            if reference.role in SHARDING_FILES - known:
                return reference.target
    return None


def perhaps_offloaded(made: Estimate, offloaded: Estimate, name: str) -> None:
    """No certainty that it does not fit where a file that is not here may offload; the intervals stay."""
    memory = made.memory
    if memory.verdict != "oom" or offloaded.memory.verdict == "oom":
        return
    memory.floor = lesser(memory.floor, offloaded.memory.floor)
    memory.verdict = "likely-oom" if memory.used is not None else "unknown"
    made.assumptions.insert(1, OFFLOADING.format(name))


def _widened(whole: Interval | None, least: Interval | None) -> Interval | None:
    if whole is None or least is None:
        return whole
    return Interval(min(whole.low, least.low), whole.expected, max(whole.high, least.high))


def lesser(shown: float | None, least: float | None) -> float | None:
    """The smaller of two floors; None where one is not known."""
    return None if shown is None or least is None else min(shown, least)
