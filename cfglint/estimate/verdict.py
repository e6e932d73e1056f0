"""The verdict: the interval of used memory against what the driver reports as usable (see the contract)."""

from __future__ import annotations

from collections.abc import Sequence

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import Interval


def verdict_for(used: Interval, capacity: float) -> str:
    """``oom`` when even ``low`` exceeds capacity, ``likely-oom`` when ``expected`` does, ``tight`` when ``high`` does."""
    if used.low > capacity:
        return "oom"
    if used.expected > capacity:
        return "likely-oom"
    return "tight" if used.high > capacity else "fits"


def decide(used: Interval | None, candidates: Sequence[Accelerator], missing: Sequence[str]) -> tuple[str, int | None]:
    """Verdict and capacity in bytes (None where candidates differ or none is known).

    Several candidates give a verdict only where they agree. A missing fact makes the verdict unknown, unless what is
    known already exceeds every candidate.
    """
    if not candidates or used is None:
        return "unknown", candidates[0].usable_bytes if len(candidates) == 1 else None
    capacities = {candidate.usable_bytes for candidate in candidates}
    capacity = capacities.pop() if len(capacities) == 1 else None
    verdicts = {verdict_for(used, candidate.usable_bytes) for candidate in candidates}
    if missing:
        return ("oom" if verdicts == {"oom"} else "unknown"), capacity
    return (verdicts.pop() if len(verdicts) == 1 else "unknown"), capacity
