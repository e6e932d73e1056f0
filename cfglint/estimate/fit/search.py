"""The largest whole number whose need stays within a capacity."""

from __future__ import annotations

from collections.abc import Callable

SECANTS = 3
"""Guesses along a straight line before the interval is halved once: memory is nearly straight in batch and length."""


def largest(need: Callable[[int], float], capacity: float, start: int, most: int) -> int:
    """The largest ``n`` from 1 to ``most`` with ``need(n) <= capacity``, 0 where there is none.

    ``need`` must not fall as ``n`` grows. ``start`` is where the search begins: a size known to be near.
    """
    low, high = 0, most + 1
    probe = min(max(start, 1), most)
    tried: list[tuple[int, float]] = []
    step = 0
    while high - low > 1:
        needed = need(probe)
        tried.append((probe, needed))
        if needed <= capacity:
            low = probe
        else:
            high = probe
        step += 1
        probe = (low + high) // 2 if step % (SECANTS + 1) == 0 else _guess(tried, capacity, low, high)
        probe = min(max(probe, low + 1), max(high - 1, low + 1))
    return low


def _guess(tried: list[tuple[int, float]], capacity: float, low: int, high: int) -> int:
    """Where the line through the last two tries meets the capacity."""
    if len(tried) < 2:
        return max(2 * low, low + 1) if low else high // 2
    (a, need_a), (b, need_b) = tried[-2:]
    if a == b or need_a == need_b or need_a == float("inf") or need_b == float("inf"):
        return (low + high) // 2
    return int(b + (capacity - need_b) * (b - a) / (need_b - need_a))
