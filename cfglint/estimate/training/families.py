"""How each model family's block computes: norms, projections, rotary, activation. Data, read off transformers 5.24.

Only what changes which tensors exist is here; sizes come from the architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from cfglint.catalog.architecture import Architecture

SLOTS: Final[Mapping[str, tuple[str, ...]]] = {
    "q": ("q_proj", "q", "query", "wq", "q_b_proj", "q_a_proj", "query_proj", "linear_q"),
    "k": ("k_proj", "k", "key", "wk", "key_proj"),
    "v": ("v_proj", "v", "value", "wv", "value_proj"),
    "qkv": (
        "qkv_proj",
        "c_attn",
        "query_key_value",
        "Wqkv",
        "attn.qkv",
        "qkv",
        "wqkv",
        "W_pack",
        "in_proj",
        "att_proj",
        "linear_qkv",
        "kv_a_proj_with_mqa",
        "kv_b_proj",
    ),
    "o": ("o_proj", "o", "out_proj", "output_proj", "wo", "dense", "projection", "attn_out", "linear_proj"),
    "gate": ("gate_proj", "wi_0", "w1", "fc_1", "gate"),
    "up": ("up_proj", "wi_1", "wi", "w3", "fc_2", "fc1", "c_fc", "dense_h_to_4h", "fc_in", "intermediate", "w2_up"),
    "gate_up": ("gate_up_proj", "Wi", "linear_fc1"),
    "down": ("down_proj", "w2", "fc2", "dense_4h_to_h", "fc_out", "linear_fc2", "ff_out"),
    "head": ("lm_head", "output", "embed_out"),
    "embed": ("embed_tokens", "wte", "embed_in", "shared", "word_embeddings", "tok_embeddings"),
}
"""Projection slots of a block and the names frameworks give them."""

_BY_NAME: Final[dict[str, str]] = {name: slot for slot, names in SLOTS.items() for name in names}
ALL_LINEAR: Final = frozenset({"q", "k", "v", "qkv", "o", "gate", "up", "gate_up", "down"})


def slots_of(targets: list[str] | tuple[str, ...]) -> frozenset[str]:
    """The slots that LoRA target names mean; torchtune's and litgpt's group names included."""
    found: set[str] = set()
    for target in targets:
        name = target.rsplit(".", 1)[-1]
        if target in ("all-linear", "all", "all_linear"):
            found |= ALL_LINEAR
        elif name in ("mlp", "feed_forward", "apply_lora_to_mlp", "projections"):
            found |= {"gate", "up", "gate_up", "down"}
        elif name in ("attn", "attention"):
            found |= {"q", "k", "v", "qkv", "o"}
        elif name == "c_proj":
            found |= {"o", "down"}
        elif name in _BY_NAME:
            found.add(_BY_NAME[name])
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Style:
    """One family's block."""

    norm: str = "rmsnorm"
    """``rmsnorm`` (Llama: fp32 copy, cast back, times weight), ``gemma`` (all in fp32, cast at the end), ``t5``,
    ``layernorm`` (one kernel), ``layernorm32`` (one kernel on an fp32 copy), ``cohere`` (LayerNorm spelled out)."""
    fused_qkv: bool = False
    fused_gate_up: bool = False
    qk_norm: str = ""
    """``head`` (Qwen3, Gemma 3) or ``full`` (OLMo 2): a norm on queries and keys."""
    value_norm: bool = False
    """A norm without weights on each head's values (Gemma 4)."""
    expert_norms: bool = False
    """Experts read the residual stream through a norm of their own; their result and the dense MLP's have one each (Gemma 4)."""
    post_norms: bool = False
    """Norms after attention and after the MLP, on top of those before (Gemma 2 and 3)."""
    pre_norms: bool = True
    """False where norms stand only behind the sublayers (OLMo 2)."""
    parallel: bool = False
    """Attention and MLP both read the block's input (GPT-NeoX, Falcon, Phi)."""
    one_norm: bool = False
    """A parallel block whose MLP shares the attention's norm (Falcon-7B, Phi, GPT-J, Command-R)."""
    rotary: float = 1.0
    """Share of the head that is rotated; 0 for learned, ALiBi or relative positions."""
    rotary_cat: bool = False
    """The rotated and the passed part are concatenated even where nothing is passed (Phi-3)."""
    rotary_by_token: bool = False
    """Queries and keys are rotated before tokens and heads change places (GPT-J)."""
    activation: str = "silu"
    gated: bool = True
    embed_scale: bool = False
    logit_cap: bool = False
    softmax_fp32: bool = True
    """Eager attention upcasts the softmax (``dtype=torch.float32``); T5 and GPT-2 do not."""
    scores_fp32: bool = False
    """Eager attention multiplies fp32 copies of queries and keys (GPT-J, GPT-Neo)."""
    sinks: bool = False
    """Eager attention puts a learned score beside each row before the softmax and cuts it off after (gpt-oss)."""
    math_attention: bool = False
    """One key and value head is broadcast to all queries, which only the composed kernel takes (Falcon-7B)."""
    bias_apart: bool = False
    """Linear layers add their bias in a step of its own, which promotes to the bias' dtype under autocast (Falcon-RW)."""
    broadcasts_kv: bool = False
    """Several key and value heads are repeated to all queries' before they are cached (Falcon-40B)."""
    returns_scores: bool = False
    """Eager blocks return their attention weights, which the model's loop holds while the next block runs (Falcon, MPT)."""
    output_gate: bool = False
    """A second half of the query projection gates attention's output through a sigmoid (Qwen3-Next, Qwen3.5)."""
    score_cap: bool = False
    query_scaled: bool = False
    """Queries multiplied by a constant before attention (OPT)."""
    position_bias: bool = False
    """T5's relative bias: a score-sized tensor that attention must add."""
    causal_buffer: str = ""
    """A square boolean mask of ``max_position_embeddings`` that the ``model`` or each ``layer`` holds as a buffer."""
    alibi_mask: bool = False
    """ALiBi of every head is written into one additive mask that all blocks share (Falcon-RW)."""
    upcast_loss: bool = True
    """The model's class converts logits to fp32 before the loss (T5 does not)."""
    own_loss: bool = False
    """The model's class computes its loss in the logits' dtype, on a copy of the shifted logits."""
    packed_mask: bool = True
    """Position ids reach the mask, so packed samples give a dense one (OPT and BLOOM pass none)."""
    all_experts: bool = False
    """Every expert computes every token, weighted by the router (Llama 4 in transformers)."""
    residual_scale: bool = False
    """Sublayer outputs multiplied by a constant (Granite)."""


