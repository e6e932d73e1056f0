"""Launcher arguments of trainers' own commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source import parse_text

SFT = "--model_name_or_path org/m --dataset_name a/b --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir o\n"
AXOLOTL = (
    "base_model: org/m\ndatasets: [{path: a/b, type: alpaca}]\nsequence_len: 512\nmicro_batch_size: 1\nnum_epochs: 1\n"
)


def job_of(command: str, **files: str) -> TrainingJob:
    named = {"run.sh": command, **{name.replace("__", "."): text for name, text in files.items()}}
    readings, _ = recognise_files([parse_text(path, text) for path, text in named.items()])
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    return job


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            "--accelerate_config zero3 --num_processes 4",
            {"zero_stage": 3, "offload_optimizer": "none", "gpus_per_node": 4},
        ),
        ("--accelerate_config fsdp2", {"fsdp": "full_shard", "fsdp_version": 2, "gpus_per_node": 8}),
        ("--accelerate_config single_gpu", {"gpus_per_node": 1}),
        ("--num_processes 16 --num_machines 2", {"gpus_per_node": 8, "nodes": 2}),
    ],
)
def test_trl_s_presets_and_counts(flags: str, expected: dict[str, object]) -> None:
    job = job_of(f"trl sft {flags} {SFT}")
    assert {name: job.value(name) for name in expected} == expected


def test_a_preset_s_processes_are_a_default() -> None:
    fact = job_of(f"trl sft --accelerate_config zero2 {SFT}").fact("gpus_per_node")
    assert fact is not None
    assert isinstance(fact.origin, DefaultOrigin)


def test_a_file_of_one_s_own_is_followed() -> None:
    accelerate = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_machines: 1\nnum_processes: 2\n"
    job = job_of(f"trl sft --accelerate_config a.yaml {SFT}", a__yaml=accelerate)
    assert job.dialects == ["trl", "launch", "accelerate"]
    assert job.value("gpus_per_node") == 2


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ("--num-processes 4", 4),
        ("--launcher torchrun -- --nproc_per_node=8 --nnodes=2", 8),
        ("--num-processes $N", UNKNOWN),
    ],
)
def test_axolotl_s_processes(flags: str, count: object) -> None:
    job = job_of(f"axolotl train c.yaml {flags}\n", c__yaml=AXOLOTL)
    assert [fact.value for fact in job.statements("gpus_per_node")] == [count]
    assert job.value("nodes") == (2 if "nnodes" in flags else None)
    assert job.value("model_id") == "org/m"
