"""Cloud instance types: which accelerator, how many, how much host memory."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from cfglint.catalog import data
from cfglint.catalog.accelerators import Accelerator, find_accelerators


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance type."""

    name: str
    cloud: str
    """aws, gcp, azure, oci or lambda."""
    gpu: str
    """The accelerator's name, as ``find_accelerators`` takes it."""
    count: float
    """Accelerators in the instance; below one where it gets a share of one."""
    host_memory_gib: float | None
    vcpus: int | None
    sagemaker: str | None
    """Its name at SageMaker (``ml.p4d.24xlarge``)."""
    gpu_memory_mib: int | None
    """Memory of one accelerator (or of the share) as the cloud states it."""
    confidence: str
    source: str
    checked: str

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """What the accelerator can be; empty where the catalogue does not have it."""
        return find_accelerators(self.gpu)

    @property
    def fractional(self) -> bool:
        return self.count < 1


def find_instance(name: str) -> Instance | None:
    """The instance type of that name, whatever the case; SageMaker's ``ml.`` names too. None where it is not known."""
    row = _rows().get(name.strip().lower())
    return None if row is None else _made(row)


def instances() -> tuple[Instance, ...]:
    seen: dict[int, Instance] = {id(row): _made(row) for row in _rows().values()}
    return tuple(seen.values())


def similar_instances(name: str, n: int = 3) -> tuple[str, ...]:
    """The nearest known names, for "did you mean"."""
    import difflib  # only where something was not found

    return tuple(difflib.get_close_matches(name.strip().lower(), _rows(), n=n, cutoff=0.75))


@functools.lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for row in json.loads(data.read("instances.json")):
        table[row["name"].lower()] = row
        if row.get("sagemaker"):
            table[row["sagemaker"].lower()] = row
    return table


def _made(row: dict[str, Any]) -> Instance:
    return Instance(
        name=row["name"],
        cloud=row["cloud"],
        gpu=row["gpu"],
        count=row["count"],
        host_memory_gib=row.get("host_gib"),
        vcpus=row.get("vcpus"),
        sagemaker=row.get("sagemaker"),
        gpu_memory_mib=row.get("gpu_mib"),
        confidence=row.get("confidence", "high"),
        source=row["source"],
        checked=row["checked"],
    )
