"""What is read from a config: shapes, layers, caches, heads; and what cannot be read."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cfglint.catalog.architecture import Architecture, UnknownArchitecture, architecture_from_config
from cfglint.catalog.models import find_model, models

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}


def read(**changes: Any) -> Architecture:
    return architecture_from_config({**LLAMA, **changes})


def of(name: str) -> Architecture:
    model = find_model(name)
    assert model is not None
    return architecture_from_config(model.config)


def shapes(architecture: Architecture, module: str) -> set[tuple[int, ...]]:
    return {tensor.shape for tensor in architecture.tensors if tensor.module == module}


def test_llama_by_hand() -> None:
    made = read()
    attention = 64 * 64 + 2 * 32 * 64 + 64 * 64
    assert made.total_parameters == 2 * 100 * 64 + 2 * (attention + 3 * 64 * 96 + 2 * 64) + 64
    assert shapes(made, "k_proj") == {(32, 64)}
    assert shapes(made, "down_proj") == {(64, 96)}
    assert (made.head_dim, made.num_key_value_heads, made.num_hidden_layers) == (16, 2, 2)
    assert made.layers[0].kv_cache_elements == 2 * 2 * 16
    linear = {tensor.module for tensor in made.tensors if tensor.linear}
    assert linear == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}


def test_tied_head_is_not_counted_twice() -> None:
    assert read().total_parameters - read(tie_word_embeddings=True).total_parameters == 100 * 64  # type: ignore[operator]


def test_biases_and_a_stated_head_size() -> None:
    assert read(attention_bias=True).total_parameters - read().total_parameters == 2 * (64 + 32 + 32 + 64)  # type: ignore[operator]
    assert read(head_dim=32).layers[0].head_dim == 32
    assert shapes(read(head_dim=32), "o_proj") == {(64, 128)}


def test_classification_and_bare_models_have_other_heads() -> None:
    causal = read().total_parameters
    assert causal is not None
    assert read(architectures=["LlamaModel"]).total_parameters == causal - 6400
    one = read(architectures=["LlamaForSequenceClassification"], num_labels=1)
    assert one.total_parameters == causal - 6400 + 64
    three = read(architectures=["LlamaForSequenceClassification"], id2label={"0": "a", "1": "b", "2": "c"})
    assert three.total_parameters == causal - 6400 + 3 * 64


def test_gpt2_keeps_its_head_though_its_class_ends_in_model() -> None:
    assert of("openai-community/gpt2").tie_word_embeddings
    assert of("Qwen/Qwen-7B").total_parameters == 7_721_324_544


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, expected at least 1"),
        ({"hidden_size": -64}, "hidden_size is -64"),
        ({"hidden_size": "64"}, "hidden_size is '64', expected a whole number"),
        ({"hidden_size": 64.5}, "hidden_size is 64.5"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_attention_heads": 5}, "num_attention_heads 5 does not divide by num_key_value_heads 2"),
        ({"num_attention_heads": 6}, "hidden_size 64 does not divide by num_attention_heads 6"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 does not divide by num_key_value_heads 3"),
        ({"num_hidden_layers": 10**9}, "more layers than any model has"),
        ({"vocab_size": 10**30}, "larger than any model's"),
        ({"vocab_size": None}, "does not state vocab_size"),
        ({"model_type": ""}, "does not state model_type"),
        ({"model_type": None}, "does not state model_type"),
    ],
)
def test_impossible_dimensions_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        read(**changes)
    assert message in str(caught.value)


def test_a_missing_dimension_is_never_taken_from_the_class_at_the_top() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "intermediate_size"}
    with pytest.raises(UnknownArchitecture, match="intermediate_size"):
        architecture_from_config(config)


def test_inside_text_config_the_class_defaults_count() -> None:
    """Published Gemma 3 configs leave out what equals Gemma3TextConfig's default: 8 heads, 4 for keys and values, of 256."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
            "num_attention_heads": 16, "image_size": 896, "patch_size": 14, "vision_use_head": False,
        },
    }  # fmt: skip
    made = architecture_from_config(config)
    assert made.total_parameters == 4_300_079_472
    assert made.vocab_size == 262_208
    assert made.config["num_hidden_layers"] == 34


def test_null_is_not_absent() -> None:
    """transformers derives what is null; the class default does not count (Mistral 7B v0.3: sliding_window null)."""
    mistral = {**LLAMA, "model_type": "mistral"}
    assert architecture_from_config(mistral).layers[0].window == 4096
    assert architecture_from_config({**mistral, "sliding_window": None}).layers[0].window is None
    lite = of("deepseek-ai/DeepSeek-V2-Lite")
    assert lite.mla is not None and lite.mla.q_lora_rank is None
    assert not shapes(lite, "q_a_proj")


