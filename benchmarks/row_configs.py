"""Turn a row of ``../shared/catalog/models.json`` into the ``config.json`` it was counted from, spelled as its family spells it.

The rows state dimensions in standard names. What a config says beyond them (switches such as ``attention_bias``) follows from
the family's defaults; where a checkpoint differs from these, ``row_configs.json`` names the difference and its source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cfglint.catalog.architecture import architecture_from_config

DEFAULTS = json.loads(
    (Path(__file__).resolve().parents[1] / "cfglint/catalog/data/config_defaults.json").read_text("utf-8")
)["classes"]

Row = Mapping[str, Any]
Config = dict[str, Any]

ENTRIES: dict[str, dict[str, Any]] = {
    name: entry
    for entry in json.loads(Path(__file__).with_name("row_configs.json").read_text("utf-8"))
    for name in entry["ids"]
}
"""What rows lack or state otherwise than their class, each with its source: ``config`` goes over the row's own keys, or with
``whole`` stands in their place; ``besides`` lists what the published files hold beyond the model as ``[what, shape, how often]``
(negative: what they hold less, as packed weights); ``no_count`` says what a published figure is that counts no parameters.
"""


def switched(row: Row, config: Config) -> Config:
    """With what ``row_configs.json`` says of the row."""
    entry = ENTRIES.get(row["id"], {})
    stated = entry.get("config", {})
    return {"model_type": config["model_type"], **stated} if entry.get("whole") else {**config, **stated}


def besides(row: Row, config: Config) -> int:
    """Elements of the published files that are no parameters of the model: draft layers, buffers, scales.

    ``{"layer": n}`` in place of a shape stands for all of decoder layer n, which a draft layer repeats.
    """
    listed = ENTRIES.get(row["id"], {}).get("besides", ())
    return sum((layer_of(config, shape["layer"]) if isinstance(shape, dict) else math.prod(shape)) * count
               for _, shape, count in listed)  # fmt: skip


def no_count(row: Row) -> str:
    """What the row's published figure is where it is no count of the model's parameters; else empty."""
    return str(ENTRIES.get(row["id"], {}).get("no_count", ""))


def layer_of(config: Config, index: int) -> int:
    tensors = architecture_from_config(config).tensors
    return sum(
        tensor.elements * tensor.count for tensor in tensors if tensor.stack == "decoder" and index in tensor.layers
    )


GATED_T5 = ("flan-t5", "flan-ul2", "t5-v1_1", "mt5", "umt5", "byt5", "ul2")


def config_of(row: Row) -> Config:
    """The config of a row. Rows that lack what their family needs ("published" ones) keep their dimensions alone."""
    try:
        return _config_of(row, SHAPES)
    except KeyError:
        if row["params_source"] == "computed":
            raise
        return _config_of(row, {})


def _config_of(row: Row, shapes: Mapping[str, Any]) -> Config:
    model_type = str(row["model_type"])
    config: Config = {"model_type": model_type}
    if row["architecture"]:
        config["architectures"] = [row["architecture"]]
    text = dimensions(row)
    shape = shapes.get(model_type)
    if row.get("vision") and model_type in TEXT_TYPES:
        config.update(with_vision(row, text))
    else:
        if shape is not None:
            text = shape(row, text)
        elif row.get("moe"):
            text = moe("num_experts")(row, text)
        if shape is None and row.get("mla"):
            text.update(
                {key: value for key, value in row["mla"].items() if key != "kv_cache_elems_per_token_per_layer"}
            )
        config.update(spelled(model_type, text))
    config = switched(row, config)
    dtype = row["native_dtype"]
    if dtype:
        config["dtype"] = dtype.split(" ")[0]
    if row.get("quantization"):
        config["quantization_config"] = row["quantization"]
    elif dtype and "MXFP4" in dtype:
        config["quantization_config"] = {"quant_method": "mxfp4"}
    return config


POSITIONS = {
    "mistral-community/pixtral-12b": 1_024_000,
    "llava-hf/llava-v1.6-34b-hf": 4096,
    "llava-hf/llava-v1.6-vicuna-13b-hf": 4096,
    "llava-hf/llava-v1.6-vicuna-7b-hf": 4096,
}
"""Positions of text parts whose rows state none, or a class default: the checkpoints' config.json (Pixtral's own text part;
Nous-Hermes-2-Yi-34B; Vicuna 1.5)."""


def dimensions(row: Row) -> Config:
    keys = (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
        "vocab_size", "max_position_embeddings", "tie_word_embeddings",
    )  # fmt: skip
    text = {key: row[key] for key in keys if row.get(key) is not None}
    heads = row.get("num_attention_heads")
    if heads and row.get("head_dim") and row.get("hidden_size") == heads * row["head_dim"]:
        del text["head_dim"]  # what the class derives by itself
    text["sliding_window"] = row["sliding_window"]
    if row["id"] in POSITIONS:
        text["max_position_embeddings"] = POSITIONS[row["id"]]
    return text


def spelled(model_type: str, text: Config) -> Config:
    """Keys as the family's config class names them."""
    names = DEFAULTS.get(model_type, {}).get("names", {})
    own = DEFAULTS.get(model_type, {}).get("defaults", {})
    result = {}
    for key, value in text.items():
        if key == "sliding_window" and value is None and "sliding_window" not in own:
            continue
        result[names.get(key, key)] = value
    return result


