"""The job with other facts or other hardware, estimated again and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate import estimate
from cfglint.estimate.result import Estimate, MemoryEstimate
from cfglint.jobs.job import Hardware, Job, TrainingJob, with_facts


def on_hardware(
    job: Job, accelerator: Accelerator | None = None, gpus_per_node: int | None = None, nodes: int | None = None
) -> Hardware:
    """The job's hardware with another accelerator or number of them."""
    hardware = job.hardware
    if accelerator is not None:
        hardware = replace(hardware, candidates=(accelerator,), name=accelerator.id)
    if gpus_per_node is not None:
        hardware = replace(hardware, gpus_per_node=gpus_per_node, nodes=nodes or 1)
    return hardware


class WhatIf:
    """Estimates of variants of one job, each made once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.made: dict[object, Estimate] = {}

    def estimate(self, facts: Mapping[str, Any] | None = None, hardware: Hardware | None = None) -> Estimate:
        """The job with ``facts`` over its own, on ``hardware`` instead of its own."""
        hardware = hardware or self.job.hardware
        devices = tuple(a.id for a in hardware.candidates)
        key = (repr(sorted((facts or {}).items())), devices, hardware.gpus_per_node, hardware.nodes)
        found = self.made.get(key)
        if found is None:
            other = with_facts(self.job, **(facts or {}))
            other.hardware = hardware
            if isinstance(other, TrainingJob):
                # what would fit is asked of the job as its files have it: replicated, where none says otherwise
                other.sharding_open = False
            found = self.made[key] = estimate(other)
        return found


def capacity_of(hardware: Hardware) -> int | None:
    """Usable bytes of the accelerator; of the smallest where the name can mean several."""
    return min((a.usable_bytes for a in hardware.candidates), default=None)


def need(memory: MemoryEstimate) -> tuple[float, float]:
    """Bytes of a device used with the high end, and as expected; infinite where something is missing."""
    if memory.used is None or memory.missing:
        return float("inf"), float("inf")
    return memory.used.high, memory.used.expected
