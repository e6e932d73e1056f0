"""From intervals to a verdict, as the contract words it."""

from __future__ import annotations

from cfglint.estimate.result import Interval


def cache_verdict(cache: Interval, largest: Interval | None, wanted: int | None) -> str:
    """Verdict of a KV cache of so many bytes that holds one request of up to ``largest`` tokens."""
    if cache.high <= 0:
        return "oom"
    if cache.expected <= 0:
        return "likely-oom"
    if largest is None or wanted is None:
        return "tight" if cache.low <= 0 else "fits"
    if largest.high < wanted:
        return "kv-too-small"
    if largest.expected < wanted:
        return "likely-oom"
    return "tight" if largest.low < wanted or cache.low <= 0 else "fits"


VERDICTS = ("fits", "tight", "likely-oom", "kv-too-small", "oom")


def worst(*verdicts: str) -> str:
    return max(verdicts, key=VERDICTS.index)
