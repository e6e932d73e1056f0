"""Parameter counts, computed from each model's config, against the catalogue's totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cfglint.catalog.architecture import Architecture, architecture_from_config
from cfglint.catalog.models import Model, architecture_of, find_model, models

SHARED = Path(__file__).parents[2].parent / "shared" / "catalog" / "models.json"

NOT_REACHED: dict[str, str] = {}
"""Counted models whose total we do not compute exactly, each with the reason. None."""

NOT_MET: dict[str, str] = {
    "nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B-BF16": "sizes not public: experts' width in each block (64,384 together)",
    "ByteDance-Seed/AHN-Mamba2-for-Qwen-2.5-Instruct-14B": "an adapter without its model",
}
"""Published totals that no tensors of ours add up to, each with the reason."""

NO_COUNT = {
    "inclusionAI/Ling-3.0-flash-VL-fp4": (124_848_440_016, 128, 0),
    "deepseek-ai/ESFT-token-translation-lite": (15_706_484_224, 128, 0),
    "nvidia/Ising-Calibration-1-35B-A3B": (35_107_181_936, 256, 512),
    "internlm/Intern-S2-Mobius": (35_119_764_848, 256, 512),
}
"""Models whose published figure is somebody's estimate: what they have in truth; the estimate's head and shared expert."""

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


def test_published_totals_are_met_but_for_those_with_a_reason() -> None:
    published = [model for model in models() if not model.counted and not model.no_count]
    assert len(published) == 320 - len(NO_COUNT)
    missed = set()
    for model in published:
        architecture = architecture_of(model)
        # what a checkpoint holds besides (draft layers, buffers, scales) or packs is no matter of the model
        total = model.params_total - model.extra_in_checkpoint
        assert architecture.total_parameters == total, model.id
        if architecture.exact:
            assert sum(tensor.parameters for tensor in architecture.tensors) == total
        else:
            missed.add(model.id)
            assert architecture.tensors or architecture.missing, model.id
    assert missed == NOT_MET.keys()
    assert len(published) - len(missed) == 314


def test_estimates_are_told_from_counts() -> None:
    """llmfit's estimate: embedding and head, attention with plain projections, a router and all experts in every layer."""
    rows = {model.id: model for model in models() if model.no_count}
    assert rows.keys() == NO_COUNT.keys()
    for name, (total, head, shared) in NO_COUNT.items():
        made = architecture_of(rows[name])
        assert made.exact and made.total_parameters == sum(tensor.parameters for tensor in made.tensors) == total
        hidden, experts = made.hidden_size, made.moe
        assert experts is not None
        attention = 2 * hidden * head * (made.num_attention_heads + made.num_key_value_heads)
        routed = experts.num_experts * (hidden + 3 * hidden * experts.intermediate_size)
        layer = attention + routed + 3 * hidden * shared
        assert rows[name].params_total == 2 * made.vocab_size * hidden + len(made.layers) * layer


def test_packed_experts_account_for_every_element() -> None:
    """Ling-3.0-flash in MXFP4: elements of the files in BF16 less half of the routed experts, the draft layer's among them."""
    plain, packed = (architecture_of_name(f"inclusionAI/Ling-3.0-flash{end}") for end in ("", "-fp4"))
    assert plain[1].total_parameters == packed[1].total_parameters == 124_414_191_072
    routed = sum(tensor.parameters for tensor in plain[1].tensors if tensor.role == "expert")
    draft = 3 * 512 * 768 * 2560
    assert plain[0].params_total - packed[0].params_total == (routed + draft) // 2
    # the Hub's count for the one with images, as its card had it in 2026
    images = architecture_of_name("inclusionAI/Ling-3.0-flash-VL")
    assert images[0].params_total - routed // 2 == 64_450_482_896


def architecture_of_name(name: str) -> tuple[Model, Architecture]:
    model = find_model(name)
    assert model is not None
    return model, architecture_of(model)


@pytest.mark.parametrize(
    ("name", "total", "besides"),
    [
        # published: elements of the files; besides: draft layers, buffers, scales
        ("moonshotai/Kimi-K3", 2_779_931_837_184, 84_640),
        ("XiaomiMiMo/MiMo-V2.5", 310_775_040_000, 1_006_549_568),
        ("tencent/Hy3", 298_786_155_776, 3_752_627_456),
        ("zai-org/GLM-5.3-Flash", 321_323_031_390, 7_432_604_512),
        ("inclusionAI/Ling-3.0-flash", 127_486_405_600, 3_072_214_528),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 49_122_681_728, 6_656),
        ("nvidia/Llama-3_1-Nemotron-Ultra-253B-v1", 253_401_268_224, 0),
        ("nvidia/Nemotron-Labs-TwoTower-30B-A3B-Base-BF16", 63_185_902_848, 5_888),
        ("Qwen/Qwen3.8-Flash-Next", 179_999_981_459, 2_607_150_883),
        ("deepseek-ai/DeepSeek-V4.1-Flash", 763_205_315_794, 14_225_393_250),
        ("internlm/Intern-S2-Preview-397B", 404_096_969_673, 6_621_168_128),
        ("nvidia/gpt-oss-puzzle-88B", 90_837_823_680, 2_687_385_600),
        ("nvidia/NV-Reason-CT", 5_322_014_624, 635_700_064),
        ("HuggingFaceTB/nanowhale-100m", 110_369_621, 32),
        ("Snowflake/snowflake-arctic-instruct", 478_584_608_768, 0),
        ("microsoft/Phi-4-mini-flash-reasoning", 3_852_562_944, 0),
        ("openbmb/MiniCPM-SALA", 9_477_203_968, 0),
        ("nvidia/Nemotron-Flash-3B", 2_749_998_624, 0),
        ("allenai/Molmo2-8B", 8_661_703_120, 0),
        ("google/gemma-3n-E2B", 5_439_438_272, 20_974_080),
        ("OpenGVLab/InternVL2_5-38B", 38_388_164_992, 0),
    ],
)
def test_published_totals(name: str, total: int, besides: int) -> None:
    model, architecture = architecture_of_name(name)
    assert (model.params_total, model.extra_in_checkpoint) == (total, besides)
    assert architecture.exact and architecture.total_parameters == total - besides


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
