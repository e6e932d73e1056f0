"""The fewest accelerators of each kind on which a job fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from cfglint.catalog.accelerators import Accelerator, accelerators
from cfglint.estimate.fit.options import (
    LARGEST_MICRO_BATCH,
    Option,
    checkpointing,
    each_reduction,
    evaluation_batches,
    full_sharding,
    rank_sequences,
)
from cfglint.estimate.fit.result import Change, OnAccelerator
from cfglint.estimate.fit.settings import settings_for
from cfglint.estimate.fit.what_if import WhatIf, need, on_hardware
from cfglint.estimate.result import Estimate
from cfglint.estimate.training.plan import Plan
from cfglint.jobs.job import Hardware, TrainingJob

COMMON_ACCELERATORS: Final = (
    "T4", "L4", "RTX-4090", "A10G", "L40S", "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM", "H200-SXM", "B200-SXM", "MI300X",
)  # fmt: skip
"""What a job is tried on where nothing says what it runs on: what clouds rent out (../shared/catalog, cloud instances)."""

COUNTS: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8))
"""(per node, nodes) tried: clouds rent nodes of up to eight."""


SAME_SIZE: Final = 1.02
"""Variants within this factor of each other are one size (PCIe and SXM boards)."""


@lru_cache(maxsize=1)
def common_accelerators() -> tuple[Accelerator, ...]:
    """The catalogue's rows of :data:`COMMON_ACCELERATORS`, the one with the least memory first."""
    rows = {accelerator.id: accelerator for accelerator in accelerators()}
    found = [rows[name] for name in COMMON_ACCELERATORS if name in rows]
    return tuple(sorted(found, key=lambda accelerator: accelerator.usable_bytes))


def tried_accelerators(hardware: Hardware) -> list[tuple[Accelerator, bool]]:
    """The stated accelerator first (of variants the smallest), then the common ones."""
    mine = min(hardware.candidates, key=lambda a: a.usable_bytes, default=None)
    if mine is None:
        return [(a, False) for a in common_accelerators()]
    alike = {a.id for a in hardware.candidates if a.usable_bytes <= SAME_SIZE * mine.usable_bytes}
    return [(mine, True), *((a, False) for a in common_accelerators() if a.id not in alike)]


def smallest_training_hardware(job: TrainingJob, plan: Plan, what_if: WhatIf) -> tuple[list[OnAccelerator], list[str]]:
    """For each accelerator the fewest that carry the job, and the accelerators on which no number tried does.

    The job's own sharding is kept; a job that shards nothing is also tried with all of it sharded over several.
    """
    found: list[OnAccelerator] = []
    too_small: list[str] = []
    layouts = list(_layouts(job, plan, what_if.estimate().memory.at == "evaluation"))
    # the job as it is, if any number carries it so; else the fewest devices, with the fewest changes
    tries = [(0, counts) for counts in layouts[0].counts]
    tries += [(i, counts) for counts in COUNTS for i, layout in enumerate(layouts) if i and counts in layout.counts]
    needs: dict[tuple[int, tuple[int, int]], float] = {}
    for accelerator, stated in tried_accelerators(job.hardware):
        name = job.hardware.name if stated and len(job.hardware.candidates) > 1 else accelerator.id
        row = None
        for index, counts in tries:
            # what a device needs hardly depends on which it is: skip the estimate where it cannot fit
            known = needs.get((index, counts))
            if known is not None and known > accelerator.usable_bytes * CERTAIN:
                continue
            layout, gpus = layouts[index], counts[0] * counts[1]
            facts, hardware = layout.facts(job, plan, gpus), on_hardware(job, accelerator, *counts)
            made = what_if.estimate(facts, hardware)
            needs[index, counts] = need(made.memory)[0]
            if made.memory.verdict != "fits":
                continue
            for milder in layout.milder(job, plan):
                milder_facts = milder.facts(job, plan, gpus)
                other = what_if.estimate(milder_facts, hardware)
                if other.memory.verdict == "fits":
                    layout, facts, made = milder, milder_facts, other
                    break
            row = _row(job, plan, layout, facts, accelerator, name, counts, made, stated)
            break
        if row is None:
            too_small.append(name)
        else:
            found.append(row)
    return found, too_small


BATCH: Final = ("micro_batch_size", "gradient_accumulation_steps")

CERTAIN: Final = 1.1
"""What one kind of device needs may differ from another's by this much (context, cached blocks given back)."""


