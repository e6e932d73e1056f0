"""Steps that ``benchmarks/fresh_oracle.py`` drew and the oracle measured: one for each kind of fault that they showed.

``training_steps.json`` beside this file: jobs of transformers 5.24, models cut to four layers, with the measured peak of live
tensors. Whoever mends another kind adds its step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.estimate.result import GIB
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from tests.estimate.measured_steps import training_job

STEPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("training_steps.json").read_text("utf-8"))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["job"]["name"])
def test_a_measured_step(step: dict[str, Any]) -> None:
    job = training_job(step["job"])
    stage = fullest_stage(resolve(job))  # with the CPU's kernels, which the oracle runs
    assert stage is not None
    assert stage.peak.total / GIB == pytest.approx(step["allocated_gib"], rel=0.01)
    found = estimate_training(job).memory.allocated
    assert found is not None
    assert step["allocated_gib"] * GIB < found.high
    if "fp16" not in step["job"].values():  # whose estimate is that of CUDA's kernels, which hold more
        assert found.low < step["allocated_gib"] * GIB
