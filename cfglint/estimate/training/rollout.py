"""The rollout engine of an RL run that shares its devices with the trainer (vLLM or SGLang, colocated).

The engine fills its share of the device with weights, graphs and cache, whatever the model needs (vLLM
``gpu_memory_utilization``, SGLang ``mem_fraction_static``). It stands beside the trainer, or the two take turns: the
engine sleeps while the policy is updated, and the trainer may wait on the host while it generates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import Interval
from cfglint.formulas import GIB
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob

LEAST_OF_SHARE: Final = 0.9
"""Part of its share that an engine takes at least: the activations that its start-up profiled may not recur."""

ASLEEP_GIB: Final = 1.5
"""What a sleeping engine leaves at most: CUDA graphs and its own context (verl ``rollout.yaml``: graphs are not freed)."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """``share`` of each device; ``certain`` where a file states it."""

    share: float
    sleeps: bool
    trainer_sleeps: bool
    certain: bool


def rollout_of(job: TrainingJob) -> Rollout | None:
    """The engine beside the trainer; None where no file and no default says that there is one on the same devices."""
    fact = job.fact("rollout_gpu_memory_utilization")
    share = fact.value if fact is not None else None
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        return None
    return Rollout(
        share=float(share),
        sleeps=job.value("rollout_sleeps") is True,
        trainer_sleeps=job.value("trainer_sleeps") is True,
        certain=fact is not None and not isinstance(fact.origin, DefaultOrigin),
    )


def described(rollout: Rollout) -> str:
    when = "while the policy is not updated" if rollout.sleeps else "all the time"
    return f"the rollout engine takes {rollout.share:.0%} of each device {when}"


def shared_use(
    used: Interval, resident: Interval, rollout: Rollout, candidates: Sequence[Accelerator]
) -> tuple[Interval, float] | None:
    """What the device shows with both, and the engine's share in bytes; None where the device is not known.

    ``used``: the trainer alone at its peak. ``resident``: the trainer between two updates.
    """
    if not candidates:
        return None
    smallest, largest = (extreme(a.usable_bytes for a in candidates) for extreme in (min, max))
    low, expected, high = rollout.share * smallest * LEAST_OF_SHARE, rollout.share * smallest, rollout.share * largest
    if not rollout.certain:
        low = 0.0
    if not rollout.sleeps:
        return Interval(used.low + low, used.expected + expected, used.high + high), expected
    waiting = Interval(0.0, 0.0, 0.0) if rollout.trainer_sleeps else resident
    left = ASLEEP_GIB * GIB
    return (
        Interval(
            max(used.low, waiting.low + low),
            max(used.expected + left / 2, waiting.expected + expected),
            max(used.high + left, waiting.high + high),
        ),
        expected,
    )