def drop(text: Config, *keys: str) -> Config:
    return {key: value for key, value in text.items() if key not in keys}


def rename(text: Config, **names: str) -> Config:
    return {names.get(key, key): value for key, value in text.items()}


def no_groups(row: Row, text: Config) -> Config:
    """Multi-head attention without a setting for key-value heads."""
    return drop(text, "num_key_value_heads", "head_dim")


def inner(row: Row, text: Config) -> Config:
    return rename(no_groups(row, text), intermediate_size="n_inner")


def bigcode(row: Row, text: Config) -> Config:
    return {**inner(row, text), "multi_query": row["num_key_value_heads"] == 1}


def opt(row: Row, text: Config) -> Config:
    return {**rename(no_groups(row, text), intermediate_size="ffn_dim"), "word_embed_proj_dim": row["hidden_size"]}


def bloom(row: Row, text: Config) -> Config:
    return drop(no_groups(row, text), "intermediate_size", "max_position_embeddings")


def mpt(row: Row, text: Config) -> Config:
    return drop(no_groups(row, text), "intermediate_size")


def falcon(row: Row, text: Config) -> Config:
    groups, heads = row["num_key_value_heads"], row["num_attention_heads"]
    newer = 1 < groups < heads
    return {
        **rename(no_groups(row, text), intermediate_size="ffn_hidden_size"),
        "new_decoder_architecture": newer,
        "multi_query": groups == 1,
        **({"num_kv_heads": groups} if newer else {}),
    }


def qwen1(row: Row, text: Config) -> Config:
    return {
        **no_groups(row, text),
        "intermediate_size": 2 * row["intermediate_size"],
        "no_bias": True,
        "tie_word_embeddings": False,
    }  # the row says true, its total counts the head


def t5(row: Row, text: Config) -> Config:
    sides = row["encoder_decoder"]
    gated = row["id"].split("/")[-1].startswith(GATED_T5)
    return {
        "d_model": row["hidden_size"],
        "d_kv": row["head_dim"],
        "d_ff": row["intermediate_size"],
        "num_heads": row["num_attention_heads"],
        "num_layers": sides["encoder_layers"],
        "num_decoder_layers": sides["decoder_layers"],
        "vocab_size": row["vocab_size"],
        "tie_word_embeddings": row["tie_word_embeddings"],
        "feed_forward_proj": "gated-gelu" if gated else "relu",
    }


