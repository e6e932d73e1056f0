"""Node labels and scheduler values that name an accelerator: Kubernetes, GKE, Karpenter, Vertex, Ray, SkyPilot, SLURM."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import Any

from cfglint.catalog import data
from cfglint.catalog.accelerators import Accelerator, find_accelerators, parse_gpu
from cfglint.catalog.instances import find_instance, instances

INSTANCE_TYPE_KEYS = frozenset(
    {
        "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "cloud.google.com/machine-family-type",
        "karpenter.azure.com/sku-name", "node.kubernetes.io/instance_type", "alpha.eksctl.io/instance-type",
    }
)  # fmt: skip
"""Labels whose value is a cloud instance type."""

INSTANCE_FAMILY_KEY = "karpenter.k8s.aws/instance-family"

PRODUCT_KEYS = frozenset(
    {"nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.nvidia.com/class", "gpu.nvidia.com/model"}
)
"""Labels whose value is the driver's product name with dashes: read as any accelerator name where not listed."""

SKYPILOT = "skypilot.accelerators"
RAY = "ray.accelerator_type"


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """What a label says."""

    accelerators: tuple[Accelerator, ...]
    """What the accelerator can be; empty where its name is known to us only as a name, or not at all."""
    gpu: str
    """The accelerator's name."""
    count: float | None
    """Accelerators per node, where the value says so (instance types, ``A100:8``)."""
    share: str
    """``time-slicing`` or ``mig`` where a device is a part of an accelerator, whose memory it does not have; else empty."""
    note: str
    source: str


def read_label(key: str, value: str) -> LabelMatch | None:
    """What a node label, or a scheduler's accelerator value, says. None where the key or the value is not known.

    Keys of schedulers that have none are ``skypilot.accelerators``, ``ray.accelerator_type`` and ``slurm.gres``.
    """
    value = value.strip()
    if key in INSTANCE_TYPE_KEYS:
        return _from_instance(value)
    if key == INSTANCE_FAMILY_KEY:
        return _from_family(value)
    if key == "slurm.gres":
        return _from_gres(value)
    share = ""
    if key == "nvidia.com/gpu.product":
        sliced = re.fullmatch(r"(.+?)-SHARED", value, re.IGNORECASE)
        parted = re.fullmatch(r"(.+?)-MIG-\d+g\.\d+gb(?:-SHARED)?", value, re.IGNORECASE)
        if parted:
            value, share = parted[1], "mig"
        elif sliced:
            value, share = sliced[1], "time-slicing"
    count: int | None = None
    if key == SKYPILOT:
        value, count = parse_gpu(value)
    row = _rows().get((key, value.lower()))
    if row is not None:
        found = tuple(accelerator for name in row["gpu"] for accelerator in find_accelerators(name))
        exact = find_accelerators(value) if key in PRODUCT_KEYS else ()
        if exact and set(ids(exact)) <= set(ids(found)):
            found = exact  # a driver's full name says more than the row
        return LabelMatch(found, " or ".join(row["gpu"]), count, share, row.get("note", ""), row["source"])
    if key in PRODUCT_KEYS or key in (SKYPILOT, RAY):
        found = find_accelerators(value)
        if found:
            return LabelMatch(found, value, count, share, "", "read as an accelerator's name")
    return None


def ids(accelerators: tuple[Accelerator, ...]) -> list[str]:
    return [accelerator.id for accelerator in accelerators]


def known_keys() -> frozenset[str]:
    """Every key that ``read_label`` understands."""
    return (
        frozenset(key for key, _ in _rows()) | INSTANCE_TYPE_KEYS | PRODUCT_KEYS | {"slurm.gres", INSTANCE_FAMILY_KEY}
    )


def _from_instance(value: str) -> LabelMatch | None:
    instance = find_instance(value)
    if instance is None:
        return None
    return LabelMatch(instance.accelerators, instance.gpu, instance.count, "", "", instance.source)


def _from_family(value: str) -> LabelMatch | None:
    """The accelerator that all instance types of a family have (``g6e``); how many differs with the size."""
    rows = [row for row in instances() if row.name.startswith(f"{value}.") and not row.fractional]
    if not rows or len({row.gpu for row in rows}) != 1:
        return None
    return LabelMatch(rows[0].accelerators, rows[0].gpu, None, "", "", rows[0].source)


def _from_gres(value: str) -> LabelMatch | None:
    """``gpu:a100:8`` or ``gpu:8``; the type is the site's own name and read as an accelerator's."""
    match = re.fullmatch(r"gpu(?::(?P<type>[A-Za-z][\w.-]*))?(?::(?P<count>\d+))?(?:\(.*\))?", value)
    if match is None:
        return None
    name = match["type"] or ""
    count = int(match["count"]) if match["count"] else 1
    return LabelMatch(find_accelerators(name), name, count, "", "the type is the site's own name", "Slurm gres syntax")


@functools.lru_cache(maxsize=1)
def _rows() -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["key"], row["value"].lower()): row for row in json.loads(data.read("gpu_labels.json"))}
