"""Steps of TRL's preference and RL trainers that ``benchmarks/preference_oracle.py`` measured: one of each kind.

``preference_steps.json`` beside this file: jobs with the release that ran, and the measured peak of each phase in GiB; written
by ``benchmarks/preference_cases.py keep``.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import GIB
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob

STEPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("preference_steps.json").read_text("utf-8"))


def training_job(step: dict[str, Any], **others: Any) -> TrainingJob:
    mapping = {**step["job"], **others}
    job = TrainingJob(mapping["name"])
    for key, value in mapping.items():
        if key != "name" and value is not None:
            state(job, key, value, SettingOrigin("steps", key))
    if mapping["compute_dtype"] is None:
        state(job, "compute_dtype", None, SettingOrigin("steps", "compute_dtype"))
    job.hardware = resolve_hardware(job)
    origin = SettingOrigin("steps", "model")
    job.model = ModelFacts("inline", architecture_from_config(mapping["model"]), "the job file", origin)
    job.versions = {"transformers": step["transformers"]}
    return job


def phases(job: TrainingJob) -> dict[str, float]:
    stage = fullest_stage(resolve(job))  # with the CPU's kernels, which the oracle runs
    assert stage is not None
    return {name: size / GIB for name, size in stage.peak.phases.items()}


def test_every_method_and_five_releases_are_held() -> None:
    kinds = {(step["job"]["framework_version"], step["job"]["method"].partition("+")[0]) for step in STEPS}
    assert {method for release, method in kinds if release == "1.16.0"} == {
        "cpo", "distill", "dpo", "gkd", "grpo", "kto", "orpo", "reward", "rloo",
    }  # fmt: skip
    assert {release for release, _ in kinds} == {"0.11.4", "0.14.0", "0.19.1", "1.8.0", "1.16.0"}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["job"]["name"])
def test_a_measured_step(step: dict[str, Any]) -> None:
    job = training_job(step)
    measured = max(step["phases"].values())
    found = phases(job)
    assert max(found[name] for name in step["phases"]) == pytest.approx(measured, rel=0.02)
    assert found["step"] == pytest.approx(step["phases"]["step"], rel=0.055)
    allocated = estimate_training(job).memory.allocated
    assert allocated is not None
    assert allocated.low < measured * GIB < allocated.high


def test_phases_as_a_whole() -> None:
    """What is reached: half of all peaks within 0.1 %, 19 of 20 within 1.5 %."""
    errors = []
    for step in STEPS:
        found, measured = phases(training_job(step)), step["phases"]
        errors.append(abs(max(found[name] for name in measured) / max(measured.values()) - 1))
    errors.sort()
    assert len(errors) >= 60
    assert statistics.median(errors) <= 0.001
    assert errors[int(0.95 * len(errors))] <= 0.015


def test_an_unknown_release_is_taken_as_the_newest_and_reaches_to_an_earlier_one() -> None:
    step = next(step for step in STEPS if step["job"]["name"].startswith("dpo of TRL 1.16.0"))
    newest, unknown = training_job(step), training_job(step, framework_version=None)
    assert phases(newest) == phases(unknown)
    earlier = phases(training_job(step, framework_version="1.13.0"))
    at_newest, at_unknown = estimate_training(newest).memory.allocated, estimate_training(unknown).memory.allocated
    assert at_newest is not None
    assert at_unknown is not None
    assert max(earlier.values()) * GIB <= at_unknown.high
    assert at_newest.high < max(earlier.values()) * GIB


def test_a_reference_is_a_model_beside_the_policy_or_nothing() -> None:
    step = next(s for s in STEPS if s["job"]["method"] == "dpo" and s["job"]["reference"] == "model")
    weights = phases(training_job(step))["load"]
    assert phases(training_job(step, reference="precomputed"))["load"] == pytest.approx(weights / 2, rel=0.001)
    assert phases(training_job(step, reference=None)) == phases(training_job(step))  # DPO's default


@pytest.mark.parametrize(("release", "loads"), [("0.18.2", 2), ("0.19.0", 1), (None, 1)])
def test_grpo_holds_a_reference_until_beta_was_0(release: str | None, loads: int) -> None:
    """``beta`` is 0.04 until TRL 0.18, and 0 since."""
    step = next(s for s in STEPS if s["job"]["method"] == "grpo" and s["job"]["reference"] == "none")
    alone = phases(training_job(step))["load"]
    found = phases(training_job(step, framework_version=release, reference=None))["load"]
    assert found == pytest.approx(loads * alone, rel=0.001)


def test_kto_puts_each_sample_through_the_model_once() -> None:
    step = next(s for s in STEPS if s["job"]["method"] == "kto")
    assert resolve(training_job(step)).rows == step["job"]["micro_batch_size"]
    assert resolve(training_job(step, method="dpo")).rows == 2 * step["job"]["micro_batch_size"]


def test_components_say_what_a_preference_run_holds() -> None:
    step = next(
        s for s in STEPS if s["job"]["name"].startswith("dpo of TRL 1.16.0") and s["job"]["reference"] == "model"
    )
    rows = {row.name: row for row in estimate_training(training_job(step)).memory.components}
    assert rows["weights"].formula.endswith("and the reference: 1 of the same size")
    assert "pairs × " in rows["activations"].formula
    earlier = estimate_training(training_job(step, framework_version="1.8.0")).memory.components
    assert any("whole logits, gather and logsumexp" in row.formula for row in earlier)


def test_only_a_reference_that_follows_the_policy_finds_its_graph() -> None:
    """Megatron-SWIFT scores with the reference first: its pass is no moment of the step."""
    step = next(
        s for s in STEPS if s["job"]["name"].startswith("dpo of TRL 1.8.0") and s["job"]["reference"] == "model"
    )
    plan = resolve(training_job(step))
    first = replace(plan, profile=replace(plan.profile, reference_follows=False))
    follows, before = fullest_stage(plan), fullest_stage(first)
    assert follows is not None
    assert before is not None
    assert follows.peak.phases["forward"] > before.peak.phases["forward"]
    assert follows.peak.phases["load"] == before.peak.phases["load"]
