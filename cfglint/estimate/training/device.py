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
    """Reserved over allocated: ``low``, ``expected`` and ``high`` factors, and a constant in GiB."""

    low: float
    expected: float
    high: float
    constant: float = 0.0


FITTED_SLACK: Final = {
    # fitcheck-t4 (sdpa), cift-4080, torch-preflight-t4, fms-main and fms-liger on one GPU: on top of it the smaller hump
    "single": Slack(1.0, 1.02, 1.15),
    # simumax-b200: 1.03 to 1.09
    "megatron": Slack(1.0, 1.05, 1.15),
    # fms-main, fms-liger on 2 and 4 GPUs, adapters: 1.15 x + 2.5 GiB
    "fsdp-adapter": Slack(1.02, 1.13, 1.45, 1.5),
    # fms-main, fms-liger, fms-mp on 2 to 8 GPUs, full fine-tuning: 1.1 to 1.8
    "fsdp-full": Slack(1.04, 1.36, 1.75),
    # torchao, torchtitan-issues (FSDP2, reserved only) against the derived allocated figure; "lower and steadier"
    "fsdp2": Slack(1.0, 1.06, 1.35),
    # no row carries both figures: as FSDP with adapters (OVERHEADS.md section 4 suggests 1.2 to 1.5)
    "zero": Slack(1.0, 1.15, 1.5),
    "ddp": Slack(1.0, 1.05, 1.3),
}

FITTED_HUMP: Final = (0.15, 0.8, 1.6)
"""Share of the smaller of two humps, logits and one block, that does not fit into the other's freed blocks.

Fitted on fitcheck-t4 (sdpa), cift-4080 and the one-GPU adapter rows of fms-main and fms-liger: 0.7 to 1.0.
"""

CONTEXT_GIB: Final = {"T4": (0.12, 0.14, 0.45)}
"""CUDA context with lazily loaded kernels: 141 MiB on every row of fitcheck-t4."""

FITTED_CONTEXT_GIB: Final = (0.15, 0.5, 1.0)
"""Elsewhere: 0.25 to 0.95 GiB (``../shared/catalog/OVERHEADS.md`` section 2), 0.5 on the one-GPU rows of fms-main."""

FITTED_NCCL_GIB: Final = (0.2, 1.0, 3.0)
"""Communicators of 2 to 8 ranks (``OVERHEADS.md`` section 3); the fms rows on several GPUs carry about 1 GiB."""

SAME_SIZE: Final = 1.05
"""Candidates within this factor of each other are one size of device (form factors of one card)."""

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


def reserved_of(allocated: Interval, plan: Plan, humps: tuple[float, float]) -> Interval:
    """What the caching allocator holds. ``humps``: bytes of the head's peak and of one block's."""
    slack = FITTED_SLACK[regime_of(plan)]
    smaller = min(humps) if regime_of(plan) == "single" else 0.0
    low, expected, high = (share * smaller for share in FITTED_HUMP)
    constant = slack.constant * GIB
    return Interval(
        allocated.low * slack.low + low,
        allocated.expected * slack.expected + expected + constant,
        allocated.high * slack.high + high + 2 * constant,
    )


def used_of(reserved: Interval, allocated: Interval, plan: Plan, candidates: Sequence[Accelerator]) -> Interval:
    """What the device itself shows: reserved, context, libraries and communicators.

    Where live tensors fit, the allocator gives cached blocks back before it fails: the expected figure then stays below
    the device's memory.
    """
    known = {CONTEXT_GIB.get(a.id, FITTED_CONTEXT_GIB) for a in candidates} or {FITTED_CONTEXT_GIB}
    context = known.pop() if len(known) == 1 else FITTED_CONTEXT_GIB
    low, expected, high = (size * GIB for size in context)
    if plan.world > 1:
        low, expected, high = (a + b * GIB for a, b in zip((low, expected, high), FITTED_NCCL_GIB, strict=True))
    # an adapter run that keeps a low end below what is live would be no interval
    used = Interval(
        min(reserved.low, allocated.low * 1.02 + low) + low, reserved.expected + expected, reserved.high + high
    )
    capacities = sorted(a.usable_bytes for a in candidates)
    if capacities and capacities[-1] <= capacities[0] * SAME_SIZE:
        capacity = capacities[0]
        needed = allocated.expected * 1.02 + expected
        if needed <= capacity * RETURNED_SHARE < used.expected:
            used = Interval(min(used.low, capacity * RETURNED_SHARE), capacity * RETURNED_SHARE, used.high)
    return used
