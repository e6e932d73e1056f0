"""Memory of captured CUDA graphs: nodes of every layer for every size captured, and the decode kernel's workspace."""

from __future__ import annotations

from typing import Any

from cfglint.catalog.architecture import Architecture

GIB = 2**30
MEASURED_SIZES = 102
"""Captures in the runs the constants were fitted on: 51 sizes, piecewise and full."""
HEAD_DIM = 128
LOW, HIGH = 0.5, 1.8
"""What measured captures spread around the fit, kernels of mixtures of experts included (0.19 logs)."""


def graph_bytes(arch: Architecture, layers: int, tp: int, constants: dict[str, Any], sizes: int) -> float:
    """Bytes of graphs over ``layers`` layers of one rank, captured ``sizes`` times in all."""
    per_layer = constants["per_layer"] + (constants["per_layer_experts"] if arch.moe else 0.0)
    heads = arch.num_attention_heads / tp * arch.head_dim / HEAD_DIM
    return (float(per_layer) * layers * sizes / MEASURED_SIZES + float(constants["per_head"]) * heads) * GIB