FUSED_EXPERT_TARGETS: Final[Mapping[str, Mapping[str, str]]] = {
    "qwen2_moe": {"gate_proj": "gate_up", "up_proj": "gate_up", "down_proj": "down"},
    "mixtral": {"w1": "gate_up", "w3": "gate_up", "w2": "down"},
}
"""LoRA targets of one expert's layers that PEFT turns into the fused parameters of transformers 5, by naming pattern.

The names are taken off the targets, so dense layers and shared experts of the same name get no adapter; Qwen2-MoE itself is not
converted. peft 0.21 ``utils/transformers_weight_conversion.py``; the pattern of a model type is transformers 5.24's
(``conversion_mapping.py``).
"""

_EXPERT_PATTERNS: Final[Mapping[str, str]] = {
    "mixtral": "mixtral",
    "minimax": "mixtral",
    "minimax_m2": "mixtral",
    **dict.fromkeys(
        (
            "qwen3_moe",
            "qwen3_next",
            "olmoe",
            "flex_olmo",
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "dots1",
            "ernie4_5_moe",
            "exaone_moe",
            "glm4_moe",
            "glm4_moe_lite",
            "glm_moe_dsa",
            "hunyuan_v1_moe",
            "solar_open",
        ),
        "qwen2_moe",
    ),
}


def converted_targets(model_type: str) -> frozenset[str]:
    """Module names that PEFT takes off the LoRA targets of a model with fused experts."""
    return frozenset(FUSED_EXPERT_TARGETS.get(_EXPERT_PATTERNS.get(model_type, ""), {}))


