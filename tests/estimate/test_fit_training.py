"""What would fit of training jobs: sizes at the edge, batches kept, changes that are real."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import architecture_from_config
from cfglint.estimate import estimate
from cfglint.estimate.fit import Fit, fit, fitting_changes
from cfglint.estimate.fit.options import knobs_of
from cfglint.estimate.fit.training import MOST_STACKED, merged
from cfglint.estimate.training.resolve import resolve
from cfglint.jobs.facts import CatalogueOrigin, SettingOrigin
from cfglint.jobs.job import Hardware, ModelFacts, TrainingJob, with_facts

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
SMALL: dict[str, Any] = {**LLAMA_8B, "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 4096}


def job_of(
    config: dict[str, Any] = LLAMA_8B, gpu: str | None = "A100-SXM4-80GB", gpus: int | None = 8, **facts: Any
) -> TrainingJob:
    job = TrainingJob("test")
    given = {
        "framework": "trl", "weight_dtype": "bf16", "compute_dtype": "bf16", "method": "full", "optimizer": "adamw_torch",
        "micro_batch_size": 6, "gradient_accumulation_steps": 2, "sequence_length": 2048, "attention": "sdpa",
        "gradient_checkpointing": "none", "loss_kernel": "torch", "packing": True, **facts,
    }  # fmt: skip
    for name, value in given.items():
        job.state(name, value, SettingOrigin("test", name))
    job.model = ModelFacts("test/model", architecture_from_config(config), "catalogue", CatalogueOrigin("test"))
    if gpu is not None:
        job.hardware = Hardware(find_accelerators(gpu), gpu, gpus, 1, None)
    return job


LORA: dict[str, Any] = {"method": "lora", "lora_rank": 64, "lora_targets": ["all-linear"]}
CASES: dict[str, TrainingJob] = {
    "full": job_of(),
    "full-recomputed": job_of(gradient_checkpointing="full", gpu="H200-SXM"),
    "zero3": job_of(zero_stage=3, master_weights=True, gradient_checkpointing="full"),
    "fsdp": job_of(fsdp="full_shard", fsdp_version=2, gradient_checkpointing="full"),
    "lora": job_of(**LORA, gpus=1),
    "qlora": job_of(**{**LORA, "method": "qlora", "quantization": "nf4"}, gpu="RTX-4090", gpus=1, micro_batch_size=2),
    "small": job_of(SMALL, gpu="T4", gpus=1),
    "eager": job_of(SMALL, attention="eager", gpu="L4", gpus=1, sequence_length=8192),
    "several-a100": job_of(**LORA, gpu="A100", gpus=1),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Fit]:
    return {name: fit(job) for name, job in CASES.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("fact", "step"), [("micro_batch_size", 1), ("sequence_length", 64)])
def test_the_largest_fits_and_the_next_does_not(name: str, fact: str, step: int, found: dict[str, Fit]) -> None:
    job = CASES[name]
    largest = found[name].micro_batch if fact == "micro_batch_size" else found[name].sequence_length
    assert largest is not None and largest.fits <= largest.expected
    capacity = min(a.usable_bytes for a in job.hardware.candidates)
    for size, which in ((largest.fits, "high"), (largest.expected, "expected")):
        for value, fits in ((size, True), (size + step, False)):
            if value:
                used = estimate(with_facts(job, **{fact: value})).memory.used
                assert used is not None
                assert (getattr(used, which) <= capacity) is fits, (value, which)


@pytest.mark.parametrize("name", CASES)
def test_the_effective_batch_is_kept(name: str, found: dict[str, Fit]) -> None:
    job, answers = CASES[name], found[name]
    before = estimate(job).batch
    kept = answers.kept_batch
    if kept is not None:
        assert kept.micro_batch_size * kept.gradient_accumulation_steps == kept.sequences
        assert kept.sequences == (before.micro_batch or 0) * (before.gradient_accumulation or 0)
    for change in (*answers.changes, *answers.stacked, *answers.spare):
        assert change.estimate.batch.sequences == before.sequences, change.words


def test_a_largest_micro_batch_that_does_not_divide() -> None:
    job = job_of(SMALL, gpu="A10G", gpus=1, micro_batch_size=13, gradient_accumulation_steps=1, sequence_length=1536)
    answers = fit(job)
    assert answers.micro_batch is not None and answers.kept_batch is not None
    largest = answers.micro_batch.fits
    assert 1 < largest < 13, "the case is made for a size that cannot divide 13"
    assert (answers.kept_batch.micro_batch_size, answers.kept_batch.gradient_accumulation_steps) == (1, 13)
    assert answers.kept_batch.remainder == -(-13 // largest) * largest > 13


@pytest.mark.parametrize("name", CASES)
def test_changes_are_real_and_ordered(name: str, found: dict[str, Fit]) -> None:
    job, answers = CASES[name], found[name]
    for change in answers.changes:
        assert any(job.value(fact) != value for fact, value in change.facts.items()), change.words
        again = estimate(with_facts(job, **change.facts)).memory
        assert again.used == change.used and again.verdict == change.verdict
    order = {"fits": 0, "tight": 1}
    keys = [(order.get(c.verdict, 2), c.changes_training_result, c.rank) for c in answers.changes]
    assert keys == sorted(keys)
    for stack in answers.stacked:
        assert 2 <= len(stack.parts) <= MOST_STACKED
        assert stack.verdict == "fits"
        assert stack.changes_training_result is any(part.changes_training_result for part in stack.parts)
    surely = [change for change in answers.changes if change.verdict == "fits"]
    if any(not change.changes_training_result for change in surely):
        assert not answers.stacked
    if surely:
        assert not any(stack.changes_training_result for stack in answers.stacked)


def test_where_only_shorter_samples_fit_by_themselves_changes_together_keep_the_result() -> None:
    config = {
        "model_type": "qwen2", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 152064, "tie_word_embeddings": False,
    }  # fmt: skip
    job = job_of(
        config, gpu="H100-SXM", gpus=4, framework="axolotl", method="qlora", lora_rank=64,
        lora_targets=["all-linear"], zero_stage=2, compute_dtype="bf16", optimizer="adamw_8bit", gradient_checkpointing="full",
        attention="flash2", sequence_length=12288, micro_batch_size=4, gradient_accumulation_steps=4,
    )  # fmt: skip
    answers = fit(job)
    surely = [change for change in answers.changes if change.verdict == "fits"]
    assert surely and all(change.changes_training_result for change in surely)
    assert answers.stacked and not any(stack.changes_training_result for stack in answers.stacked)
    best = fitting_changes(job)[0]
    assert best == answers.stacked[0]
    assert best.facts["micro_batch_size"] * best.facts["gradient_accumulation_steps"] == 16


def test_what_changes_the_training_result_is_marked() -> None:
    marks = {
        option.words: option.alters
        for job in (job_of(), job_of(**LORA), job_of(attention="eager"))
        for knob in knobs_of(job, resolve(job))
        for option in knob.options
    }
    for words in (
        "the fused AdamW kernel", "SDPA attention", "a fused linear cross-entropy (Liger)", "gradient checkpointing",
        "micro-batch 1 with 12 accumulation steps",
    ):  # fmt: skip
        assert marks[words] is False, words
    for words in (
        "an 8-bit optimizer", "a paged 8-bit optimizer", "LoRA rank 32", "sequence length 1,024", "a 4-bit base (QLoRA)",
        "LoRA of rank 16",
    ):  # fmt: skip
        assert marks[words] is True, words


def test_zero_adds_masters_to_pure_16_bit_training() -> None:
    def alters(**facts: Any) -> set[bool]:
        job = job_of(**facts)
        knobs = knobs_of(job, resolve(job))
        return {o.alters for knob in knobs for o in knob.options if o.words.startswith("ZeRO")}

    assert alters() == {True}
    assert alters(weight_dtype="fp32") == {False}
    assert alters(**LORA) == {False}


def test_what_excludes_each_other_is_not_stacked() -> None:
    job = job_of(**LORA)
    options = {o.words: o for knob in knobs_of(job, resolve(job)) for o in knob.options}
    base = options["a 4-bit base (QLoRA)"]
    assert merged([base, options["ZeRO stage 3"]]) is None
    assert merged([base, options["FSDP full sharding"]]) is None
    assert merged([base, options["gradient checkpointing"]]) is not None
    full = {o.words: o for knob in knobs_of(job_of(), resolve(job_of())) for o in knob.options}
    offload = full["the optimizer offloaded to the CPU (ZeRO stage 2)"]
    assert merged([full["an 8-bit optimizer"], offload]) is None
    both = merged([full["ZeRO stage 3"], offload])
    assert both is not None and both["zero_stage"] == 3


def test_room_is_named_where_the_job_fits(found: dict[str, Fit]) -> None:
    job = job_of(SMALL, gpu="H100-SXM", gpus=8, zero_stage=3, gradient_checkpointing="full", micro_batch_size=1)
    answers = fit(job)
    assert answers.base.memory.verdict == "fits" and not answers.changes and not answers.stacked
    facts = [dict(change.facts) for change in answers.spare]
    assert {"micro_batch_size": 2, "gradient_accumulation_steps": 1} in facts
    assert {"gradient_checkpointing": "none"} in facts
    assert {"zero_stage": 2} in facts
    assert all(change.verdict == "fits" for change in answers.spare)


@pytest.mark.parametrize("name", CASES)
def test_accelerators_carry_the_job(name: str, found: dict[str, Fit]) -> None:
    answers = found[name]
    assert len(answers.accelerators) + len(answers.too_small) >= 11
    for on in answers.accelerators:
        assert on.verdict == "fits"
        used = on.estimate.memory.used
        assert used is not None and used.high <= on.usable


def test_an_accelerator_without_the_dtype_is_marked() -> None:
    job = job_of(SMALL, gpu="H100-SXM", gpus=1, micro_batch_size=1, gradient_checkpointing="full")
    lacks = {on.gpu: on.lacks for on in fit(job).accelerators}
    assert lacks["T4"] == "bf16" and lacks["L4"] == lacks["H100-SXM"] == ""


def test_more_gpus_are_said_to_need_sharding() -> None:
    answers = fit(
        job_of(
            optimizer="adamw_torch_fused",
            micro_batch_size=1,
            gradient_checkpointing="full",
            gpu="A100-SXM4-40GB",
            gpus=1,
        )
    )
    (stated,) = [on for on in answers.accelerators if on.stated]
    assert stated.gpus > 1 and stated.change is not None
    assert stated.change.facts["zero_stage"] == 3


def test_missing_facts_leave_the_rest_open() -> None:
    nowhere = fit(job_of(gpu=None, gpus=None))
    assert nowhere.missing == ("gpu",)
    assert nowhere.accelerators and nowhere.micro_batch is None and not nowhere.changes
    job = job_of()
    job.model = None
    unknown = fit(job)
    assert unknown.missing == ("model",)
    assert not unknown.accelerators and not unknown.changes
    assert fitting_changes(job) == []


def test_nonsense_is_no_crash() -> None:
    for facts in ({"micro_batch_size": -1}, {"sequence_length": 0}, {"micro_batch_size": "many"}, {"zero_stage": 9}):
        answers = fit(job_of(**facts))
        assert answers.base is not None
        assert answers.missing or "zero_stage" in facts


def test_the_help_line_prefers_what_keeps_the_result() -> None:
    changes = fitting_changes(job_of(gpu="H200-SXM"))
    assert changes and changes[0].verdict == "fits" and not changes[0].changes_training_result
    tight = fitting_changes(job_of(SMALL, gpu="T4", gpus=1, sequence_length=8192))
    assert tight and all(change.verdict in ("fits", "tight") for change in tight)


def test_a_reference_beside_the_policy_can_be_scored_before_training() -> None:
    job = job_of(method="dpo", gpus=1, micro_batch_size=1, gradient_checkpointing="full")
    (option,) = next(knob.options for knob in knobs_of(job, resolve(job)) if knob.group == "reference")
    assert option.facts == {"reference": "precomputed"}
    assert not option.alters
    before, after = estimate(job).memory.allocated, estimate(with_facts(job, **option.facts)).memory.allocated
    assert before is not None
    assert after is not None
    assert before.expected - after.expected > 14 * 2**30  # 8 B parameters in 16 bit
    for other in (job_of(method="grpo", reference="model"), job_of(method="dpo+lora"), job_of()):
        assert not [knob for knob in knobs_of(other, resolve(other)) if knob.group == "reference"]


def test_the_fewest_accelerators_where_evaluation_needs_most() -> None:
    """They were called too small where a smaller batch of evaluation, listed above them, fits."""
    job = job_of(SMALL, gpus=1, micro_batch_size=1, sequence_length=8192, evaluates=True, eval_micro_batch_size=32)
    found = fit(job)
    assert any(change.verdict == "fits" and "eval_micro_batch_size" in change.facts for change in found.changes)
    (mine,) = [on for on in found.accelerators if on.stated]
    assert mine.gpus == 1 and mine.change is not None
    assert mine.change.facts["eval_micro_batch_size"] == 1
    assert "evaluation in batches of 1" in mine.change.words
    trains = fit(
        job_of(SMALL, gpus=1, micro_batch_size=1, sequence_length=8192, evaluates=True, eval_micro_batch_size=1)
    )
    assert all(on.change is None or "eval_micro_batch_size" not in on.change.facts for on in trains.accelerators)
