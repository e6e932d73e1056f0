"""Memory of captured CUDA graphs, from the layers they hold and the sizes they are captured for."""

from __future__ import annotations

from typing import Any

GIB = 2**30
MEASURED_SIZES = 102
"""Captures in the runs the constants were fitted on: 51 sizes, piecewise and full."""
LOW, HIGH = 0.5, 1.8
"""What measured captures spread around the fit, kernels of mixtures of experts included (0.19 logs)."""


def graph_bytes(layers: int, constants: dict[str, Any], sizes: int = MEASURED_SIZES) -> float:
    """Bytes of graphs over ``layers`` layers captured ``sizes`` times."""
    per_layer: float = constants["per_layer"] * sizes / MEASURED_SIZES
    return (float(constants["fixed"]) + per_layer * layers) * GIB
