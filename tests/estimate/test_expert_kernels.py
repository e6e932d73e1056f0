"""What a framework's own experts keep for backward, and what FSDP knows of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import Estimate
from cfglint.estimate.training import estimate_training
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob
from cfglint.jobs.models import ModelSearch

GIB = 2**30


def estimate(**facts: Any) -> Estimate:
    job = TrainingJob("test")
    for key, value in facts.items():
        state(job, key, value, SettingOrigin("test", key))
    job.hardware = resolve_hardware(job)
    job.model = ModelSearch(Path("."), {}).find(job)
    return estimate_training(job)


def allocated(**facts: Any) -> float:
    interval = estimate(**facts).memory.allocated
    assert interval is not None
    return interval.expected / GIB


def component(name: str, **facts: Any) -> float:
    return next(c.bytes for c in estimate(**facts).memory.components if c.name == name) / GIB


AUTOMODEL = {
    "framework": "nemo-automodel", "method": "pretrain", "optimizer": "adamw_torch", "weight_dtype": "bf16", "packing": True,
    "attention": "flash2", "gradient_checkpointing": "none", "fsdp": "full_shard", "fsdp_version": 2, "sequence_length": 4096,
    "upcast_logits": False,
}  # fmt: skip


@pytest.mark.parametrize(("batch", "accumulation", "measured"), [(1, 16, 83.0), (2, 8, 107.0), (4, 4, 154.6)])
def test_gpt_oss_in_automodel(batch: int, accumulation: int, measured: float) -> None:
    """32 GB200, published with its recipes (commit 77f112399): 28, 44 and 62 % over while transformers' experts were counted."""
    facts = {"model": "openai/gpt-oss-120b", "gpu": "GB200", "gpus_per_node": 4, "nodes": 8, "expert_parallel_size": 16}
    found = allocated(**AUTOMODEL, **facts, micro_batch_size=batch, gradient_accumulation_steps=accumulation)
    assert found == pytest.approx(measured, rel=0.02)


MEGATRON = {
    "framework": "megatron", "model": "Qwen/Qwen3-30B-A3B", "gpu": "H100-80GB", "gpus_per_node": 8, "nodes": 2, "method": "pretrain",
    "micro_batch_size": 1, "gradient_accumulation_steps": 4, "sequence_length": 4096, "packing": True, "expert_parallel_size": 8,
}  # fmt: skip


def test_megatron_weighs_in_the_activation_since_0_13() -> None:
    """Before, the activation's output and what the experts return were kept for the product with the router's weights."""
    rows = 48 * 4096 * 8
    before, now = (component("activations", **MEGATRON, framework_version=version) for version in ("0.12.0", "0.13.0"))
    assert before - now == pytest.approx(rows * (768 + 2048) * 2 / GIB, abs=0.001)
    assert component("activations", **MEGATRON) == now


def test_no_kernel_weighs_gelu() -> None:
    """Its output, the product with up and the weighted product are kept where SwiGLU's kernel keeps only the last."""
    config = {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "vocab_size": 151936,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "decoder_sparse_step": 1, "tie_word_embeddings": False,
    }  # fmt: skip
    made = []
    for activation in ("silu", "gelu_pytorch_tanh"):
        job = TrainingJob("test")
        for key, value in MEGATRON.items():
            state(job, key, value, SettingOrigin("test", key))
        job.hardware = resolve_hardware(job)
        architecture = architecture_from_config(config | {"hidden_act": activation})
        job.model = ModelFacts("inline", architecture, "the row", SettingOrigin("test", "model"))
        made.append(next(c.bytes for c in estimate_training(job).memory.components if c.name == "activations"))
    assert made[1] - made[0] == pytest.approx(48 * 4096 * 8 * 768 * 2 * 2)


def test_experts_that_no_other_rank_holds_are_outside_fsdp() -> None:
    """Their gradients stay in 16 bits between micro-steps, where FSDP keeps the others whole in fp32."""
    facts = AUTOMODEL | {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H100-80GB", "nodes": 1, "micro_batch_size": 4}
    experts = 48 * 128 * 3 * 2048 * 768
    rest = 30_532_122_624 - experts
    alone = component("gradients", **facts, gpus_per_node=8, expert_parallel_size=8, gradient_accumulation_steps=2)
    assert alone == pytest.approx((rest * 4 + experts / 8 * 2) / GIB, rel=1e-6)
    shared = component("gradients", **facts, gpus_per_node=8, expert_parallel_size=4, gradient_accumulation_steps=2)
    assert shared == pytest.approx((rest + experts / 4) * 4 / GIB, rel=1e-6)


def test_the_loss_may_leave_logits_in_16_bits() -> None:
    facts = AUTOMODEL | {"model": "Qwen/Qwen3-30B-A3B", "gpu": "H100-80GB", "gpus_per_node": 8, "nodes": 1}
    facts |= {
        "micro_batch_size": 4,
        "gradient_accumulation_steps": 1,
        "expert_parallel_size": 8,
        "gradient_checkpointing": "full",
    }
    logits = 4 * 4096 * 151936
    narrow = component("logits and loss", **facts)
    wide = component("logits and loss", **facts | {"upcast_logits": True})
    assert narrow == pytest.approx(4 * logits * 2 / GIB, rel=0.03)  # logits, log-softmax, and the gradients of both
    assert wide == pytest.approx((logits * 2 + 3 * logits * 4) / GIB, rel=0.03)


@pytest.mark.parametrize(("model", "share"), [("meta-llama/Llama-3.2-1B", 0.85), ("Qwen/Qwen3-0.6B", 1.0)])
def test_norms_of_automodels_own_llama_are_one_kernel(model: str, share: float) -> None:
    """They keep the 16-bit input, where transformers keeps an fp32 one; other models are transformers' own."""
    facts = AUTOMODEL | {"gpu": "H100-80GB", "gpus_per_node": 8, "nodes": 1, "micro_batch_size": 2, "model": model}
    own, plain = (component("activations", **facts | {"framework": name}) for name in ("nemo-automodel", "nemo-rl"))
    assert own / plain == pytest.approx(share, abs=0.01)
