"""Parameter counts, computed from each model's config, against the catalogue's totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.catalog.models import Model, architecture_of, find_model, models

SHARED = Path(__file__).parents[2].parent / "shared" / "catalog" / "models.json"

NOT_REACHED: dict[str, str] = {}
"""Counted models whose total we do not compute exactly, each with the reason. None."""

COUNTED = [model for model in models() if model.counted]


def test_every_counted_model_is_there() -> None:
    assert len(COUNTED) == 783
    assert len({model.model_type for model in COUNTED}) == 103


@pytest.mark.parametrize("model_type", sorted({model.model_type for model in COUNTED}))
def test_total_equals_the_counted_total(model_type: str) -> None:
    wrong = {}
    for model in COUNTED:
        if model.model_type == model_type and model.id not in NOT_REACHED:
            architecture = architecture_from_config(model.config)
            if architecture.total_parameters != model.params_total or not architecture.exact:
                wrong[model.id] = (architecture.total_parameters, model.params_total)
    assert wrong == {}


def test_active_parameters_of_every_mixture_of_experts() -> None:
    mixtures = [model for model in COUNTED if model.params_active is not None]
    assert len(mixtures) == 104
    for model in mixtures:
        assert architecture_from_config(model.config).active_parameters == model.params_active, model.id


@pytest.mark.parametrize("model", COUNTED[::25], ids=lambda model: model.id)
def test_tensors_add_up_and_fit_the_layers(model: Model) -> None:
    architecture = architecture_from_config(model.config)
    assert sum(tensor.parameters for tensor in architecture.tensors) == architecture.total_parameters
    depth = {"decoder": len(architecture.layers), "encoder": len(architecture.encoder_layers)}
    for tensor in architecture.tensors:
        if tensor.stack in depth:
            assert tensor.layers and max(tensor.layers) < depth[tensor.stack]
        assert all(side > 0 for side in tensor.shape)
    assert [layer.index for layer in architecture.layers] == list(range(architecture.num_hidden_layers))


@pytest.mark.parametrize(
    ("name", "total"),
    [
        # published: safetensors element counts of the checkpoints' own model pages
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("google/gemma-2-9b", 9_241_705_984),
        ("openai-community/gpt2", 124_439_808),
        ("google-bert/bert-base-uncased", 109_514_298),
        ("deepseek-ai/DeepSeek-V3", 671_026_404_352),
        ("tiiuae/falcon-7b", 6_921_720_704),
    ],
)
def test_well_known_totals(name: str, total: int) -> None:
    found = [model for model in COUNTED if model.id.lower() == name.lower()]
    assert [architecture_from_config(model.config).total_parameters for model in found] == [total]


def test_published_rows_keep_their_total_and_are_not_called_exact_unless_they_are() -> None:
    published = [model for model in models() if not model.counted]
    assert len(published) == 320
    exact = 0
    for model in published:
        architecture = architecture_of(model)
        # draft layers that a checkpoint holds besides are no part of the model
        total = model.params_total - model.extra_in_checkpoint
        assert architecture.total_parameters == total, model.id
        if architecture.exact:
            exact += 1
            assert sum(tensor.parameters for tensor in architecture.tensors) == total
        elif not architecture.tensors:
            assert architecture.missing, model.id
    assert exact == 305


@pytest.mark.skipif(not SHARED.exists(), reason="../shared is not there")
def test_the_data_files_hold_every_row_of_shared() -> None:
    rows = {row["id"]: row for row in json.loads(SHARED.read_text("utf-8"))}
    ours = {model.id: model for model in models()}
    assert ours.keys() == rows.keys()
    for name, row in rows.items():
        assert ours[name].params_total == row["params_total"]
        assert ours[name].fp16_safe == row["fp16_safe"]
        assert ours[name].source == row["source"]
        assert ours[name].native_dtype_sourced == (
            bool(row.get("native_dtype_source")) and "recalled" not in row["native_dtype_source"]
        )


def test_codegen_is_counted_by_its_own_names() -> None:
    """356,712,448 parameters are what transformers 5.24 makes of these sizes (CodeGen-350M's)."""
    sizes = {"n_embd": 1024, "n_layer": 20, "n_head": 16, "rotary_dim": 32, "vocab_size": 51200}
    made = architecture_from_config({"model_type": "codegen", **sizes})
    assert made.exact and made.total_parameters == 356_712_448


def test_a_format_is_not_taken_over_from_a_model_of_the_same_sizes() -> None:
    gemma = find_model("google/gemma-4-31B")
    assert gemma is not None and gemma.config_of == "nvidia/Gemma-4-31B-IT-NVFP4"
    assert "quantization_config" not in gemma.config and gemma.native_dtype == "bfloat16"