@pytest.mark.parametrize(
    ("name", "full", "windowed", "window"),
    [
        ("google/gemma-2-9b", 21, 21, 4096),
        ("google/gemma-3-27b-pt", 10, 52, 1024),
        ("openai/gpt-oss-20b", 12, 12, 128),
        ("CohereLabs/c4ai-command-a-03-2025", 16, 48, 4096),
        ("Qwen/Qwen2.5-7B", 28, 0, None),
        ("meta-llama/Llama-4-Scout-17B-16E", 12, 36, 8192),
        ("answerdotai/ModernBERT-base", 8, 14, 128),
    ],
)
def test_windows(name: str, full: int, windowed: int, window: int | None) -> None:
    layers = of(name).layers
    assert sum(layer.window is None for layer in layers) == full
    assert {layer.window for layer in layers if layer.window} == ({window} if window else set())
    assert sum(layer.window is not None for layer in layers) == windowed


def test_latent_attention_caches_its_latent() -> None:
    made = of("deepseek-ai/DeepSeek-V3")
    assert {layer.kv_cache_elements for layer in made.layers} == {576}
    assert made.moe is not None
    assert (made.moe.num_experts, made.moe.top_k, made.moe.shared_intermediate_size) == (256, 8, 2048)
    assert [layer.feed_forward for layer in made.layers[:4]] == ["dense", "dense", "dense", "moe"]
    assert {layer.index_elements for layer in of("deepseek-ai/DeepSeek-V3.2").layers} == {128}


def test_compressed_attention_of_deepseek_v4() -> None:
    layers = of("deepseek-ai/DeepSeek-V4-Flash").layers
    assert {(layer.mixer, layer.kv_compression) for layer in layers} == {
        ("sliding_attention", 1), ("full_attention", 4), ("full_attention", 128),
    }  # fmt: skip
    assert {layer.kv_cache_elements for layer in layers} == {512}


def test_layers_that_reuse_a_cache_hold_none() -> None:
    layers = of("google/gemma-3n-E4B").layers
    assert [layer.kv_cache_elements > 0 for layer in layers] == [True] * 20 + [False] * 15


@pytest.mark.parametrize(
    ("name", "recurrent", "attending", "state"),
    [
        ("state-spaces/mamba-130m-hf", 24, 0, 1536 * 16),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 36, 12, 32 * 128 * 128),
        ("tiiuae/Falcon-H1-0.5B-Base", 36, 36, 24 * 64 * 128),
        ("ai21labs/Jamba-v0.1", 28, 4, 8192 * 16),
        ("ibm-granite/granite-4.0-h-tiny", 36, 4, 48 * 64 * 128),
        ("nvidia/Nemotron-H-56B-Base-8K", 54, 10, 256 * 64 * 256),
    ],
)
def test_recurrent_layers(name: str, recurrent: int, attending: int, state: int) -> None:
    made = of(name)
    assert sum(layer.recurrent for layer in made.layers) == recurrent
    assert sum(layer.kv_cache_elements > 0 for layer in made.layers) == attending
    assert made.ssm is not None and made.ssm.recurrent_state_elements == state


def test_encoder_decoder_stacks() -> None:
    turbo = of("openai/whisper-large-v3-turbo")
    assert (len(turbo.encoder_layers), len(turbo.layers)) == (32, 4)
    assert all(layer.cross_attention for layer in turbo.layers)
    t5 = of("google/flan-t5-xl")
    assert {tensor.module for tensor in t5.tensors if tensor.role == "lm_head"} == {"lm_head"}
    assert of("google-t5/t5-3b").tie_word_embeddings


def test_vision_tensors_are_apart_from_the_text() -> None:
    made = of("Qwen/Qwen2.5-VL-7B-Instruct")
    by_role: dict[str, int] = {}
    for tensor in made.tensors:
        by_role[tensor.role] = by_role.get(tensor.role, 0) + tensor.parameters
    assert sum(by_role.values()) - by_role["vision"] - by_role["projector"] == 7_615_616_512  # Qwen2.5-7B
    cross = of("meta-llama/Llama-3.2-11B-Vision").layers
    assert [layer.index for layer in cross if layer.cross_attention] == [3, 8, 13, 18, 23, 28, 33, 38]


def test_older_vision_configs_keep_the_text_at_the_top() -> None:
    model = find_model("Qwen/Qwen2-VL-7B-Instruct")
    assert model is not None
    config = json.loads(json.dumps(model.config))
    text = {key: value for key, value in config.pop("text_config").items() if key != "model_type"}
    flat = architecture_from_config(
        {**text, **config, "vision_config": {**config["vision_config"], "model_type": "qwen2_vl"}}
    )
    assert flat.total_parameters == model.params_total


def test_an_unknown_tower_leaves_the_text_part_and_no_total() -> None:
    config = {
        "model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA,
        "vision_config": {"model_type": "some_tower"},
    }  # fmt: skip
    made = architecture_from_config(config)
    assert made.total_parameters is None and not made.exact
    assert "some_tower" in made.missing
    assert shapes(made, "k_proj") == {(32, 64)}
    unstated = architecture_from_config({key: value for key, value in config.items() if key != "vision_config"})
    assert unstated.missing == "the vision part, which the config does not state"


