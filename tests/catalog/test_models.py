"""Looking models up."""

from __future__ import annotations

import pytest

from cfglint.catalog.models import (
    architecture_of,
    find_model,
    model_ids,
    models,
    models_named,
    row_to_config,
    similar_models,
)


def test_ids_and_aliases_whatever_the_case() -> None:
    model = find_model("META-LLAMA/llama-3.1-8b")
    assert model is not None and model.id == "meta-llama/Llama-3.1-8B"
    assert find_model("meta-llama/Meta-Llama-3.1-8B") == model
    assert find_model(" meta-llama/Llama-3.1-8B/ ") == model


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "@texts",
        "@checked",
        "Llama-3.1-8B",
        "./meta-llama/Llama-3.1-8B",
        "meta-llama",
        'x"y',
        "meta-llama/Llama-3.1-8",
    ],
)
def test_only_a_whole_id_counts(name: str) -> None:
    assert find_model(name) is None


def test_every_id_and_alias_finds_its_row() -> None:
    ids = model_ids()
    assert len(ids) == len(set(ids)) == 1103
    for model in list(models())[::10]:
        for name in (model.id, *model.aliases):
            found = find_model(name)
            assert found is not None
            assert found.id == model.id or found.id == name, name  # an alias may be a row of its own


def test_did_you_mean() -> None:
    assert similar_models("qwen/qwen2.5-7b-instrct")[0] == "Qwen/Qwen2.5-7B-Instruct"
    assert similar_models("llama-3.1-8b")[0] == "meta-llama/Llama-3.1-8B"
    assert similar_models("someone/Llama-3.1-8B")[0] == "meta-llama/Llama-3.1-8B"
    assert similar_models("zzzzzzzzzzzz") == ()
    assert similar_models("") == ()


def test_a_row_says_where_its_facts_are_from() -> None:
    model = find_model("meta-llama/Llama-3.1-8B")
    assert model is not None
    assert model.counted and model.matches_published
    assert model.native_dtype == "bfloat16" and model.native_dtype_sourced
    assert model.fp16_safe == "yes" and "transformers docs" in model.fp16_evidence
    assert model.gated is True and model.license == "llama3.1"
    assert model.source and model.checked == "2026-11-30"


def test_recalled_dtypes_are_marked() -> None:
    recalled = [model for model in models() if model.native_dtype and not model.native_dtype_sourced]
    assert len(recalled) == 674
    assert all("recalled" in model.native_dtype_source for model in recalled)


def test_the_config_is_a_mapping_of_its_own() -> None:
    model = find_model("Qwen/Qwen2.5-VL-7B-Instruct")
    assert model is not None
    config = row_to_config(model)
    assert config["text_config"]["hidden_size"] == 3584
    config["text_config"]["hidden_size"] = 1
    assert row_to_config(model)["text_config"]["hidden_size"] == 3584


def test_quantized_checkpoints_carry_their_config() -> None:
    model = find_model("deepseek-ai/DeepSeek-V3")
    assert model is not None and model.quantization is not None
    assert architecture_of(model).quantization == model.quantization
    assert model.quantization["quant_method"] == "fp8"
    oss = find_model("openai/gpt-oss-20b")
    assert oss is not None and oss.quantization == {"quant_method": "mxfp4"}


def test_a_row_without_dimensions_still_gives_its_total() -> None:
    bare = [model for model in models() if not architecture_of(model).layers]
    assert bare
    for model in bare:
        made = architecture_of(model)
        assert made.total_parameters == model.params_total and not made.exact and made.missing.startswith("all tensors")


def test_rows_that_equal_a_counted_model_take_its_config() -> None:
    model = find_model("LiquidAI/LFM2.5-1.2B-Instruct")
    assert model is not None and not model.counted
    assert model.config_of == "LiquidAI/LFM2-1.2B"
    assert architecture_of(model).exact


def test_one_look_up_does_not_parse_the_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    from cfglint.catalog import models as module

    module._header()
    parsed: list[int] = []
    original = json.loads
    monkeypatch.setattr(module.json, "loads", lambda text: parsed.append(len(text)) or original(text))
    assert find_model("Qwen/Qwen2.5-7B") is not None
    assert parsed and sum(parsed) < 10_000


def test_models_of_a_name_whoever_owns_them() -> None:
    assert models_named("Llama-2-7b-hf") == ("meta-llama/llama-2-7b-hf", "nousresearch/llama-2-7b-hf")
    assert models_named("no-such-model") == ()
    assert models_named("meta-llama/Llama-2-7b-hf") == ()


def test_checkpoints_with_draft_layers_take_the_counted_shape() -> None:
    model = find_model("deepseek-ai/DeepSeek-R1-0528")
    assert model is not None and model.config_of == "deepseek-ai/DeepSeek-R1"
    assert model.params_total == 684_531_386_000
    made = architecture_of(model)
    assert made.exact and made.total_parameters == 671_026_404_352
    assert made.mla is not None and made.mla.kv_lora_rank == 512
