"""The rollout engine of an RL run beside the trainer, on one H100 that reports 79.18 GiB."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import architecture_from_config
from cfglint.estimate.result import GIB, Estimate
from cfglint.estimate.training import estimate_training
from cfglint.jobs.facts import CatalogueOrigin, DefaultOrigin, FlagOrigin
from cfglint.jobs.job import Hardware, ModelFacts, TrainingJob

QWEN_05B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
CARD = find_accelerators("H100-SXM")
STATES = 494_032_768 * 2
"""Bytes of one 16-bit state of every parameter."""


def estimate(default_share: float | None = None, **facts: Any) -> Estimate:
    job = TrainingJob("job")
    settings = {
        "framework": "trl",
        "framework_version": "1.8.0",  # whose trainers make all logits
        "method": "grpo",
        "weight_dtype": "bf16",
        "compute_dtype": "bf16",
        "micro_batch_size": 4,
        "sequence_length": 2048,
        "gradient_checkpointing": "full",
        "attention": "flash2",
        "optimizer": "adamw_torch_fused",
        **facts,
    }
    for name, value in settings.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    if default_share is not None:
        job.state("rollout_gpu_memory_utilization", default_share, DefaultOrigin("trl"))
    job.model = ModelFacts("model", architecture_from_config(QWEN_05B), "inline", CatalogueOrigin("test"))
    job.hardware = Hardware(CARD, "H100-SXM", 1, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    return estimate_training(job)


def used(found: Estimate) -> float:
    assert found.memory.used is not None
    return found.memory.used.expected / GIB


def test_an_engine_that_never_sleeps_stands_beside_the_trainer() -> None:
    alone, both = estimate(), estimate(rollout_gpu_memory_utilization=0.3)
    assert used(both) - used(alone) == pytest.approx(0.3 * CARD[0].usable_bytes / GIB, rel=0.001)
    assert both.memory.phases["generation"] == pytest.approx(
        0.3 * CARD[0].usable_bytes + both.memory.phases["load"] + 2 * STATES, rel=0.01
    )
    assert any("30% of each device all the time" in line for line in both.assumptions)


def test_the_two_take_turns_where_the_engine_sleeps() -> None:
    alone = estimate()
    small = estimate(rollout_gpu_memory_utilization=0.1, rollout_sleeps=True)
    # asleep it leaves its graphs and context: the trainer's peak decides
    assert 0 < used(small) - used(alone) < 1
    large = estimate(rollout_gpu_memory_utilization=0.9, rollout_sleeps=True)
    resident = (alone.memory.phases["load"] + 2 * STATES) / GIB
    assert used(large) > 0.9 * CARD[0].usable_bytes / GIB + resident
    gone = estimate(rollout_gpu_memory_utilization=0.9, rollout_sleeps=True, trainer_sleeps=True)
    assert used(large) - used(gone) >= resident


def test_a_share_that_no_file_states_makes_no_error() -> None:
    stated = estimate(rollout_gpu_memory_utilization=1.0, micro_batch_size=16).memory
    assumed = estimate(default_share=1.0, micro_batch_size=16).memory
    assert stated.used is not None
    assert assumed.used is not None
    assert assumed.used.low < stated.used.low
    assert assumed.verdict == "likely-oom"


def test_methods_without_rollouts_have_no_engine() -> None:
    assert used(estimate(method="dpo", rollout_gpu_memory_utilization=0.9)) == used(estimate(method="dpo"))
