"""Host memory a server takes on one node: processes, offloaded weights, swap space, pages of the checkpoint."""

from __future__ import annotations

from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Interval
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.weights import RankWeights
from cfglint.formulas import GIB

PROCESS_BYTES = 2.5 * GIB
"""Resident memory of one worker with torch and CUDA loaded, before any weights (assumption, not fitted)."""
SHARD_BYTES = 5 * GIB
"""A Hub checkpoint's shard, of which a loader holds one at a time (5 GB by save_pretrained's default)."""


def host_memory(
    settings: SettingsInForce, arch: Architecture, weights: RankWeights, ranks: int, *, swap_gib: float | None = None
) -> Interval:
    """Host bytes: each rank is a process; mapped checkpoint pages may stay (high) or be dropped (low).

    ``swap_gib``: pinned for each rank where the engine's release decides it; else what ``swap_space`` states.
    """
    swap = swap_gib if swap_gib is not None else settings.number("swap_space") or 0.0
    pinned = (swap + (settings.number("cpu_offload_gb") or 0.0)) * GIB * ranks
    processes = PROCESS_BYTES * (ranks + 1)
    checkpoint = weights.bytes * ranks
    return Interval(
        pinned + processes, pinned + processes + min(SHARD_BYTES, checkpoint), pinned + 2 * processes + checkpoint
    )