def fused_expert_targets(model_type: str, names: tuple[str, ...], everything: bool) -> frozenset[str]:
    """The fused expert parameters that LoRA on these targets reaches: ``gate_up``, ``down``."""
    pattern = FUSED_EXPERT_TARGETS.get(_EXPERT_PATTERNS.get(model_type, ""), {})
    if everything:
        return frozenset(pattern.values())
    last = {name.rsplit(".", 1)[-1] for name in names}
    return frozenset(fused for old, fused in pattern.items() if old in last)


_LAYERNORM_PLAIN = Style(norm="layernorm", gated=False, activation="gelu_new", rotary=0.0)

STYLES: Final[Mapping[str, Style]] = {
    "llama": Style(),
    "qwen3": Style(qk_norm="head"),
    "qwen3_moe": Style(qk_norm="head"),
    "phi3": Style(fused_qkv=True, fused_gate_up=True, rotary_cat=True),
    "glm4": Style(fused_gate_up=True, post_norms=True, rotary=0.5),
    "glm": Style(fused_gate_up=True, rotary=0.5),
    "chatglm": Style(fused_qkv=True, fused_gate_up=True, rotary=0.5),
    "gemma": Style(norm="gemma", activation="gelu", embed_scale=True),
    "gemma2": Style(norm="gemma", post_norms=True, activation="gelu", embed_scale=True, logit_cap=True, score_cap=True),
    "gemma3_text": Style(norm="gemma", post_norms=True, qk_norm="head", activation="gelu", embed_scale=True),
    "gemma4_text": Style(
        norm="gemma",
        post_norms=True,
        qk_norm="head",
        value_norm=True,
        expert_norms=True,
        activation="gelu",
        embed_scale=True,
        logit_cap=True,
    ),
    "olmo2": Style(norm="gemma", pre_norms=False, post_norms=True, qk_norm="full"),
    "olmo": Style(norm="layernorm32"),
    "gpt_oss": Style(norm="gemma", softmax_fp32=False, sinks=True, activation="clamped_glu"),
    "apertus": Style(gated=False, activation="xielu", qk_norm="head"),
    "arcee": Style(gated=False, activation="relu2"),
    "minimax_m2": Style(qk_norm="full", rotary=0.5),
    "glm4_moe": Style(rotary=0.5),
    "phimoe": Style(norm="layernorm"),
    "exaone4": Style(pre_norms=False, post_norms=True, qk_norm="head"),
    "llama4_text": Style(norm="gemma", all_experts=True),
    "bart": replace(_LAYERNORM_PLAIN, activation="gelu", softmax_fp32=False, packed_mask=False, upcast_loss=False),
    "helium": Style(norm="gemma"),
    "nemotron": Style(norm="layernorm", gated=False, activation="relu2", rotary=0.5),
    "granite": Style(embed_scale=True, residual_scale=True),
    "granitemoe": Style(embed_scale=True, residual_scale=True),
    "stablelm": Style(norm="layernorm", rotary=0.25),
    "qwen3_next": Style(norm="gemma", qk_norm="head", rotary=0.25, output_gate=True),
    "starcoder2": Style(norm="layernorm", gated=False, activation="gelu"),
    "cohere": Style(norm="cohere", parallel=True, one_norm=True),
    "cohere2": Style(norm="cohere", parallel=True, one_norm=True),
    "gpt_neox": Style(norm="layernorm", fused_qkv=True, parallel=True, rotary=0.25, gated=False, activation="gelu"),
    "falcon": Style(
        norm="layernorm",
        fused_qkv=True,
        parallel=True,
        one_norm=True,
        gated=False,
        activation="gelu",
        softmax_fp32=False,
        returns_scores=True,
        broadcasts_kv=True,
        math_attention=True,
    ),
    "phi": Style(norm="layernorm", parallel=True, one_norm=True, rotary=0.5, gated=False, activation="gelu_new"),
    "gptj": Style(
        norm="layernorm",
        parallel=True,
        one_norm=True,
        rotary=0.25,
        rotary_by_token=True,
        scores_fp32=True,
        gated=False,
        activation="gelu_new",
    ),
    "gpt2": replace(_LAYERNORM_PLAIN, fused_qkv=True, softmax_fp32=False),
    "gpt_bigcode": replace(_LAYERNORM_PLAIN, fused_qkv=True, activation="gelu", own_loss=True, causal_buffer="model"),
    "gpt_neo": replace(_LAYERNORM_PLAIN, causal_buffer="layer", scores_fp32=True),
    "bloom": replace(_LAYERNORM_PLAIN, fused_qkv=True, activation="gelu_bloom", packed_mask=False),
    "mpt": replace(_LAYERNORM_PLAIN, fused_qkv=True, activation="gelu", returns_scores=True),
    "opt": replace(_LAYERNORM_PLAIN, activation="relu", query_scaled=True, packed_mask=False),
    "bert": replace(_LAYERNORM_PLAIN, activation="gelu"),
    "t5": Style(
        norm="t5", gated=False, activation="relu", rotary=0.0, softmax_fp32=False, position_bias=True, upcast_loss=False
    ),
}
"""Families that differ from Llama's block. What is not here and not known by its config computes as ``llama``."""

