"""From live tensors to the device: allocator rounding and fragmentation, CUDA context, libraries, NCCL.

The constants here are fitted; each names the rows it was fitted to (``../shared/cases/measured/train.jsonl``).
"""

from __future__ import annotations

from typing import Final

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import GIB, Interval
from cfglint.estimate.training.plan import Plan

FITTED_RESERVED_OVER_ALLOCATED: Final = (1.01, 1.08, 1.30)
"""Low, expected, high of max_memory_reserved / max_memory_allocated on one device."""

FITTED_CONTEXT_GIB: Final = (0.14, 0.45, 1.0)
"""CUDA context and loaded kernels: 141 MiB on a T4 with lazy loading to 0.9 GiB (``../shared/catalog/OVERHEADS.md``)."""

FITTED_NCCL_GIB: Final = (0.3, 1.2, 3.0)
"""Communicators of one process group of 2 to 8 ranks (``OVERHEADS.md`` section 3)."""


def reserved_of(allocated: Interval, plan: Plan) -> Interval:
    """What the caching allocator holds."""
    low, expected, high = FITTED_RESERVED_OVER_ALLOCATED
    return Interval(allocated.low * low, allocated.expected * expected, allocated.high * high)


def used_of(reserved: Interval, plan: Plan, accelerator: Accelerator | None) -> Interval:
    """What the device itself shows."""
    low, expected, high = (c * GIB for c in FITTED_CONTEXT_GIB)
    if plan.world > 1:
        low, expected, high = (a + b * GIB for a, b in zip((low, expected, high), FITTED_NCCL_GIB, strict=True))
    return Interval(reserved.low + low, reserved.expected + expected, reserved.high + high)
