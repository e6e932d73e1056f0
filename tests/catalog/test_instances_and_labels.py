"""Cloud instance types and node labels."""

from __future__ import annotations

import pytest

from cfglint.catalog.instances import find_instance, instances, similar_instances
from cfglint.catalog.labels import known_keys, read_label

NO_ROW = {"RadeonProV520", "T4G"}
"""Accelerators of instances that the catalogue of accelerators does not have."""


def test_instances() -> None:
    assert len(instances()) == 163
    p4d = find_instance("p4d.24xlarge")
    assert p4d is not None
    assert (p4d.cloud, p4d.count, p4d.host_memory_gib, p4d.vcpus) == ("aws", 8, 1152, 96)
    assert {row.memory_gb for row in p4d.accelerators} == {40}
    assert find_instance("ml.P4D.24xlarge") == p4d
    assert find_instance("p4d.25xlarge") is None
    assert similar_instances("p4d.25xlarge")[0] == "p4d.24xlarge"


def test_every_instance_names_an_accelerator() -> None:
    for instance in instances():
        assert instance.accelerators or instance.gpu in NO_ROW, instance.name
        assert instance.source and instance.checked
        assert instance.count > 0
        assert instance.fractional == (instance.count < 1)


@pytest.mark.parametrize(
    ("key", "value", "accelerators", "count", "share"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", ["A100-SXM4-80GB"], None, ""),
        ("nvidia.com/gpu.product", "Tesla-T4-SHARED", ["T4"], None, "time-slicing"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", ["H100-SXM"], None, "mig"),
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-5090", ["RTX-5090"], None, ""),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", ["L4"], None, ""),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", ["A100-SXM4-40GB", "A100-PCIe-40GB"], None, ""),
        ("slurm.gres", "gpu:h200:8", ["H200-SXM", "H200-NVL"], 8, ""),
        ("slurm.gres", "gpu:4", [], 4, ""),
        ("skypilot.accelerators", "A100:8", ["A100-SXM4-40GB", "A100-PCIe-40GB"], 8, ""),
        ("node.kubernetes.io/instance-type", "g6.xlarge", ["L4"], 1, ""),
    ],
)
def test_labels(key: str, value: str, accelerators: list[str], count: float | None, share: str) -> None:
    match = read_label(key, value)
    assert match is not None
    assert ([row.id for row in match.accelerators], match.count, match.share) == (accelerators, count, share)
    assert match.source


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("app", "A100"),
        ("cloud.google.com/gke-accelerator", "A100"),
        ("node.kubernetes.io/instance-type", "p99.metal"),
        ("nvidia.com/gpu.product", "Fancy-Card"),
        ("slurm.gres", "nic:2"),
    ],
)
def test_other_labels_say_nothing(key: str, value: str) -> None:
    assert read_label(key, value) is None


def test_known_keys() -> None:
    assert {"nvidia.com/gpu.product", "slurm.gres", "node.kubernetes.io/instance-type"} <= known_keys()
    assert "app" not in known_keys()
