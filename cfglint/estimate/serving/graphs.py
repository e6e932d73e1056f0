"""Memory of captured CUDA graphs: nodes of every layer for every size captured, and the decode kernel's workspace."""

from __future__ import annotations

from cfglint.catalog.architecture import Architecture
from cfglint.formulas import GIB

MEASURED_SIZES = 102
"""Captures in the runs the constants were fitted on: 51 sizes, piecewise and full."""
MEASURED_LARGEST = 512
"""The largest batch captured in those runs."""
HEAD_DIM = 128
LOW, HIGH = 0.5, 1.8
"""What measured captures spread around the fit, kernels of mixtures of experts included (0.19 logs)."""
ESTIMATE_LOW, ESTIMATE_HIGH = 0.4, 2.3
"""What the engine's own estimate, extrapolated from two captures, spreads around the fit of 0.19: 0.8 to 2.9 times what was captured."""


def capture_sizes(largest: int, coarse_from: int | None) -> int:
    """Batch sizes captured up to ``largest``: 1, 2, 4, every 8, and from ``coarse_from`` on every 16."""
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    if coarse_from is None or largest < coarse_from:
        return small + largest // 8
    return small + (coarse_from - 1) // 8 + (largest - coarse_from) // 16 + 1


def graph_bytes(
    arch: Architecture, layers: int, tp: int, per_layer: float, per_head: float, captures: int, largest: int
) -> float:
    """Bytes of graphs over ``layers`` layers of one rank, ``captures`` in all, the largest for a batch of ``largest``.

    ``per_layer`` and ``per_head`` are GiB of the measured captures; the part that goes with a rank's heads is the
    decode kernel's split workspace for the largest batch.
    """
    heads = arch.num_attention_heads / tp * arch.head_dim / HEAD_DIM
    workspace = per_head * heads * largest / MEASURED_LARGEST
    return (per_layer * layers * captures / MEASURED_SIZES + workspace) * GIB
