"""Memory of captured CUDA graphs: nodes of every layer for every size captured, and the decode kernel's workspace."""

from __future__ import annotations

from typing import Any

from cfglint.catalog.architecture import Architecture
from cfglint.formulas import GIB

MEASURED_SIZES = 102
"""Captures in the runs the constants were fitted on: 51 sizes, piecewise and full."""
MEASURED_LARGEST = 512
"""The largest batch captured in those runs."""
HEAD_DIM = 128
LOW, HIGH = 0.5, 1.8
"""What measured captures spread around the fit, kernels of mixtures of experts included (0.19 logs)."""


def capture_sizes(largest: int, coarse_from: int | None) -> int:
    """Batch sizes captured up to ``largest``: 1, 2, 4, every 8, and from ``coarse_from`` on every 16."""
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    if coarse_from is None or largest < coarse_from:
        return small + largest // 8
    return small + (coarse_from - 1) // 8 + (largest - coarse_from) // 16 + 1


def graph_bytes(
    arch: Architecture, layers: int, tp: int, constants: dict[str, Any], captures: int, largest: int, mxfp4: bool
) -> float:
    """Bytes of graphs over ``layers`` layers of one rank, ``captures`` in all, the largest for a batch of ``largest``.

    The part that goes with a rank's heads is the decode kernel's split workspace for the largest batch.
    """
    per_layer = float(constants["per_layer"])
    if arch.moe:
        per_layer += float(constants["per_layer_mxfp4_experts" if mxfp4 else "per_layer_experts"])
    heads = arch.num_attention_heads / tp * arch.head_dim / HEAD_DIM
    workspace = float(constants["per_head"]) * heads * largest / MEASURED_LARGEST
    return (per_layer * layers * captures / MEASURED_SIZES + workspace) * GIB
