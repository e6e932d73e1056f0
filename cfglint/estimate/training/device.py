"""From live tensors to the device: allocator rounding and fragmentation, CUDA context, libraries, NCCL.

What is fitted is named so, with the rows of ``../shared/cases/measured/train.jsonl`` that it was fitted to; every such
row states allocated memory beside reserved or process memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import GIB, Interval
from cfglint.estimate.training.plan import Plan


@dataclass(frozen=True, slots=True)
class Slack:
    """Reserved over allocated: a factor and a constant in GiB; ``low`` and ``high`` are factors on the result."""

    factor: float
    constant: float
    low: float
    high: float


FITTED_SLACK: Final = {
    # fitcheck-t4, cift-4080, fms-main and fms-liger on one GPU: on top of it the smaller hump. 48 of the 51 rows that carry
    # both figures are inside, all of them 0.95 and above
    "single": Slack(1.025, 0.0, 0.95, 1.1),
    # fitcheck-t4 and torch-preflight-t4 with eager attention: score matrices come and go in every block, and what is left
    # between them spreads further (41 of 45)
    "single-eager": Slack(1.025, 0.0, 0.917, 1.115),
    # simumax-b200: 1.03 to 1.09
    "megatron": Slack(1.05, 0.0, 0.9, 1.09),
    # fms-main, fms-liger on 2 and 4 GPUs, adapters
    "fsdp-adapter": Slack(1.15, 1.5, 0.87, 1.15),
    # fms-main, fms-liger, fms-mp on 2 to 8 GPUs, full fine-tuning: 1.1 to 1.8
    "fsdp-full": Slack(1.36, 0.0, 0.8, 1.22),
    # on the streams' pools together: the torchtitan and xtuner rows of the training hold-outs and torchao's, 0.88 to 1.2,
    # most of them 1.0 to 1.15
    "fsdp2": Slack(1.06, 0.0, 0.82, 1.2),
    # no row carries both figures: OVERHEADS.md section 4 suggests 1.2 to 1.5
    "zero": Slack(1.15, 0.0, 0.7, 1.6),
    # no rows but two of the training hold-out (fsdp-qlora): every rank as a single GPU, with the same smaller hump
    "ddp": Slack(1.025, 0.0, 0.9, 1.2),
}

FITTED_HUMP: Final = 0.8
"""Share of the smaller of two humps, logits and one block, that does not fit into the other's freed blocks.

Fitted on fitcheck-t4 (sdpa), cift-4080 and the one-GPU adapter rows of fms-main and fms-liger: 0.7 to 1.0.
"""

FITTED_HUMP_EAGER: Final = 0.7
"""The same where score matrices are the larger hump (fitcheck-t4, eager)."""

CONTEXT_GIB: Final = {"T4": (0.12, 0.14, 0.3)}
"""CUDA context with lazily loaded kernels: 141 MiB on every row of fitcheck-t4."""

VOLTA_CONTEXT_GIB: Final = (0.3, 1.0, 1.8)
"""V100: 0.3 to 0.4 GiB with torch 1.1, 1343 MiB on hf-doc-bert (2022, kernels loaded eagerly)."""

FITTED_CONTEXT_GIB: Final = (0.15, 0.5, 1.0)
"""Elsewhere: 0.25 to 0.95 GiB (``../shared/catalog/OVERHEADS.md`` section 2), 0.5 on the one-GPU rows of fms-main."""

FITTED_NCCL_GIB: Final = (0.2, 1.0, 3.0)
"""Communicators of 2 to 8 ranks (``OVERHEADS.md`` section 3); the fms rows on several GPUs carry about 1 GiB."""

FITTED_USED_FACTOR: Final = {"megatron": 1.15}
"""Used over reserved beside context and communicators: median of the Megatron rows of ms-swift-examples.

The cause is not measured: TransformerEngine's workspaces and leftovers of unequal batches are likely. simumax-b200, which
the Megatron slack is from, ran equal batches.
"""

FITTED_USED_RESIDUALS: Final = {
    # fitcheck-t4, fms-main, fms-liger and hf-doc-bert on one GPU: with reserved and context 163 of 171 rows are inside.
    # The same settings came to 11.74 and 13.10 GiB in two processes (fitcheck-75, fitcheck-verdict-06): what earlier
    # allocations left cached is part of it
    "single": (0.95, 1.1),
    # fms-main and fms-liger on 2 and 4 GPUs: all 94 rows are inside
    "fsdp-adapter": (0.98, 1.05),
    "fsdp-full": (0.98, 1.05),
    # ms-swift-examples: 18 of its 19 Megatron rows are inside
    "megatron": (0.9, 1.45),
    "zero": (0.95, 1.15),
}
"""Low and high factors of used beside those of reserved, by regime; other regimes as one GPU."""

SAME_SIZE: Final = 1.05
"""Candidates within this factor of each other are one size of device (form factors of one card)."""

FITTED_UNRETURNED: Final = {"single": 1.04, "fsdp-full": 1.1, "fsdp-adapter": 1.13, "fsdp2": 1.04, "zero": 1.06}
"""Reserved over allocated that the allocator cannot give back: rows of fms-main and fms-liger on both sides of 80 GB."""

FITTED_UNEVEN: Final = 3.7
"""At most so many times what a step makes beside its states is reserved where batches differ in length.