_SAME: Final[Mapping[str, str]] = {
    "mistral": "llama",
    "qwen2": "llama",
    "mixtral": "llama",
    "qwen2_moe": "llama",
    "yi": "llama",
    "smollm3": "llama",
    "deepseek": "llama",
    "deepseek_v2": "llama",
    "deepseek_v3": "llama",
    "minicpm": "granite",
    "phi3small": "phi3",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "olmoe": "qwen3",
    "mt5": "t5",
    "umt5": "t5",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "roberta": "bert",
    "distilbert": "bert",
    "electra": "bert",
    "deberta-v2": "bert",
    "codegen": "gptj",
    "internlm2": "llama",
    "olmo3": "olmo2",
    "llama4": "llama4_text",
    "mbart": "bart",
    "pegasus": "bart",
    "marian": "bart",
    "whisper": "bart",
    "qwen3_5": "qwen3_next",
    "qwen3_5_text": "qwen3_next",
    "qwen3_5_moe": "qwen3_next",
    "qwen3_5_moe_text": "qwen3_next",
    "vaultgemma": "gemma2",
    "baichuan": "llama",
    "qwen": "llama",
    "seed_oss": "llama",
    "lfm2": "qwen3",
    "lfm2_moe": "qwen3",
    "granitemoehybrid": "granitemoe",
    "falcon_h1": "llama",
    "ernie4_5": "llama",
    "ernie4_5_moe": "llama",
    "dots1": "qwen3",
    "hunyuan_v1_dense": "qwen3",
    "hunyuan_v1_moe": "qwen3",
    "mimo": "llama",
    "internlm3": "llama",
    "solar": "llama",
    "flex_olmo": "olmo2",
    "qwen2_vl": "llama",
    "qwen2_5_vl": "llama",
    "qwen2_5_omni": "llama",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3",
    "mllama": "llama",
    "idefics3": "llama",
    "smolvlm": "llama",
    "mistral3": "llama",
    "ministral": "llama",
    "ministral3": "llama",
    "paligemma": "gemma",
    "glm4v": "glm4",
    "glm4v_moe": "glm4_moe",
}

_ACTIVATIONS: Final[Mapping[str, str]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu_new",
    "gelu_accurate": "gelu_new",
    "gelu_python_tanh": "gelu_new",
    "gelu_fast": "gelu_fast",
    "gelu_python": "gelu_python",
    "relu": "relu",
    "relu2": "relu2",
    "xielu": "xielu",
    "quick_gelu": "quick_gelu",
    "gelu_10": "gelu",
}


_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


@lru_cache(maxsize=256)
def _style(model_type: str) -> Style | None:
    return STYLES.get(_SAME.get(model_type, model_type))


