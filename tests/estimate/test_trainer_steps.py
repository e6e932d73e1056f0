"""Steps of the real ``Trainer`` and ``SFTTrainer``, as ``benchmarks/trainer_oracle.py`` measured them without a GPU.

``trainer_steps.json`` beside this file: models cut to a few layers, under several releases of transformers and TRL, with the
measured peak of live tensors and the releases that ran.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import GIB, Interval
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from cfglint.jobs.facts import DefaultOrigin, SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob

STEPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("trainer_steps.json").read_text("utf-8"))


def job_of(mapping: dict[str, Any]) -> TrainingJob:
    job = TrainingJob(mapping["name"])
    for key, value in mapping.items():
        if key != "name":
            state(job, key, value, SettingOrigin("steps", key))
    job.hardware = resolve_hardware(job)
    origin = SettingOrigin("steps", "model")
    job.model = ModelFacts("inline", architecture_from_config(mapping["model"]), "the job file", origin)
    return job


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["job"]["name"])
def test_a_step_of_the_trainer_itself(step: dict[str, Any]) -> None:
    job = job_of(step["job"])
    stage = fullest_stage(resolve(job))  # with the CPU's kernels, which the oracle runs
    assert stage is not None
    assert stage.peak.total / GIB == pytest.approx(step["allocated_gib"], rel=0.01)
    found = estimate_training(job).memory.allocated
    assert found is not None
    assert found.low < step["allocated_gib"] * GIB < found.high


def supervised(release: str | None, kernel: str | None = None, **facts: Any) -> tuple[Interval, str]:
    """Llama-3.2-1B cut to three layers, 4 × 2048 tokens under autocast, and the loss that was taken."""
    model = next(step["job"]["model"] for step in STEPS if step["job"]["model"]["vocab_size"] == 128256)
    mapping = {"name": "job", "framework": "trl", "method": "full", "weight_dtype": "fp32", "compute_dtype": "bf16"}
    sizes = {"micro_batch_size": 4, "sequence_length": 2048, "gradient_checkpointing": "full", "model": model}
    if release is not None:
        mapping["framework_version"] = release
    job = job_of({**mapping, **sizes, **facts})
    if kernel is not None:
        job.state("loss_kernel", kernel, DefaultOrigin("trl", ">=1.15"))
    found = estimate_training(job).memory.allocated
    assert found is not None
    return found, resolve(job).loss_kernel


@pytest.mark.parametrize(
    ("release", "kernel"),
    [
        ("0.12.2", "torch"),
        ("0.24.0", "torch"),
        ("1.6.0", "torch"),
        ("1.7.0", "checkpointed"),
        ("1.14.2", "checkpointed"),
        ("1.15.0", "fused_linear"),
        (None, "torch"),
    ],
)
def test_the_loss_of_a_release(release: str | None, kernel: str) -> None:
    assert supervised(release)[1] == kernel


def test_the_fused_head_makes_no_logits() -> None:
    """4 × 2048 × 128,256 logits in fp32 are 3.9 GiB; the stock loss holds two and a half times that, with metrics three."""
    logits = 4 * 2048 * 128256 * 4
    stock, fused = supervised("0.24.0")[0], supervised("1.16.0")[0]
    assert stock.expected - fused.expected > 2 * logits
    assert (
        supervised("1.5.0")[0].expected > supervised("1.2.0")[0].expected + 0.9 * logits
    )  # two copies for its metrics


def test_where_no_file_names_the_release_the_interval_reaches_to_the_stock_loss() -> None:
    newest, kernel = supervised(None, "fused_linear")
    assert kernel == "fused_linear"
    assert newest.expected == pytest.approx(supervised("1.16.0")[0].expected)
    assert newest.high > supervised("1.5.0")[0].expected
    assert supervised("1.16.0")[0].high < supervised("1.5.0")[0].expected


def test_packing_without_padding_is_one_row() -> None:
    """Under sdpa its mask is of all tokens: each of three blocks keeps one of 8192² in bf16, where four of 2048² were."""
    facts: dict[str, Any] = {"packing": True, "attention": "sdpa", "gradient_checkpointing": "none"}
    one = supervised("0.24.0", padding_free=True, **facts)[0].expected
    apart = supervised("0.24.0", padding_free=False, **facts)[0].expected
    assert supervised("0.24.0", **facts)[0].expected == one
    # and the one that all blocks share, in bytes
    masks = (3 * 2 + 1) * (8192**2 - 4 * 2048**2)
    assert one - apart == pytest.approx(masks, rel=0.01)


def test_label_smoothing_takes_all_logits_whatever_the_release() -> None:
    smoothed = supervised("1.16.0", loss_kernel="smoothed")[0].expected
    assert smoothed > supervised("1.16.0")[0].expected + 3 * 4 * 2048 * 128256 * 4
