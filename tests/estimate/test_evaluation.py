"""Evaluation and checkpoint saving as phases of a training job.

``evaluation_steps.json`` beside this file: jobs of transformers 5.24, models cut to a few layers, that
``benchmarks/fresh_oracle.py draw --evaluation`` drew and ``benchmarks/evaluation_oracle.py`` measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.estimate.fit import fit_training, fitting_changes
from cfglint.estimate.result import GIB, Estimate
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from tests.estimate.measured_steps import training_job

STEPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("evaluation_steps.json").read_text("utf-8"))

QWEN: dict[str, Any] = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
LORA: dict[str, Any] = {
    "model": QWEN, "framework": "llamafactory", "method": "lora", "lora_rank": 16, "lora_targets": ["all-linear"],
    "weight_dtype": "bf16", "compute_dtype": "bf16", "micro_batch_size": 1, "gradient_accumulation_steps": 8,
    "sequence_length": 4096, "packing": True, "gradient_checkpointing": "full", "attention": "flash2", "loss_kernel": "torch",
    "gpu": "A100-SXM4-80GB", "gpus_per_node": 1, "nodes": 1,
}  # fmt: skip
LOGIT_BYTES = 10
"""16-bit logits, their fp32 copy and its log-softmax."""


def estimate(**facts: Any) -> Estimate:
    return estimate_training(training_job({**LORA, **facts}))


def logits_gib(sequences: int) -> float:
    return sequences * LORA["sequence_length"] * QWEN["vocab_size"] * LOGIT_BYTES / GIB


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["job"]["name"])
def test_a_measured_evaluation(step: dict[str, Any]) -> None:
    stage = fullest_stage(resolve(training_job(step["job"])))
    assert stage is not None
    assert stage.peak.phases["evaluation"] / GIB == pytest.approx(step["evaluation_gib"], rel=0.011)
    if "save_gib" in step:
        assert stage.peak.phases["save"] / GIB == pytest.approx(step["save_gib"], rel=0.002)


def test_a_run_that_does_not_evaluate_has_no_such_phase() -> None:
    assert "evaluation" not in estimate().memory.phases
    assert "evaluation" not in estimate(evaluates=False, eval_micro_batch_size=8).memory.phases


def test_transformers_trainers_evaluate_eight_sequences_unless_told_otherwise() -> None:
    default, one = estimate(evaluates=True), estimate(evaluates=True, eval_micro_batch_size=1)
    assert default.memory.at == "evaluation"
    assert one.memory.at != "evaluation"
    grown = (default.memory.phases["evaluation"] - one.memory.phases["evaluation"]) / GIB
    assert grown == pytest.approx(logits_gib(7), rel=0.02)
    assert "eval_micro_batch_size is not stated: 8 (llamafactory default)" in default.assumptions
    logits = next(part for part in default.memory.components if part.name == "logits and loss")
    assert logits.bytes / GIB == pytest.approx(logits_gib(8), rel=0.001)
    assert "eval_micro_batch_size" in [fact.fact for fact in logits.inputs]


def test_parts_at_the_peak_of_an_evaluation_add_up() -> None:
    memory = estimate(evaluates=True).memory
    assert sum(part.bytes for part in memory.components) == pytest.approx(memory.phases["evaluation"])


def test_a_length_of_its_own_stands_for_trainings() -> None:
    """'sequence_length' stood among the inputs of an evaluation that does not use it."""
    for facts, length in (({}, "sequence_length"), ({"eval_sequence_length": 8192}, "eval_sequence_length")):
        parts = estimate(evaluates=True, eval_micro_batch_size=64, **facts).memory.components
        logits = next(part for part in parts if part.name == "logits and loss")
        assert [fact.fact for fact in logits.inputs if fact.fact.endswith("sequence_length")] == [length]


@pytest.mark.parametrize(("framework", "sequences"), [("axolotl", 2), ("torchtune", 2), ("ms-swift", 1), ("trl", 8)])
def test_each_framework_has_its_own_default(framework: str, sequences: int) -> None:
    plan = resolve(training_job({**LORA, "framework": framework, "evaluates": True, "micro_batch_size": 2}))
    assert plan.evaluation_batch == sequences


@pytest.mark.parametrize(
    ("framework", "version", "made"),
    [
        ("llamafactory", None, True),
        ("axolotl", None, True),
        ("transformers", "5.14", True),
        ("transformers", "5.15", False),
        ("transformers", None, False),
        ("trl", "0.28", True),
        ("trl", "0.29", False),
    ],
)
def test_liger_makes_all_logits_in_evaluation_until_it_is_told_not_to(
    framework: str, version: str | None, made: bool
) -> None:
    facts = {"framework": framework, "loss_kernel": "fused_linear", "evaluates": True, "eval_micro_batch_size": 1}
    if version is not None:
        facts["framework_version"] = version
    with_logits = estimate(**{**facts, "loss_kernel": "torch"}).memory.phases["evaluation"]
    found = estimate(**facts).memory.phases["evaluation"]
    assert (found == pytest.approx(with_logits)) is made


def test_a_stated_kernel_of_evaluation_wins() -> None:
    facts = {"framework": "axolotl", "loss_kernel": "fused_linear", "evaluates": True}
    patched, cut = estimate(**facts), estimate(**facts, eval_loss_kernel="fused_linear")
    assert patched.memory.phases["evaluation"] - cut.memory.phases["evaluation"] > GIB


def test_keys_and_values_are_kept_by_trainers_before_transformers_5() -> None:
    facts = {"framework": "transformers", "evaluates": True, "eval_micro_batch_size": 8}
    old, new = (estimate(**facts, framework_version=version) for version in ("4.57", "5.0"))
    cache = 8 * 4096 * QWEN["num_hidden_layers"] * 2 * QWEN["num_key_value_heads"] * 128 * 2
    assert old.memory.phases["evaluation"] - new.memory.phases["evaluation"] == pytest.approx(cache)
    assert any(part.name == "keys and values kept" for part in old.memory.components)


def test_gradients_wait_in_their_buffer_where_there_is_one() -> None:
    facts = {"method": "full", "evaluates": True, "gpus_per_node": 8, "eval_micro_batch_size": 1, "micro_batch_size": 1}
    job = training_job({**LORA, **facts, "framework": "transformers", "zero_stage": 3})
    stage = fullest_stage(resolve(job))
    assert stage is not None
    assert stage.states.gradients > GIB
    resident = stage.states.resident + stage.states.gradients
    assert stage.peak.phases["evaluation"] > resident


def test_a_low_end_takes_short_samples_even_where_training_packs() -> None:
    memory = estimate(evaluates=True).memory
    assert memory.used is not None
    assert memory.used.low < memory.phases["evaluation"] / 2
    pretraining = estimate(framework="torchtitan", method="pretrain", evaluates=True, eval_micro_batch_size=8).memory
    assert pretraining.allocated is not None
    # the same tokens; whether the loss is compiled is not known
    assert pretraining.allocated.low > 0.6 * pretraining.phases["evaluation"]


def test_what_would_fit_is_a_smaller_batch_of_evaluation() -> None:
    job = training_job({**LORA, "evaluates": True, "gpu": "A100-SXM4-40GB"})
    assert estimate_training(job).memory.verdict == "likely-oom"
    best = fitting_changes(job)[0]
    assert best.facts == {"eval_micro_batch_size": 2}
    assert not best.changes_training_result
    fit = fit_training(job)
    assert fit.beside == {"eval_micro_batch_size": 1}
    assert fit.micro_batch is not None and fit.micro_batch.fits >= 1


def test_rl_evaluates_by_generating() -> None:
    assert "evaluation" not in estimate(method="grpo+lora", evaluates=True).memory.phases


FULL: dict[str, Any] = {
    "method": "full", "framework": "transformers", "weight_dtype": "bf16", "compute_dtype": "bf16", "gpus_per_node": 8,
    "fsdp": "full_shard", "optimizer": "adamw_torch_fused",
}  # fmt: skip


def test_fsdp_1_gathers_unit_by_unit_and_keeps_the_outer_one_for_shards() -> None:
    facts = {**LORA, **FULL, "fsdp_version": 1}
    full, sharded = (
        fullest_stage(resolve(training_job({**facts, "state_dict": kind}))) for kind in ("full", "sharded")
    )
    assert full is not None and sharded is not None
    outer = 2 * QWEN["vocab_size"] * QWEN["hidden_size"]
    total = estimate(**FULL, fsdp_version=1).parameters
    assert total is not None
    block = (total - outer) / QWEN["num_hidden_layers"]
    extras = [stage.peak.phases["save"] - stage.states.resident for stage in (full, sharded)]
    assert extras == [pytest.approx(outer * 4, rel=0.001), pytest.approx((outer + block) * 4, rel=0.001)]


def test_each_unit_is_whole_while_fsdp_1_cuts_it() -> None:
    stage = fullest_stage(resolve(training_job({**LORA, **FULL, "fsdp_version": 1})))
    assert stage is not None
    outer = 2 * QWEN["vocab_size"] * QWEN["hidden_size"]
    assert stage.peak.phases["load"] - stage.states.weights == pytest.approx(outer * 4, rel=0.001)


def test_rank_0_holds_the_optimizer_of_a_full_state_dict() -> None:
    full, model_only = estimate(**FULL, fsdp_version=1), estimate(**FULL, fsdp_version=1, saves_optimizer=False)
    total = full.parameters
    assert total is not None and full.memory.host is not None
    assert full.memory.saving == pytest.approx(8 * total)
    assert model_only.memory.saving == pytest.approx(4 * total)
    assert (full.memory.host.low, full.memory.host.expected) == (0, full.memory.saving)


@pytest.mark.parametrize(
    "facts", [{"state_dict": "sharded"}, {"saves": False}, {}], ids=["sharded", "never", "default"]
)
def test_fsdp_2_gathers_nothing_for_shards(facts: dict[str, Any]) -> None:
    memory = estimate(**FULL, fsdp_version=2, **facts).memory
    assert "save" not in memory.phases
    assert memory.saving == 0


def test_one_device_saves_tensor_by_tensor() -> None:
    memory = estimate().memory
    assert "save" not in memory.phases
    assert memory.host is not None and memory.host.high == 0