@dataclass(frozen=True)
class Layout:
    """Numbers of devices to try, with settings changed besides."""

    counts: tuple[tuple[int, int], ...]
    options: tuple[Option, ...] = ()
    micro_batch: int | None = None
    """Micro-batch instead of the job's own, with accumulation that keeps the effective batch."""

    def milder(self, job: TrainingJob, plan: Plan) -> Iterator[Layout]:
        """The same with larger micro-batches, the largest first."""
        if self.micro_batch is not None and plan.micro_batch is not None:
            total = rank_sequences(job, plan)
            for size in range(min(plan.micro_batch - 1, LARGEST_MICRO_BATCH), self.micro_batch, -1):
                if total % size == 0:
                    yield replace(self, micro_batch=size)

    def facts(self, job: TrainingJob, plan: Plan, gpus: int) -> dict[str, Any]:
        """Facts on ``gpus`` devices: accumulation keeps the effective batch where it divides."""
        facts: dict[str, Any] = {}
        for option in self.options:
            facts.update(option.facts)
        data = gpus // _ways(plan)
        if job.value("data_parallel_size") is not None:
            facts["data_parallel_size"] = data
        micro = self.micro_batch or plan.micro_batch
        if micro is None:
            return facts
        if self.micro_batch is not None:
            facts["micro_batch_size"] = micro
        steps, rest = divmod(_sequences(job, plan) or 0, micro * data)
        if not steps or rest:
            # the number of devices is not stated, or does not divide: a rank's own share is kept
            steps = max(1, rank_sequences(job, plan) // micro)
        if steps != plan.accumulation:
            facts["gradient_accumulation_steps"] = steps
        return facts


def _ways(plan: Plan) -> int:
    return plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel


def _layouts(job: TrainingJob, plan: Plan, evaluation: bool) -> Iterator[Layout]:
    """The job as it is, then with what does not change its result: smaller micro-batches, checkpointing, sharding, reduction.

    ``evaluation``: a batch of it needs most, so that the smallest comes first and stays beside the rest.
    """
    ways = _ways(plan)
    counts = tuple((gpus, nodes) for gpus, nodes in COUNTS if gpus * nodes % ways == 0)
    unsharded = plan.sharding in ("none", "ddp")
    bases = [Layout(counts[:1] if unsharded else counts)]
    if unsharded:
        for option in full_sharding(job, plan):
            if settings_for(job, option.said) is not None:
                bases.append(Layout(counts[1:], (option,)))
                break
    yield bases[0]
    evaluated = tuple(evaluation_batches(plan))[-1:] if evaluation else ()
    if not all(settings_for(job, option.said) for option in evaluated):
        evaluated = ()
    smaller = 1 if plan.micro_batch is not None and plan.micro_batch > 1 else None
    recompute = tuple(o for o in checkpointing(plan) if settings_for(job, o.said) is not None)
    shards = [plan.sharding.startswith("fsdp"), *("fsdp" in option.facts for base in bases for option in base.options)]
    reduced = tuple(o for o in each_reduction(plan) if any(shards) and settings_for(job, o.said) is not None)
    for base in bases:
        if base.options:
            yield base
        if evaluated:
            base = replace(base, options=(*base.options, *evaluated))
            yield base
        if smaller:
            yield Layout(base.counts, base.options, smaller)
        if recompute:
            yield Layout(base.counts, (*base.options, *recompute), smaller)
        if reduced:
            yield Layout(base.counts, (*base.options, *recompute, *reduced), smaller)


def _sequences(job: TrainingJob, plan: Plan) -> int | None:
    """The effective batch, where the number of devices is stated."""
    if job.hardware.world_size is None or plan.micro_batch is None:
        return None
    return rank_sequences(job, plan) * plan.data_parallel


def _row(
    job: TrainingJob,
    plan: Plan,
    layout: Layout,
    facts: Mapping[str, Any],
    accelerator: Accelerator,
    name: str,
    counts: tuple[int, int],
    made: Estimate,
    stated: bool,
) -> OnAccelerator:
    change = None
    micro = layout.micro_batch or plan.micro_batch
    steps = facts.get("gradient_accumulation_steps", plan.accumulation)
    if layout.options or layout.micro_batch or steps != plan.accumulation:
        says = {name: value for option in layout.options for name, value in option.said.items()}
        says |= {name: facts[name] for name in BATCH if name in facts}
        words = [f"micro-batch {layout.micro_batch}"] if layout.micro_batch else []
        words += [option.words for option in layout.options]
        words = words or [f"{steps} accumulation steps"]
        change = Change(
            " + ".join(words),
            facts,
            settings_for(job, says) or (),
            made,
            any(option.alters for option in layout.options),
            "; ".join(option.cost for option in layout.options),
            sum(option.rank for option in layout.options),
        )
    sequences = None if micro is None else micro * steps * (counts[0] * counts[1] // _ways(plan))
    changed = steps if steps != plan.accumulation else None
    wants_bf16 = "bf16" in (plan.compute_dtype, plan.weight_dtype)
    lacks = "bf16" if wants_bf16 and accelerator.supports.get("bf16") is False else ""
    return OnAccelerator(name, accelerator.usable_bytes, *counts, made, change, stated, changed, sequences, lacks)