def style_of(architecture: Architecture) -> tuple[Style, bool]:
    """The family's style with what the config itself says, and whether the family is known."""
    config = architecture.config
    found = _style(architecture.model_type)
    if found is None:
        # a model of several parts computes its text as the family of its text part
        parts = (config.get(name) for name in _TEXT_PARTS)
        names = (part.get("model_type") for part in parts if isinstance(part, Mapping))
        found = next((style for style in map(_style, filter(None, map(_word, names))) if style is not None), None)
    known = found is not None
    style = found or Style(
        norm="rmsnorm" if architecture.norm == "rmsnorm" else "layernorm",
        gated=architecture.gated_mlp,
        rotary=1.0,
    )
    changes: dict[str, object] = {}
    stated = config.get("hidden_act") or config.get("hidden_activation") or config.get("activation_function")
    if style.norm == "t5":
        stated = config.get("dense_act_fn") or config.get("feed_forward_proj") or stated
        if isinstance(stated, str) and stated.startswith("gated-"):
            changes["gated"] = True
            stated = "gelu_new" if stated == "gated-gelu" else stated[6:]
        elif architecture.gated_mlp:
            changes["gated"] = True
            stated = stated or "gelu_new"
    if isinstance(stated, str) and stated in _ACTIVATIONS:
        changes["activation"] = _ACTIVATIONS[stated]
    partial = config.get("partial_rotary_factor") or config.get("rotary_pct")
    if isinstance(partial, (int, float)) and style.rotary:
        changes["rotary"] = float(partial)
    if config.get("use_qk_norm") is not None and not style.qk_norm:
        changes["qk_norm"] = "head" if config.get("use_qk_norm") else ""
    if architecture.model_type == "gpt_neox" and config.get("use_parallel_residual") is False:
        changes["parallel"] = False
    if architecture.model_type == "falcon" and config.get("alibi"):
        changes["rotary"] = 0.0
        changes["alibi_mask"] = True
    if architecture.model_type == "falcon" and config.get("bias"):
        changes["bias_apart"] = True
    if architecture.model_type == "falcon" and config.get("parallel_attn") is False:
        changes["parallel"] = changes["one_norm"] = False
    if architecture.model_type == "falcon" and config.get("new_decoder_architecture"):
        changes["one_norm"] = config.get("num_ln_in_parallel_attn") == 1  # Falcon 2
        changes["math_attention"] = False
    if known and not style.gated and architecture.gated_mlp and style.norm != "t5":
        changes.pop("gated", None)
    return (replace(style, **changes) if changes else style), known  # type: ignore[arg-type]


_ATTENTION_DROPOUT: Final = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "attn_dropout")
_HIDDEN_DROPOUT: Final = (
    "hidden_dropout_prob",
    "resid_pdrop",
    "resid_dropout",
    "dropout_rate",
    "hidden_dropout",
    "residual_dropout",
    "dropout",
)
ENCODER_DROPOUT: Final = 0.1
"""BERT's family trains with dropout unless its config says otherwise (transformers ``configuration_bert.py``)."""

ENCODERS: Final = frozenset(
    {
        "bert",
        "roberta",
        "distilbert",
        "electra",
        "deberta",
        "deberta-v2",
        "albert",
        "xlm-roberta",
        "camembert",
        "mpnet",
        "modernbert",
    }
)


RESIDUAL_DROPOUT: Final[Mapping[str, float]] = {"seed_oss": 0.1}
"""What decoders drop of the residual stream where their configs are silent (transformers ``configuration_*.py``)."""


def dropout_of(architecture: Architecture) -> tuple[float, float]:
    """Dropout on attention and on the residual stream, as the config states it."""
    encoder = ENCODER_DROPOUT if architecture.model_type in ENCODERS - {"modernbert"} else 0.0

    def stated(names: tuple[str, ...], default: float) -> float:
        for name in names:
            value = architecture.config.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return default

    residual = RESIDUAL_DROPOUT.get(architecture.model_type, encoder)
    return stated(_ATTENTION_DROPOUT, encoder), stated(_HIDDEN_DROPOUT, residual)