Blocks that were made for one length do not serve the next. fms-pf on one GPU, which states both figures: 1.2 to 3.7 (20 rows).
How far it goes depends on the samples, and all of it is cached, so only the high end says it.
"""

RETURNED_SHARE: Final = 0.985
"""Share of the device that a process fills at most: cached blocks are given back before an allocation fails."""


def regime_of(plan: Plan) -> str:
    """The allocator's regime."""
    if plan.profile.name == "megatron":
        return "megatron"
    if plan.sharding == "fsdp2":
        return "fsdp2"
    if plan.sharding == "fsdp1":
        return "fsdp-adapter" if plan.adapter else "fsdp-full"
    if plan.sharding.startswith("zero"):
        return "zero"
    return "ddp" if plan.sharding == "ddp" else "single"


def reserved_of(
    allocated: Interval, plan: Plan, humps: tuple[float, float], certainty: float, pools: float = 0.0
) -> Interval:
    """What the caching allocator holds. ``pools``: the peaks of streams that allocate, together.

    ``humps``: bytes of the head's peak and of one block's. ``certainty``: how far the allocated interval's low end is
    below the residuals alone (1, or less where facts were assumed).
    """
    regime = regime_of(plan)
    eager = regime == "single" and plan.attention == "eager"
    slack = FITTED_SLACK["single-eager" if eager else regime]
    head, block = humps
    share = FITTED_HUMP_EAGER if plan.attention == "eager" and block > head else FITTED_HUMP
    smaller = share * min(humps) if regime in ("single", "ddp") else 0.0
    expected = max(allocated.expected, pools) * slack.factor + smaller + slack.constant * GIB
    low = allocated.low
    if certainty == 1 and plan.checkpointing != "selective":
        low = max(low, expected * slack.low)
    return Interval(min(low, expected), expected, max(allocated.high, expected * slack.high))


def communicators(plan: Plan) -> int:
    """Process groups with buffers of their own: one for each kind of parallelism in use."""
    kinds = (
        plan.data_parallel,
        plan.tensor_parallel,
        plan.pipeline_parallel,
        plan.context_parallel,
        plan.expert_parallel,
    )
    return max(1, sum(size > 1 for size in kinds))


def used_of(
    reserved: Interval, allocated: Interval, plan: Plan, candidates: Sequence[Accelerator], paged: float = 0.0
) -> Interval:
    """What the device itself shows: reserved, context, libraries, communicators, and ``paged`` states while there is room.

    Where live tensors fit, the allocator gives cached blocks back before it fails: the expected figure then stays below
    the device's memory.
    """
    known = {
        VOLTA_CONTEXT_GIB if a.arch.lower() == "volta" else CONTEXT_GIB.get(a.id, FITTED_CONTEXT_GIB)
        for a in candidates
    } or {FITTED_CONTEXT_GIB}
    context = known.pop() if len(known) == 1 else FITTED_CONTEXT_GIB
    low, expected, high = (size * GIB for size in context)
    if plan.world > 1:
        groups = communicators(plan)
        low, expected, high = (
            a + b * GIB * groups for a, b in zip((low, expected, high), FITTED_NCCL_GIB, strict=True)
        )
    less, more = FITTED_USED_RESIDUALS.get(regime_of(plan), FITTED_USED_RESIDUALS["single"])
    factor = FITTED_USED_FACTOR.get(regime_of(plan), 1.0)
    used = Interval(
        reserved.low * less + low, reserved.expected * factor + expected + paged, reserved.high * more + high + paged
    )
    capacities = sorted(a.usable_bytes for a in candidates)
    if capacities and capacities[-1] <= capacities[0] * SAME_SIZE:
        capacity = capacities[0]
        kept = FITTED_UNRETURNED.get(regime_of(plan), FITTED_UNRETURNED["single"])
        needed = allocated.expected * kept + expected
        if needed <= capacity * RETURNED_SHARE < used.expected:
            least = min(used.low, allocated.low + low)
            used = Interval(min(least, capacity * RETURNED_SHARE), capacity * RETURNED_SHARE, used.high)
        if allocated.low + low <= capacity * RETURNED_SHARE < used.low:
            # it fails for sure only where live tensors do not fit
            used = Interval(capacity * RETURNED_SHARE, used.expected, used.high)
    return used


def with_cached_blocks(
    reserved: Interval,
    used: Interval,
    live: float,
    resident: float,
    plan: Plan,
    candidates: Sequence[Accelerator],
    left: float,
) -> tuple[Interval, Interval]:
    """The high ends of what is reserved and used, with blocks that serve nothing that comes later.

    Those of batches that differ in length (:data:`FITTED_UNEVEN`), and ``left``, bytes that loading made and freed: they
    stay unless a process empties its cache. ``live`` and
    ``resident``: bytes at the peak and of the states. A device that would do without the cache is not made too small by it.
    """
    uneven = 0.0
    if not plan.packs and regime_of(plan) in ("single", "ddp"):
        uneven = resident + FITTED_UNEVEN * (live - resident) - reserved.high
    more = max(0.0, uneven, left)
    high = used.high + more
    capacities = [a.usable_bytes for a in candidates]
    if capacities:
        high = max(used.high, min(high, min(capacities) * RETURNED_SHARE))
    return (
        Interval(reserved.low, reserved.expected, reserved.high + more),
        Interval(used.low, used.expected, high),
    )
