"""Devices whose memory the host shares: what is free at start is not known from the device alone."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator

UNIFIED = ("JETSON", "GB10", "RYZEN", "APPLE")


def shares_host_memory(gpu: Accelerator) -> bool:
    """Jetson, DGX Spark, Ryzen AI and Apple devices have one memory for host and GPU."""
    return gpu.id.upper().startswith(UNIFIED)
