"""Steps of frameworks' own code that ``benchmarks/framework_oracle.py`` measured without a GPU.

``framework_steps.json`` beside this file: jobs of models cut to few layers, with the measured peak of live tensors. Only what a
job file of the framework says is stated: what the framework does of itself is the estimator's to know.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from cfglint.estimate.result import GIB
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from tests.estimate.measured_steps import training_job

STEPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("framework_steps.json").read_text("utf-8"))
WORST = 0.02


def error_of(step: dict[str, Any]) -> float:
    stage = fullest_stage(resolve(training_job(step["job"])))  # with the CPU's kernels, which the oracle runs
    assert stage is not None
    return stage.peak.total / GIB / float(step["allocated_gib"]) - 1


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["job"]["name"])
def test_a_frameworks_step(step: dict[str, Any]) -> None:
    assert abs(error_of(step)) < WORST
    found = estimate_training(training_job(step["job"])).memory.allocated
    assert found is not None
    assert found.low < step["allocated_gib"] * GIB < found.high


def test_each_framework_as_a_whole() -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    for step in STEPS:
        errors[step["job"]["framework"]].append(abs(error_of(step)))
    assert {name: len(found) >= 8 for name, found in errors.items()} == dict.fromkeys(errors, True)
    assert {name: statistics.median(found) < 0.003 for name, found in errors.items()} == dict.fromkeys(errors, True)
