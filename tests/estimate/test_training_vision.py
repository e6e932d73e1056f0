"""Vision towers: what is frozen, and what an image takes."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.models import architecture_of, models
from cfglint.estimate.result import Estimate
from cfglint.estimate.training import estimate_training
from cfglint.jobs.facts import CatalogueOrigin, FlagOrigin
from cfglint.jobs.job import Hardware, ModelFacts, TrainingJob

TOWER = 1_198_080 + 302_309_376
PROJECTOR = 20_979_712
"""Parameters of LLaVA-1.5-7B's CLIP ViT-L/14 and of what joins it to the language model."""


def estimate(framework: str, model: str = "llava-hf/llava-1.5-7b-hf", **facts: Any) -> Estimate:
    job = TrainingJob("job")
    settings = {
        "framework": framework,
        "method": "full",
        "weight_dtype": "bf16",
        "compute_dtype": "bf16",
        "micro_batch_size": 2,
        "sequence_length": 2048,
        "gradient_checkpointing": "none",
        "attention": "flash2",
        "optimizer": "adamw_torch_fused",
        **facts,
    }
    for name, value in settings.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    found = next(m for m in models() if m.id == model)
    job.model = ModelFacts(model, architecture_of(found), "catalogue", CatalogueOrigin("test"))
    job.hardware = Hardware(find_accelerators("B200"), "B200", 1, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    return estimate_training(job)


def component(found: Estimate, name: str) -> float:
    return sum(c.bytes for c in found.memory.components if c.name == name)


def test_frameworks_that_freeze_the_tower_keep_no_states_for_it() -> None:
    whole, frozen = estimate("trl"), estimate("ms-swift")
    assert whole.trainable_parameters is not None
    assert frozen.trainable_parameters == whole.trainable_parameters - TOWER - PROJECTOR
    assert component(whole, "optimizer states") - component(frozen, "optimizer states") == pytest.approx(
        4 * (TOWER + PROJECTOR)
    )
    assert component(whole, "weights") == component(frozen, "weights")
    assert estimate("ms-swift", trains_vision=True).trainable_parameters == whole.trainable_parameters


def test_a_trained_tower_keeps_its_activations_under_the_language_model() -> None:
    """CLIP at 336 pixels: 576 patches of 1,024 through 24 layers; about 34 bytes of each are saved, as in any such block."""
    trained, frozen = estimate("trl"), estimate("trl", trains_vision=False)
    more = component(trained, "activations") - component(frozen, "activations")
    assert more == pytest.approx(2 * 576 * 1024 * 24 * 34, rel=0.35)
    assert any("576 patches a sequence, through a trained vision tower" in line for line in trained.assumptions)
    assert any("through a frozen vision tower" in line for line in frozen.assumptions)


def test_images_of_any_size_fill_part_of_the_sequence() -> None:
    """Qwen2.5-VL merges four patches into a token."""
    for length, patches in ((1024, 2048), (16384, 5120)):
        found = estimate("trl", "Qwen/Qwen2.5-VL-7B-Instruct", sequence_length=length, method="lora", lora_rank=8)
        assert any(f"one of {patches} patches" in line for line in found.assumptions)
        assert found.memory.allocated is not None
        assert found.memory.allocated.low < found.memory.allocated.expected
