"""Models that are named after a known one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cfglint.estimate.training import estimate_training
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.models import ModelSearch
from cfglint.jobs.named_models import overlaid, trained_model

SEARCH = ModelSearch(Path(__file__).parent, {})


def job_of(model: str, **facts: Any) -> TrainingJob:
    job = TrainingJob("test")
    for name, value in {"model_id": model, **facts}.items():
        job.state(name, value, SettingOrigin("test", name))
    job.model = SEARCH.find(job)
    return job


@pytest.mark.parametrize(
    ("name", "framework", "known", "label"),
    [
        ("TheBloke/Mistral-7B-v0.1-GPTQ", None, "mistralai/Mistral-7B-v0.1", "GPTQ"),
        ("TheBloke/Llama-2-70B-GPTQ", None, "meta-llama/Llama-2-70b-hf", "GPTQ"),
        ("unsloth/llama-3-8b-bnb-4bit", None, "meta-llama/Meta-Llama-3-8B", "bnb-4bit"),
        ("NousResearch/Llama-2-70b-hf", None, "meta-llama/Llama-2-70b-hf", None),
        ("LLM-Research/Meta-Llama-3.1-8B-Instruct", None, "meta-llama/Llama-3.1-8B-Instruct", None),
        ("mosaicml/mpt-7b shape", None, "mosaicml/mpt-7b", None),
        ("llama3-70b", "megatron", "meta-llama/Meta-Llama-3-70B", None),
    ],
)
def test_known_by_their_names(name: str, framework: str | None, known: str, label: str | None) -> None:
    found = trained_model(name, framework)
    assert found is not None and (found.id, found.format) == (known, label)


@pytest.mark.parametrize(
    "name",
    [
        "someone/Llama-2-70b-hf",  # a fine-tune, or anything else
        "someone/No-Such-Model-AWQ",
        "./TheBloke/Llama-2-70B-GPTQ",
        "llama3-70b",
        "deepseek-v3 16B (torchtitan flavor)",
        "meta-llama/Meta-Llama-3-8B cut to 0 layers",
        "meta-llama/Meta-Llama-3-8B cut to 33 layers",
        "google-t5/t5-3b cut to 2 layers",  # encoder and decoder have counts of their own
    ],
)
def test_names_that_say_nothing_sure(name: str) -> None:
    assert trained_model(name) is None


def test_a_model_cut_to_fewer_layers() -> None:
    found = trained_model("llama3-70b cut to 12 layers", "megatron")
    assert found is not None and found.layers_of == 80
    layer = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert found.architecture.total_parameters == 12 * layer + 2 * 128256 * 8192 + 8192
    cut = trained_model("deepseek-ai/DeepSeek-V3 cut to 4 layers")
    assert cut is not None
    assert [each.feed_forward == "moe" for each in cut.architecture.layers] == [False, True, True, True]


def test_sizes_that_a_framework_ships() -> None:
    found = trained_model("MPT-3B shape", "llm-foundry")
    assert found is not None and found.architecture.num_hidden_layers == 32
    assert found.architecture.hidden_size == 2560


def test_the_quantization_of_a_re_publication_is_used_and_said() -> None:
    job = job_of("TheBloke/Llama-2-70B-GPTQ", method="lora", micro_batch_size=1, sequence_length=2048)
    made = estimate_training(job)
    assert made.memory.allocated is not None
    weights = next(c for c in made.memory.components if c.name == "weights")
    assert "gptq-int4" in weights.formula
    assert any("is taken as meta-llama/Llama-2-70b-hf with quantized weights" in text for text in made.assumptions)
    assert any("gptq-int4 (the checkpoint's name)" in text for text in made.assumptions)


def test_a_config_over_a_known_models() -> None:
    stated = {"_name_or_path": "meta-llama/Meta-Llama-3-8B", "num_hidden_layers": 4}
    config = overlaid(stated)
    assert config["model_type"] == "llama" and config["num_hidden_layers"] == 4 and config["hidden_size"] == 4096
    whole = {"model_type": "llama", **stated}
    assert overlaid(whole) is whole
    unknown = {"_name_or_path": "our/secret"}
    assert overlaid(unknown) is unknown
