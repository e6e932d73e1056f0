"""GRPO's batch by TRL release and launcher."""

from __future__ import annotations

import pytest

from cfglint.testing import lint_files

GRPO = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
dataset_name: trl-lib/DeepMath-103K
learning_rate: 1.0e-6
"""


def codes(settings: str, trl: str = "", **files: str) -> list[tuple[str, str]]:
    more = {name.replace("__", "."): text for name, text in files.items()}
    requirements = {"requirements.txt": f"trl{trl}\n"} if trl else {}
    result = lint_files(
        {"grpo.yaml": GRPO + settings, **more, **requirements},
        gpu="H100",
        gpus=1,
        select=("RLH001", "RLH002", "RLH003"),
    )
    assert not result.faults
    return [(f.code, f.severity) for f in result.findings if f.code.startswith("RLH")]


@pytest.mark.parametrize(
    ("trl", "micro", "accumulation", "generations", "faulty"),
    [
        ("==0.14.0", 1, 1, 8, False),
        ("==0.15.2", 8, 1, 8, False),
        ("==0.16.1", 1, 8, 8, True),
        ("==0.17.0", 1, 8, 8, False),
        ("==0.19.1", 2, 3, 4, True),
        ("==1.16.0", 2, 4, 4, False),
        ("", 8, 8, 8, False),
        ("", 1, 4, 8, True),
        (">=0.15", 3, 4, 8, True),
    ],
)
def test_the_batch_by_release(trl: str, micro: int, accumulation: int, generations: int, faulty: bool) -> None:
    settings = (
        f"per_device_train_batch_size: {micro}\ngradient_accumulation_steps: {accumulation}\n"
        f"num_generations: {generations}\n"
    )
    assert codes(settings, trl) == ([("RLH001", "error")] if faulty else [])


def test_what_only_older_releases_refuse_is_information() -> None:
    settings = "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nnum_generations: 8\n"
    assert codes(settings) == [("RLH001", "info")]
    assert codes(settings, ">=0.17") == []


def test_steps_per_generation_take_the_place_of_accumulation() -> None:
    settings = "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\nnum_generations: 8\n"
    assert codes(settings) == [("RLH001", "error")]
    assert codes(settings + "steps_per_generation: 8\n") == []


def test_the_launcher_counts_before_the_hardware() -> None:
    launcher = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 7\n"
    found = codes("per_device_train_batch_size: 1\nnum_generations: 7\nuse_vllm: true\n", accelerate__yaml=launcher)
    assert found == []


def test_unknown_numbers_say_nothing() -> None:
    assert codes("per_device_train_batch_size: ${BATCH}\nnum_generations: 7\n") == []
    assert codes("per_device_train_batch_size: 1\nnum_generations: ${GROUP}\n") == []
    assert codes("per_device_train_batch_size: 1\nnum_generations: [8]\n") == []
