"""What would fit: the job with one setting changed, estimated again."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from cfglint.estimate import estimate
from cfglint.estimate.result import Estimate
from cfglint.jobs.facts import DerivedOrigin
from cfglint.jobs.job import Job, TrainingJob

J = TypeVar("J", bound=Job)

FITTING = ("fits", "tight")


def with_facts(job: J, **facts: Any) -> J:
    """A copy of ``job`` in which ``facts`` win over what files state. The original is not touched."""
    other = copy(job)
    other._facts = {name: list(stated) for name, stated in job._facts.items()}
    for name, value in facts.items():
        other.state_first(name, value, DerivedOrigin("what if"))
    return other


@dataclass(frozen=True)
class Change:
    """Settings that differ, in words, and what the job needs with them. ``alters_training``: the result differs too."""

    words: str
    facts: dict[str, Any]
    estimate: Estimate
    alters_training: bool = False


def fitting_changes(job: TrainingJob) -> Iterator[Change]:
    """Single changes with which the job fits, the cheapest first: none of them touches the effective batch."""
    for words, facts, alters in _candidates(job):
        made = estimate(with_facts(job, **facts))
        if made.memory.verdict in FITTING:
            yield Change(words, facts, made, alters)


def _candidates(job: TrainingJob) -> Iterator[tuple[str, dict[str, Any], bool]]:
    micro, accumulation = job.value("micro_batch_size"), job.value("gradient_accumulation_steps")
    if isinstance(micro, int) and micro > 1:
        smaller = micro // 2
        while smaller >= 1:
            if micro % smaller == 0 and isinstance(accumulation, int):
                steps = accumulation * (micro // smaller)
                yield (
                    f"micro-batch {smaller} with {steps} accumulation steps",
                    {"micro_batch_size": smaller, "gradient_accumulation_steps": steps},
                    False,
                )
            smaller //= 2
    if job.value("gradient_checkpointing") in (None, "none"):
        yield "gradient checkpointing", {"gradient_checkpointing": "full"}, False
    if job.value("loss_kernel") in (None, "torch") and job.value("framework") in ("transformers", "trl", "axolotl"):
        yield "a fused linear cross-entropy (Liger)", {"loss_kernel": "fused_linear"}, False
    world = job.hardware.world_size or 1
    if world > 1 and job.value("fsdp") in (None, "none"):
        stage = job.value("zero_stage", 0)
        if stage < 3:
            yield "ZeRO stage 3", {"zero_stage": 3}, False
    if job.value("offload_optimizer") in (None, "none") and job.value("zero_stage", 0) >= 1:
        yield "the optimizer offloaded to the CPU", {"offload_optimizer": "cpu"}, False
    optimizer = str(job.value("optimizer", ""))
    if optimizer.startswith("adamw_torch"):
        yield "an 8-bit optimizer (adamw_8bit)", {"optimizer": "adamw_8bit"}, True