def test_an_unknown_family_around_a_known_text_model() -> None:
    made = architecture_from_config({"model_type": "new_vl", "text_config": LLAMA})
    assert made.missing == "all parts but the language model"
    assert made.hidden_size == 64 and shapes(made, "k_proj") == {(32, 64)}


def test_an_unknown_family_gives_its_dimensions_and_no_count() -> None:
    config = {
        **LLAMA,
        "model_type": "brand_new",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }
    made = architecture_from_config(config)
    assert (made.hidden_size, made.num_hidden_layers, made.num_key_value_heads) == (64, 2, 2)
    assert made.tensors == () and made.total_parameters is None and not made.exact
    assert made.moe is not None and made.moe.top_k == 2
    with pytest.raises(UnknownArchitecture, match="does not state hidden_size"):
        architecture_from_config({"model_type": "brand_new"})


def test_layer_types_must_fit() -> None:
    base = {**LLAMA, "model_type": "gemma2", "head_dim": 16}
    with pytest.raises(UnknownArchitecture, match="layer_types names 1 layers, num_hidden_layers is 2"):
        architecture_from_config({**base, "layer_types": ["full_attention"]})
    with pytest.raises(UnknownArchitecture, match="'magic'"):
        architecture_from_config({**base, "layer_types": ["magic", "full_attention"]})


def test_experts_are_single_matrices() -> None:
    made = of("mistralai/Mixtral-8x7B-v0.1")
    experts = [tensor for tensor in made.tensors if tensor.role == "expert"]
    assert {(tensor.module, tensor.shape, tensor.count, tensor.linear) for tensor in experts} == {
        ("gate_proj", (14336, 4096), 8, False),
        ("up_proj", (14336, 4096), 8, False),
        ("down_proj", (4096, 14336), 8, False),
    }
    assert all(tensor.linear_before_5 for tensor in experts)
    with pytest.raises(UnknownArchitecture, match="more than the 4 experts"):
        architecture_from_config({**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 8})


def test_dtype_and_quantization_are_found_where_configs_keep_them() -> None:
    assert read(torch_dtype="torch.bfloat16").native_dtype == "bfloat16"
    assert read(dtype="float16").native_dtype == "float16"
    nested = {"model_type": "llava", "text_config": {**LLAMA, "torch_dtype": "bfloat16"}}
    assert architecture_from_config(nested).native_dtype == "bfloat16"
    quantized = read(quantization_config={"quant_method": "gptq", "bits": 4}).quantization
    assert quantized == {"quant_method": "gptq", "bits": 4}


ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2.5,
    "x",
    True,
    [],
    [1],
    [None],
    [{}],
    {},
    10**30,
    float("nan"),
    {"model_type": "llama"},
)
ONE_OF_EACH = {model.model_type: dict(model.config) for model in models()}


@pytest.mark.parametrize("model_type", sorted(ONE_OF_EACH))
def test_odd_values_never_get_past_the_named_error(model_type: str) -> None:
    config = ONE_OF_EACH[model_type]
    keys = [*config, "layer_types", "mlp_layer_types", "head_dim", "sliding_window", "text_config", "vision_config"]
    refused = 0
    for number, key in enumerate(keys):
        for value in ODD[number % 3 :: 3]:
            changed = copy.copy(config)
            changed[key] = value
            try:
                architecture_from_config(changed)
            except UnknownArchitecture as error:
                refused += 1
                assert str(error)
    assert refused > 0


def test_blocks_that_differ_from_each_other() -> None:
    """Nemotron-NAS: a block may attend with another grouping, have a narrower MLP, or lack either."""
    blocks = [
        {"attention": {"n_heads_in_group": 2, "no_op": False}, "ffn": {"ffn_mult": 6.0, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 3.0, "no_op": False}},
    ]
    made = read(model_type="nemotron-nas", block_configs=blocks)
    assert [(layer.mixer, layer.intermediate_size) for layer in made.layers] == [("full_attention", 256), ("none", 256)]
    assert [layer.kv_cache_elements for layer in made.layers] == [2 * 2 * 16, 0]
    attention, mlp = 64 * 64 + 2 * 32 * 64 + 64 * 64, 3 * 64 * 256
    assert made.total_parameters == 2 * 6400 + attention + 64 + 2 * (mlp + 64) + 64
    with pytest.raises(UnknownArchitecture, match="block_configs does not describe"):
        read(model_type="nemotron-nas")
    with pytest.raises(UnknownArchitecture, match="ffn_mult is 'x'"):
        read(model_type="nemotron-nas", block_configs=[{"attention": {"no_op": True}, "ffn": {"ffn_mult": "x"}}] * 2)
