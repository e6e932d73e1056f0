"""Memory under tensor, pipeline and expert parallelism: what each rank holds beside its share of the weights."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.estimate.result import MemoryEstimate
from cfglint.estimate.training import estimate_training
from tests.estimate.test_training import complete

MEGATRON: dict[str, Any] = {
    "framework": "megatron", "master_weights": True, "zero_stage": 1, "gpus": 8, "micro_batch_size": 4,
    "sequence_length": 4096, "gradient_checkpointing": "none", "attention": "flash2",
}  # fmt: skip


def memory(**facts: Any) -> MemoryEstimate:
    return estimate_training(complete(**facts)).memory


def test_megatron_gradient_buffers_are_there_in_forward_without_accumulation() -> None:
    """``main_grad`` buffers are made with the model (Megatron ``param_and_grad_buffer.py``)."""
    one, two = memory(**MEGATRON), memory(**MEGATRON, gradient_accumulation_steps=2)
    assert one.phases == two.phases
    gradients = next(c.bytes for c in one.components if c.name == "gradients")
    assert gradients == pytest.approx(7.2417e9 * 4, rel=0.001)