def bart(row: Row, text: Config) -> Config:
    sides = row["encoder_decoder"]
    config = {
        "d_model": row["hidden_size"],
        "vocab_size": row["vocab_size"],
        **{key: value for side in ("encoder", "decoder") for key, value in (
            (f"{side}_layers", sides[f"{side}_layers"]),
            (f"{side}_attention_heads", row["num_attention_heads"]),
            (f"{side}_ffn_dim", row["intermediate_size"]),
        )},
    }  # fmt: skip
    if row["model_type"] == "whisper":
        large_v3 = "large-v3" in row["id"]
        return {
            **config,
            "num_mel_bins": 128 if large_v3 else 80,
            "max_target_positions": row["max_position_embeddings"],
        }
    return {**config, "max_position_embeddings": row["max_position_embeddings"]}


def distilbert(row: Row, text: Config) -> Config:
    return {**rename(no_groups(row, text), intermediate_size="hidden_dim")}


def electra(row: Row, text: Config) -> Config:
    return {**no_groups(row, text), "embedding_size": row["params_embedding"] // row["vocab_size"]}


def deberta(row: Row, text: Config) -> Config:
    """DeBERTa-v3's settings (its config.json)."""
    return {
        **no_groups(row, text), "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
        "position_biased_input": False, "type_vocab_size": 0,
    }  # fmt: skip


def one_label(row: Row, text: Config) -> Config:
    text = no_groups(row, text)
    text["type_vocab_size"] = 1
    if str(row["architecture"]).endswith("ForSequenceClassification"):
        text["num_labels"] = 1
    return text


def moe(experts: str, top_k: str = "num_experts_per_tok", width: str = "moe_intermediate_size") -> Any:
    def shape(row: Row, text: Config) -> Config:
        facts = row.get("moe") or {}
        if not facts:
            return text
        result = {**text, experts: facts["num_experts"], top_k: facts["top_k"], width: facts["moe_intermediate_size"]}
        if "shared_expert_intermediate_size" in facts:
            result["shared_expert_intermediate_size"] = facts["shared_expert_intermediate_size"]
        return result

    return shape


def deepseek(row: Row, text: Config) -> Config:
    facts, latent = row.get("moe") or {}, row.get("mla") or {}
    result = drop(text, "head_dim") if latent else dict(text)
    if facts:
        result.update(
            n_routed_experts=facts["num_experts"],
            num_experts_per_tok=facts["top_k"],
            moe_intermediate_size=facts["moe_intermediate_size"],
            n_shared_experts=facts.get("shared_experts", 0),
            first_k_dense_replace=facts.get("first_k_dense", 0),
        )
    result.update({key: value for key, value in latent.items() if key != "kv_cache_elems_per_token_per_layer"})
    return result


def deepseek_v4(row: Row, text: Config) -> Config:
    """``expert_dtype`` as the checkpoints' config.json states it (copies in aiconfigurator's model_configs)."""
    if row.get("quantization"):
        text = {**text, "expert_dtype": "fp4"}
    result = {**drop(deepseek(row, text), "first_k_dense_replace", "intermediate_size"), "head_dim": row["head_dim"]}
    layers, pattern = row.get("num_hidden_layers"), row.get("layer_pattern")
    if pattern:
        light, heavy = "compressed_sparse_attention", "heavily_compressed_attention"
        if pattern["minority_type"] == "sliding_attention":
            first = len(pattern["minority_layers"])
            kinds = ["sliding_attention"] * first + [
                light if i % 2 == first % 2 else heavy for i in range(first, layers)
            ]
        else:
            chosen = set(pattern["minority_layers"])
            kinds = [pattern["minority_type"] if i in chosen else heavy for i in range(layers)]
        result["layer_types"] = kinds
    return {**result, **DEEPSEEK_V4_SIZES.get(row["hidden_size"], {})}


DEEPSEEK_V4_SIZES: dict[int, Config] = {
    # q_lora_rank and o_groups of the larger model, found from the row's exact total (README.md: solved from the count)
    7168: {"q_lora_rank": 1536, "o_groups": 16, "o_lora_rank": 1024},
}


def glm_dsa(row: Row, text: Config) -> Config:
    result = deepseek(row, text)
    if "5.2" in row["id"]:  # 57 of the 78 indexers are shared: total minus GLM-5's is 57 indexers exactly
        result["index_topk_freq"] = 4
    return result


def ernie(row: Row, text: Config) -> Config:
    facts = row.get("moe") or {}
    if not facts:
        return text
    return {
        **text, "moe_num_experts": facts["num_experts"], "moe_k": facts["top_k"],
        "moe_intermediate_size": facts["moe_intermediate_size"],
        "moe_num_shared_experts": facts.get("shared_experts", 0),
    }  # fmt: skip


def dbrx(row: Row, text: Config) -> Config:
    facts = row["moe"]
    return {
        **drop(text, "num_key_value_heads", "intermediate_size"),
        "attn_config": {"kv_n_heads": row["num_key_value_heads"]},
        "ffn_config": {
            "ffn_hidden_size": facts["moe_intermediate_size"],
            "moe_num_experts": facts["num_experts"],
            "moe_top_k": facts["top_k"],
        },
    }


def llama4_text(row: Row, text: Config) -> Config:
    facts = row["moe"]
    return {
        **text,
        "num_local_experts": facts["num_experts"],
        "num_experts_per_tok": facts["top_k"],
        "intermediate_size": facts["moe_intermediate_size"],
        "intermediate_size_mlp": facts["dense_intermediate_size"],
        "interleave_moe_layer_step": facts["interleave_moe_layer_step"],
        "attention_chunk_size": row.get("attention_chunk_size"),
    }


def mimo_flash(row: Row, text: Config) -> Config:
    result = moe("n_routed_experts")(row, text)
    return {**result, "head_dim": row["head_dim"], **kinds_of(row)}


def kinds_of(row: Row, key: str = "layer_types", names: Mapping[str, str] | None = None) -> Config:
    """The layer list from the row's pattern: a repeated cycle, or the few that differ from one other kind."""
    pattern, count = row.get("layer_pattern"), row.get("num_hidden_layers")
    if not pattern or not count:
        return {}
    if "cycle" in pattern:
        cycle = pattern["cycle"]
        kinds = [cycle[index % len(cycle)] for index in range(count)]
    elif len(pattern["other_types"]) == 1:
        chosen = set(pattern["minority_layers"])
        kinds = [pattern["minority_type"] if i in chosen else pattern["other_types"][0] for i in range(count)]
    else:
        return {}
    return {key: [(names or {}).get(kind, kind) for kind in kinds]}


def mamba(row: Row, text: Config) -> Config:
    facts = row["ssm"]
    result = drop(text, "intermediate_size")
    keys = (
        "state_size",
        "conv_kernel",
        "expand",
        "time_step_rank",
        "num_heads",
        "head_dim",
        "n_groups",
        "intermediate_size",
    )
    return {**result, **{key: facts[key] for key in keys if facts.get(key) is not None}}


def jamba(row: Row, text: Config) -> Config:
    facts, experts = row.get("ssm"), row.get("moe")
    if not facts:
        return text
    result = {
        **text, "mamba_d_state": facts["d_state"], "mamba_d_conv": facts["d_conv"], "mamba_expand": facts["expand"],
        "mamba_dt_rank": facts["dt_rank"], "attn_layer_period": facts["attn_layer_period"],
        "attn_layer_offset": facts["attn_layer_offset"],
    }  # fmt: skip
    if experts:
        result.update(
            num_experts=experts["num_experts"], num_experts_per_tok=experts["top_k"],
            expert_layer_period=experts["expert_layer_period"], expert_layer_offset=experts["expert_layer_offset"],
        )  # fmt: skip
    return result


def falcon_h1(row: Row, text: Config) -> Config:
    facts = row["ssm"]
    return {
        **text, "mamba_d_state": facts["d_state"], "mamba_d_conv": facts["d_conv"], "mamba_n_heads": facts["n_heads"],
        "mamba_d_head": facts["d_head"], "mamba_n_groups": facts["n_groups"], "mamba_d_ssm": facts["d_ssm"],
        "mamba_expand": facts.get("expand") or 2, **FALCON_H1_NORM.get(row["hidden_size"], {}),
    }  # fmt: skip


FALCON_H1_NORM: dict[int, Config] = {size: {"mamba_rms_norm": True} for size in (2048, 2560, 3072, 5120)}
"""``mamba_rms_norm`` by hidden size, found from the exact totals (README.md)."""


def nemotron_h(row: Row, text: Config) -> Config:
    facts, experts = row.get("ssm"), row.get("moe")
    if not facts:
        return text
    keys = ("ssm_state_size", "mamba_num_heads", "mamba_head_dim", "n_groups", "conv_kernel", "hybrid_override_pattern")
    result = {**text, **{key: facts[key] for key in keys if facts.get(key) is not None}}
    if row.get("head_dim"):
        result["head_dim"] = row["head_dim"]
    if experts:
        result.update(
            n_routed_experts=experts["num_experts"], num_experts_per_tok=experts["top_k"],
            moe_intermediate_size=experts["moe_intermediate_size"], n_shared_experts=experts.get("shared_experts", 1),
            **NEMOTRON_EXPERTS.get(row["hidden_size"], {}),
        )  # fmt: skip
    return result


NEMOTRON_EXPERTS: dict[int, Config] = {
    2688: {"moe_shared_expert_intermediate_size": 3712},
    4096: {"moe_shared_expert_intermediate_size": 5376, "moe_latent_size": 1024},
    8192: {"moe_shared_expert_intermediate_size": 10240, "moe_latent_size": 2048},
}
"""Sizes that the rows lack, by hidden size; they meet the exact totals."""


def granite_hybrid(row: Row, text: Config) -> Config:
    facts, experts = row["ssm"], row.get("moe")
    names = {"linear_attention": "mamba", "full_attention": "attention"}
    return {
        **text, "mamba_d_state": facts["d_state"], "mamba_d_conv": facts["d_conv"], "mamba_n_heads": facts["n_heads"],
        "mamba_d_head": facts["d_head"], "mamba_n_groups": facts["n_groups"],
        **(kinds_of(row, names=names) or {"layer_types": ["attention"] * row["num_hidden_layers"]}),
        "num_local_experts": experts["num_experts"] if experts else 0,
        "num_experts_per_tok": experts["top_k"] if experts else 0,
        "shared_intermediate_size": experts["shared_expert_intermediate_size"] if experts else row["intermediate_size"],
    }  # fmt: skip


def lfm2(row: Row, text: Config) -> Config:
    facts = row.get("ssm") or {}
    return {**text, **({"conv_L_cache": facts["conv_L_cache"]} if facts else {}), **kinds_of(row)}


def delta(row: Row, text: Config) -> Config:
    facts = row.get("ssm") or {}
    result = moe("num_experts")(row, text)
    result.update({key: value for key, value in facts.items() if key.startswith("linear_")})
    if row.get("head_dim"):
        result["head_dim"] = row["head_dim"]
    return {**result, **kinds_of(row)}


def minimax(row: Row, text: Config) -> Config:
    return {**moe("num_local_experts", width="intermediate_size")(row, text), **kinds_of(row)}


def minimax_m3(row: Row, text: Config) -> Config:
    result = moe("num_local_experts", width="intermediate_size")(row, text)
    result.pop("shared_expert_intermediate_size", None)
    count, chosen = row["num_hidden_layers"], set((row.get("layer_pattern") or {}).get("minority_layers", ()))
    return {
        **result,
        "shared_intermediate_size": row["moe"]["shared_expert_intermediate_size"],
        "layer_types": ["full_attention" if index in chosen else "minimax_m3_sparse" for index in range(count)],
        "mlp_layer_types": ["dense" if index in chosen else "sparse" for index in range(count)],
    }


def gemma3n(row: Row, text: Config) -> Config:
    return {**text, "head_dim": row["head_dim"], **kinds_of(row)}


def gemma4(row: Row, text: Config) -> Config:
    facts = row.get("moe")
    result = {**drop(text, "head_dim"), "hidden_size_per_layer_input": 0, **kinds_of(row)}
    if facts:
        result.update(
            enable_moe_block=True, num_experts=facts["num_experts"], top_k_experts=facts["top_k"],
            moe_intermediate_size=facts["moe_intermediate_size"],
        )  # fmt: skip
    return {**result, **GEMMA4_SIZES.get(row["hidden_size"], {})}


GEMMA4_SIZES: dict[int, Config] = {
    1536: {
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 256,
    },
    2560: {
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 7,
        "num_kv_shared_layers": 18,
        "hidden_size_per_layer_input": 256,
    },
    2816: {
        "num_key_value_heads": 8,
        "num_global_key_value_heads": 2,
        "attention_k_eq_v": True,
        "intermediate_size": 2112,
        "max_position_embeddings": 262_144,
    },
    5376: {
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "attention_k_eq_v": True,
        "max_position_embeddings": 262_144,
    },
}
"""What the rows lack: key-value heads of the larger two (they state the query heads), which meet the exact totals; the layers
of E2B and E4B that share others' cache, and their per-layer embeddings, which leave of the published totals what the encoders
have (0.49 and 0.53 billion)."""


def head_width(row: Row, text: Config) -> Config:
    """Families whose class has a head size of its own: it must be stated even where it is hidden over heads."""
    return {**text, "head_dim": row["head_dim"]} if row.get("head_dim") else text


def patterned(row: Row, text: Config) -> Config:
    return {**head_width(row, text), **kinds_of(row)}


def then(*shapes: Callable[[Row, Config], Config]) -> Callable[[Row, Config], Config]:
    def shape(row: Row, text: Config) -> Config:
        for one in shapes:
            text = one(row, text)
        return text

    return shape


SHAPES: dict[str, Callable[[Row, Config], Config]] = {
    **dict.fromkeys(["gpt_neox", "gpt_neo", "bert", "modernbert"], no_groups),
    **dict.fromkeys(["gpt2", "gptj"], inner),
    **dict.fromkeys(["roberta", "xlm-roberta"], one_label),
    **dict.fromkeys(["t5", "mt5", "umt5"], t5),
    **dict.fromkeys(["bart", "whisper"], bart),
    **dict.fromkeys(["mamba", "falcon_mamba", "mamba2"], mamba),
    **dict.fromkeys(["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"], deepseek),
    **dict.fromkeys(["glm4_moe", "dots1"], then(deepseek, head_width)),
    **dict.fromkeys(["gemma", "gemma2", "gemma3_text", "qwen3", "seed_oss", "helium", "glm", "glm4", "exaone4"], head_width),
    **dict.fromkeys(["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"], delta),
    **dict.fromkeys(["mixtral", "phimoe", "granitemoe", "minimax_m2", "gpt_oss"],
                    then(moe("num_local_experts", width="intermediate_size"), head_width)),
    "gpt_bigcode": bigcode,
    "opt": opt,
    "bloom": bloom,
    "mpt": mpt,
    "falcon": falcon,
    "qwen": qwen1,
    "distilbert": distilbert,
    "electra": electra,
    "albert": electra,
    "deberta-v2": deberta,
    "olmoe": moe("num_experts", width="intermediate_size"),
    "qwen2_moe": moe("num_experts"),
    "bailing_moe": then(moe("num_experts"), head_width),
    "llada2_moe": then(moe("num_experts"), head_width),
    "deepseek": moe("n_routed_experts"),
    "afmoe": then(moe("num_experts"), head_width),
    "hy_v3": then(moe("num_experts"), head_width),
    "solar_open": moe("n_routed_experts"),
    "flex_olmo": moe("num_experts", width="intermediate_size"),
    "grinmoe": then(moe("num_local_experts", width="intermediate_size"), head_width),
    "qwen3_moe": then(moe("num_experts"), head_width),
    "qwen3_vl_moe": then(moe("num_experts"), head_width),
    "qwen3_vl": head_width,
    "hunyuan_v1_moe": then(moe("num_experts", "moe_topk", "moe_intermediate_size"), head_width),
    "ernie4_5_moe": ernie,
    "dbrx": dbrx,
    "llama4": llama4_text,
    "deepseek_v4": deepseek_v4,
    "glm_moe_dsa": glm_dsa,
    "mimo_v2_flash": mimo_flash,
    "jamba": jamba,
    "falcon_h1": falcon_h1,
    "nemotron_h": nemotron_h,
    "granitemoehybrid": granite_hybrid,
    "lfm2": lfm2,
    "lfm2_moe": then(moe("num_experts"), lfm2),
    "minimax": minimax,
    "minimax_m3_vl": minimax_m3,
    "gemma3n_text": gemma3n,
    "gemma4": gemma4,
    "gemma3": head_width,
    "cohere2": patterned,
    "olmo3": patterned,
    "internvl": lambda row, text: then(moe("num_experts"), head_width)(row, text) if row.get("moe") else text,
}  # fmt: skip

TEXT_TYPES: dict[str, str | Callable[[Row], str]] = {
    "llava": lambda row: "mistral" if "pixtral" in row["id"] else "llama",
    "llava_next": lambda row: "mistral" if "mistral" in row["id"] else "llama",
    "llava_onevision": "qwen2",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "paligemma": lambda row: "gemma2" if "paligemma2" in row["id"] else "gemma",
    "idefics3": "llama",
    "internvl": lambda row: internvl_text(row),
    "mistral3": "mistral",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "glm4v": "glm4v_text",
    "mllama": "mllama_text_model",
    "llama4": "llama4_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
}


def internvl_text(row: Row) -> str:
    if row.get("moe"):
        return "qwen3_moe"
    return "qwen3" if "3_5" in row["id"] else "qwen2"


VISION_EXTRA: dict[str, Config] = {
    "gemma3": {"vision_use_head": False},
    "paligemma": {"vision_use_head": False},
    "llava_onevision": {"vision_use_head": False},
    "qwen3_vl": {"deepstack_visual_indexes": [5, 11, 17]},
}


def with_vision(row: Row, text: Config) -> Config:
    model_type = row["model_type"]
    text_type = TEXT_TYPES[model_type]
    named = text_type if isinstance(text_type, str) else text_type(row)
    shape = SHAPES.get(model_type) or SHAPES.get(named)
    if shape is not None:
        text = shape(row, text)
    inner_text = spelled(named, drop(text, "tie_word_embeddings"))
    vision = {**row["vision"], **VISION_EXTRA.get(model_type, {})}
    if model_type == "internvl" and vision["hidden_size"] == 3200:
        vision.update(use_qk_norm=True, norm_type="rms_norm", attention_bias=False)
    elif model_type == "internvl":
        vision["attention_bias"] = True
    if model_type == "mllama":
        inner_text["cross_attention_layers"] = MLLAMA_CROSS[row["num_hidden_layers"]]
    outer: Config = {"tie_word_embeddings": row["tie_word_embeddings"]}
    if model_type == "idefics3":
        outer["scale_factor"] = 4 if row["hidden_size"] < 2048 else 3
    if model_type == "gemma3":
        # global layers of the vision-language models (Gemma 3 report, section 2: positions interpolated by 8); tables of
        # 512 MiB in logs of the 4B model
        inner_text["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    if model_type in ("mistral3",):
        outer.update(multimodal_projector_bias=False, spatial_merge_size=2)
    return {**outer, "text_config": {"model_type": named, **inner_text}, "vision_config": vision}


MLLAMA_CROSS = {40: [3 + 5 * i for i in range(8)], 100: [3 + 5 * i for i in range(20)]}
"""Llama 3.2 Vision's cross-attention layers (its config.json)."""
