"""Accelerators by the names people and drivers write."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import (
    BadAccelerator,
    accelerator_from_mapping,
    accelerators,
    find_accelerators,
    parse_gpu,
    similar_accelerators,
)


def ids(name: str) -> list[str]:
    return [accelerator.id for accelerator in find_accelerators(name)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", ["A100-SXM4-80GB"]),
        ("NVIDIA A100 80GB PCIe", ["A100-PCIe-80GB"]),
        ("DGX Spark GB10 128GB unified", ["GB10"]),
        ("A10G 24GB (g5.48xlarge)", ["A10G"]),
        ("H200 (limited to 80 GB)", []),
        ("A100-80GB", ["A100-SXM4-80GB", "A100-PCIe-80GB"]),
        ("a100 80g", ["A100-SXM4-80GB", "A100-PCIe-80GB"]),
        ("a100-80", ["A100-SXM4-80GB", "A100-PCIe-80GB"]),
        ("A100_80GB", ["A100-SXM4-80GB", "A100-PCIe-80GB"]),
        ("A100 SXM 80 GB", ["A100-SXM4-80GB"]),
        ("A100", ["A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-40GB", "A100-PCIe-80GB"]),
        ("V100", ["V100-SXM2-16GB", "V100-SXM2-32GB", "V100-PCIe-16GB", "V100-PCIe-32GB"]),
        ("Tesla V100-PCIE-32GB", ["V100-PCIe-32GB"]),
        ("H100", ["H100-PCIe", "H100-SXM", "H100-NVL", "H100-96GB"]),
        ("H100-96GB", ["H100-96GB"]),
        ("NVIDIA H100 80GB HBM3", ["H100-SXM"]),
        ("H100 80GB HBM3", ["H100-SXM"]),
        ("h100-80gb", ["H100-PCIe", "H100-SXM"]),
        ("H100NVL-94GB", ["H100-NVL"]),
        ("H20-96GB", ["H20"]),
        ("H200", ["H200-SXM", "H200-NVL"]),
        ("NVIDIA H200", ["H200-SXM"]),
        ("B200 192GB", ["B200-SXM"]),
        ("rtx4090", ["RTX-4090"]),
        ("RTX 4090", ["RTX-4090"]),
        ("GeForce RTX 4090", ["RTX-4090"]),
        ("NVIDIA GeForce RTX 4090", ["RTX-4090"]),
        ("RTX4090-24GB", ["RTX-4090"]),
        ("4090", ["RTX-4090"]),
        ("RTX 4090 D", ["RTX-4090-D"]),
        ("RTX3080Ti", ["RTX-3080-Ti"]),
        ("RTX 3080", ["RTX-3080-10GB", "RTX-3080-12GB"]),
        ("RTX 4070 Ti SUPER", ["RTX-4070-Ti-SUPER"]),
        ("Tesla T4", ["T4"]),
        ("t4", ["T4"]),
        ("L40", ["L40"]),
        ("L40S", ["L40S"]),
        ("A10", ["A10"]),
        ("NVIDIA A10G", ["A10G"]),
        ("A6000", ["RTX-A6000"]),
        ("RTX6000Ada", ["RTX-6000-Ada"]),
        ("RTX 6000", ["Quadro-RTX-6000", "RTX-6000-Ada"]),
        ("QuadroRTX6000", ["Quadro-RTX-6000"]),
        ("AMD Instinct MI300X OAM", ["MI300X"]),
        ("gfx942", ["MI300A", "MI300X", "MI325X"]),
        ("v5e", ["TPU-v5e"]),
        ("trn1", ["Trainium1"]),
        ("DGX Spark", ["GB10"]),
    ],
)
def test_names(name: str, expected: list[str]) -> None:
    assert ids(name) == expected


@pytest.mark.parametrize(
    "name", ["A100-64GB", "H20-141GB", "RTX 4090 Laptop GPU", "T4G", "80GB", "GPU", "", "nvidia", "RTX", "7", "é"]
)
def test_what_is_not_known_is_not_guessed(name: str) -> None:
    assert find_accelerators(name) == ()


def test_every_id_and_alias_means_its_own_row() -> None:
    rows = accelerators()
    assert len(rows) == 160
    for row in rows:
        assert find_accelerators(row.id) == (row,)
        for alias in row.aliases:
            assert row in find_accelerators(alias), alias


def test_did_you_mean() -> None:
    assert set(similar_accelerators("A100-64GB")) <= {row.id for row in find_accelerators("A100")}
    assert similar_accelerators("RTX-4090 Laptop GPU") == ("RTX-4090",)
    assert similar_accelerators("") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8xH100", ("H100", 8)),
        ("8 x A100-80GB", ("A100-80GB", 8)),
        ("4×L40S", ("L40S", 4)),
        ("2*T4", ("T4", 2)),
        ("H100:8", ("H100", 8)),
        ("A100 x4", ("A100", 4)),
        ("a100x4", ("a100", 4)),
        ("RTX 4090", ("RTX 4090", None)),
        ("MI250X", ("MI250X", None)),
        ("v2-8", ("v2-8", None)),
        ("tpu7x", ("tpu7x", None)),
        ("x8", ("x8", None)),
        ("T4:0", ("T4:0", None)),
    ],
)
def test_counts(text: str, expected: tuple[str, int | None]) -> None:
    assert parse_gpu(text) == expected


def test_measured_memory_is_the_measurement() -> None:
    (row,) = find_accelerators("NVIDIA A100-SXM4-80GB")
    assert row.usable_measured and row.usable_gib == 79.151
    assert row.usable_bytes == int(79.151 * 2**30)
    assert row.compute_capability == (8, 0)
    assert row.supports["bf16"] and not row.supports["fp8"]
    assert row.tflops_dense["bf16"] == 312
    assert row.sources and row.checked


def test_estimated_memory_lies_below_the_label_and_near_what_its_class_shows() -> None:
    for row in accelerators():
        per_device = row.memory_gb / row.devices
        assert 0.7 * per_device <= row.usable_gib <= per_device + 0.01, row.id
    by_id = {row.id: row for row in accelerators()}
    assert by_id["A100-PCIe-80GB"].usable_gib == pytest.approx(79.15, abs=0.1)
    assert by_id["L40"].usable_gib == pytest.approx(44.4, abs=0.4)
    assert by_id["GB300"].usable_gib == pytest.approx(267.69, abs=0.3)
    assert by_id["RTX-3090-Ti"].usable_gib == pytest.approx(23.6, abs=0.2)
    assert (by_id["MI250X"].devices, by_id["MI250X"].usable_gib) == (2, pytest.approx(63.98, abs=0.2))


def test_a_users_own_row() -> None:
    row = accelerator_from_mapping(
        {"name": "Z9", "memory_gib": 95.5, "compute_capability": "9.0", "supports": {"bf16": True}}
    )
    assert (row.id, row.usable_gib, row.usable_measured, row.compute_capability) == ("Z9", 95.5, True, (9, 0))
    sold = accelerator_from_mapping({"name": "Z9", "memory_gb": 100, "tflops_dense": {"bf16": 500}})
    assert sold.usable_gib < 100 and not sold.usable_measured and sold.tflops_dense == {"bf16": 500.0}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"memory_gb": 80}, "needs a name"),
        ({"name": "Z9"}, "state memory_gib"),
        ({"name": "Z9", "memory_gb": "80"}, "memory_gb is '80'"),
        ({"name": "Z9", "memory_gb": -1}, "memory_gb is -1"),
        ({"name": "Z9", "memory_gb": True}, "memory_gb is True"),
        ({"name": "Z9", "memory_gb": 80, "compute_capability": "new"}, "compute_capability"),
        ({"name": "Z9", "memory_gb": 80, "memory": 80}, "unknown key 'memory'"),
        ({"name": "Z9", "memory_gb": 80, "supports": ["bf16"]}, "mappings"),
    ],
)
def test_a_users_bad_row_is_named(row: dict[str, Any], message: str) -> None:
    with pytest.raises(BadAccelerator, match=message):
        accelerator_from_mapping(row)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA B200 192GB (180 GB usable)", "B200-SXM"),
        ("NVIDIA T4 16GB (14.75 GiB)", "T4"),
        ("V100 (32 GB)", "V100-SXM2-32GB"),
    ],
)
def test_a_remark_on_memory_counts_only_where_the_name_states_none(name: str, found: str) -> None:
    assert found in [accelerator.id for accelerator in find_accelerators(name)]
    assert {round(a.memory_gb) for a in find_accelerators(name)} <= {16, 32, 180, 192}
