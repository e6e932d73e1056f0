"""Dense decoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.architecture import Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, divide, whole
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Heads,
    Mlp,
    Part,
    Slot,
    Where,
    every_layer,
    every_nth_full,
    linear,
    norm,
    typed,
    vector,
)


def stated_window(window: Any) -> int:
    return whole("sliding_window", window, at_least=1)


def windowed(c: Config) -> tuple[Slot, ...]:
    """``sliding_window`` in every layer where one is stated (Mistral, Phi-3, StarCoder2)."""
    window = c.get("sliding_window")
    slot = Slot("full_attention") if not window else Slot("sliding_attention", window=stated_window(window))
    return (slot,) * c.size("num_hidden_layers")


def windowed_above(c: Config) -> tuple[Slot, ...]:
    """Qwen2 and Qwen3: a window only where ``use_sliding_window`` says so, in the layers from ``max_window_layers`` on."""
    count = c.size("num_hidden_layers")
    window = c.get("sliding_window") if c.flag("use_sliding_window") else None
    if not window:
        return (Slot("full_attention"),) * count
    named = c.sequence("layer_types")
    first = c.count("max_window_layers", count)
    return tuple(
        Slot("sliding_attention", window=stated_window(window))
        if (named[index] == "sliding_attention" if named and len(named) == count else index >= first)
        else Slot("full_attention")
        for index in range(count)
    )


def gpt_neo_plan(c: Config) -> tuple[Slot, ...]:
    """Global and local attention in turn; ``attention_types`` says otherwise as ``[[["global", "local"], 12]]``."""
    count = c.size("num_hidden_layers")
    kinds: list[str] = []
    for group in c.sequence("attention_types") or [[["global", "local"], count]]:
        if isinstance(group, (list, tuple)) and len(group) == 2 and isinstance(group[1], int):
            if not isinstance(group[0], (list, tuple)):
                raise UnknownArchitecture(f"attention_types is {group!r}, expected a list of kinds and how often")
            kinds += [str(kind) for kind in group[0]] * min(group[1], count)
    window = c.size("window_size", 256)
    local = Slot("sliding_attention", window=window)
    return tuple(local if kinds[i : i + 1] == ["local"] else Slot("full_attention") for i in range(count))


def smollm3_plan(c: Config) -> tuple[Slot, ...]:
    return typed(c, lambda index: "full_attention")


def exaone4_plan(c: Config) -> tuple[Slot, ...]:
    """Window layers with every n-th full (``sliding_window_pattern`` 4 or "LLLG"); none where ``sliding_window`` is null."""
    pattern = c.get("sliding_window_pattern", 4)
    period = len(pattern) if isinstance(pattern, str) else pattern
    if not c.get("sliding_window") or not isinstance(period, int) or period < 1:
        return every_layer(c)
    last = c.size("num_hidden_layers") - 1
    return typed(c, lambda i: "sliding_attention" if (i + 1) % period and i != last else "full_attention")


def falcon_norms(c: Config) -> tuple[str, ...]:
    if not c.flag("parallel_attn"):
        return ("input_layernorm", "post_attention_layernorm")
    two = c.get("num_ln_in_parallel_attn", 2 if c.flag("new_decoder_architecture") else 1) == 2
    return ("ln_attn", "ln_mlp") if two else ("input_layernorm",)


class FalconAttention(Attention):
    """Key-value heads are ``num_kv_heads`` in the newer decoder, one with ``multi_query``, else all."""

    def read(self, c: Config) -> Heads:
        heads = c.size("num_attention_heads")
        kv_heads = 1 if c.flag("multi_query") else heads
        if c.flag("new_decoder_architecture"):
            kv_heads = c.size("num_kv_heads", c.get("num_key_value_heads") or heads)
        divide("num_attention_heads", heads, "num_kv_heads", kv_heads)
        return Heads(heads, kv_heads, divide("hidden_size", c.size("hidden_size"), "num_attention_heads", heads))


def opt_projections(c: Config, where: Where) -> Iterator[Tensor]:
    """OPT-350m embeds in fewer dimensions than it computes in."""
    hidden, embedded = c.size("hidden_size"), c.size("word_embed_proj_dim", c.size("hidden_size"))
    if embedded != hidden:
        yield from linear("project_out", embedded, hidden, "other")
        yield from linear("project_in", hidden, embedded, "other")


def opt_final_norm(c: Config) -> bool:
    return c.flag("do_layer_norm_before", True) and not c.flag("_remove_final_layer_norm")


def xielu(c: Config, where: Where) -> Iterator[Tensor]:
    """The trainable activation of Apertus."""
    if c.get("hidden_act", "xielu") == "xielu":
        yield from vector("act_fn", 1, "mlp", where)
        yield from vector("act_fn", 1, "mlp", where)


@dataclass(frozen=True)
class Block:
    """One block of Nemotron-NAS (DeciLM), whose layers differ: attention with its own grouping, a linear layer, or nothing."""

    heads_in_group: int = 0
    width: int = 0
    replaced: bool = False
    """A linear layer stands in its place."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden = c.size("hidden_size")
        yield from norm(
            "post_attention_layernorm" if self.width or not self.heads_in_group else "input_layernorm", hidden, where
        )
        if self.replaced:
            yield from linear("linear", hidden, hidden, "mlp" if self.width else "attention", where)
        elif self.width:
            yield from Mlp(bias="mlp_bias").of_width(c, where, self.width)
        else:
            heads, kv_heads, width = self.read(c)
            bias = c.flag("attention_bias")
            for module, out in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
                yield from linear(module, out * width, hidden, "attention", where, bias=bias)
            yield from linear("o_proj", hidden, heads * width, "attention", where, bias=bias)

    def read(self, c: Config) -> Heads:
        heads = c.size("num_attention_heads")
        width = c.size("head_dim", divide("hidden_size", c.size("hidden_size"), "num_attention_heads", heads))
        return Heads(heads, divide("num_attention_heads", heads, "n_heads_in_group", self.heads_in_group), width)

    def facts(self, c: Config) -> dict[str, Any]:
        if self.width:
            return {"intermediate_size": self.width}
        return {} if self.replaced else self.read(c)._asdict()


def nas_width(c: Config, ffn: Mapping[str, Any]) -> int:
    """``ffn_mult`` times two thirds of the hidden size, rounded up to a multiple of 256 (modeling_decilm.py)."""
    factor = ffn.get("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1000:
        raise UnknownArchitecture(f"ffn_mult is {factor!r}, expected a number above zero")
    return -(-int(2 * factor * c.size("hidden_size") / 3) // 256) * 256


def nemotron_nas(c: Config) -> Body:
    blocks = c.sequence("block_configs")
    if blocks is None or len(blocks) != c.size("num_hidden_layers"):
        raise UnknownArchitecture("block_configs does not describe each of the num_hidden_layers")
    mixers: dict[str, Part] = {}
    feeds: dict[str, Part] = {}
    slots = []
    for block in blocks:
        attention, ffn = (block.get(key) if isinstance(block, Mapping) else None for key in ("attention", "ffn"))
        if not isinstance(attention, Mapping) or not isinstance(ffn, Mapping):
            raise UnknownArchitecture("a block of block_configs lacks attention or ffn")
        mixer, feed = "none", "none"
        if attention.get("replace_with_linear"):
            mixer = "linear"
            mixers[mixer] = Block(heads_in_group=1, replaced=True)
        elif not attention.get("no_op"):
            group = whole("n_heads_in_group", attention.get("n_heads_in_group"), at_least=1)
            mixer = f"grouped {group}"
            mixers[mixer] = Block(heads_in_group=group)
        if not ffn.get("no_op"):
            width = c.size("hidden_size") if ffn.get("replace_with_linear") else nas_width(c, ffn)
            feed = "linear" if ffn.get("replace_with_linear") else str(width)
            feeds[feed] = Block(width=width, replaced=bool(ffn.get("replace_with_linear")))
        slots.append(
            Slot(
                "full_attention" if mixer.startswith("grouped") else "none",
                "none" if feed == "none" else "dense",
                part=mixer,
                ffn=feed,
            )
        )
    return replace(LLAMA, mixers=mixers, feed_forwards=feeds, plan=lambda _: tuple(slots), norms=())(c)


def two(gate: str = "", up: str = "up_proj", down: str = "down_proj", **options: Any) -> dict[str, Part]:
    return {"dense": Mlp(gate=gate, up=up, down=down, **options)}


def full(**options: Any) -> dict[str, Part]:
    return {"full_attention": Attention(**options)}


class CrossAttention(Attention):
    """Llama 3.2 Vision's layers over the image: gated, their keys and values are those of the image."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        yield from vector("cross_attn_attn_gate", 1, "attention", where)
        yield from vector("cross_attn_mlp_gate", 1, "attention", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {**super().facts(c), "cross_attention": True, "kv_elements": 0}


def mllama_plan(c: Config) -> tuple[Slot, ...]:
    crossing = c.indexes("cross_attention_layers") or frozenset((3, 8, 13, 18, 23, 28, 33, 38))
    return tuple(
        Slot("full_attention", part="cross" if index in crossing else "")
        for index in range(c.size("num_hidden_layers"))
    )


LLAMA = Decoder(
    mixers=full(bias="attention_bias", output_bias="attention_bias"),
    feed_forwards={"dense": Mlp(bias="mlp_bias")},
    tie_default=False,
)
MISTRAL = Decoder(plan=windowed, tie_default=False)
QWEN2 = Decoder(mixers=full(bias=True), plan=windowed_above, tie_default=False)
QWEN3 = replace(QWEN2, mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head"))

GEMMA = Decoder(mixers=full(bias="attention_bias", output_bias="attention_bias"))
GEMMA2 = replace(
    GEMMA,
    plan=every_nth_full(2),
    norms=("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
)
GEMMA3 = replace(
    GEMMA2,
    mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head"),
    plan=every_nth_full(6),
)

GPT2 = Decoder(
    mixers=full(fused="c_attn", o="c_proj", bias=True, output_bias=True, is_linear=False),
    feed_forwards=two(up="c_fc", down="c_proj", bias=True, width="n_inner", times_hidden=4, is_linear=False),
    norms=("ln_1", "ln_2"),
    norm="layernorm",
    norm_bias=True,
    embedding="wte",
    positions="wpe",
    final_norm="ln_f",
)
GPT_BIGCODE = replace(
    GPT2,
    mixers=full(fused="c_attn", o="c_proj", bias=True, output_bias=True, multi_query="multi_query"),
    feed_forwards=two(up="c_fc", down="c_proj", bias=True, width="n_inner", times_hidden=4),
)
GPT_NEO = replace(
    GPT2,
    mixers=full(o="out_proj", output_bias=True),
    feed_forwards=two(up="c_fc", down="c_proj", bias=True, times_hidden=4),
    plan=gpt_neo_plan,
)
GPTJ = replace(
    GPT2,
    mixers=full(o="out_proj"),
    feed_forwards=two(up="fc_in", down="fc_out", bias=True, width="n_inner", times_hidden=4),
    norms=("ln_1",),
    positions="",
    head_bias=True,
)
CODEGEN = replace(GPTJ, mixers=full(fused="qkv_proj", o="out_proj"))
GPT_NEOX = Decoder(
    mixers=full(fused="query_key_value", o="dense", bias="attention_bias", output_bias="attention_bias"),
    feed_forwards=two(up="dense_h_to_4h", down="dense_4h_to_h", bias=True),
    norm="layernorm",
    norm_bias=True,
    embedding="embed_in",
    final_norm="final_layer_norm",
)
OPT = Decoder(
    mixers=full(o="out_proj", bias="enable_bias", output_bias="enable_bias"),
    feed_forwards=two(up="fc1", down="fc2", bias="enable_bias", width="ffn_dim"),
    norms=("self_attn_layer_norm", "final_layer_norm"),
    norm="layernorm",
    norm_bias=True,
    norm_weight="layer_norm_elementwise_affine",
    embedding_size="word_embed_proj_dim",
    positions="embed_positions",
    positions_offset=2,
    positions_width="hidden_size",
    final_norm="final_layer_norm",
    final_norm_if=opt_final_norm,
    extra=opt_projections,
)
BLOOM = Decoder(
    mixers=full(fused="query_key_value", o="dense", bias=True, output_bias=True),
    feed_forwards=two(up="dense_h_to_4h", down="dense_4h_to_h", bias=True, width="n_inner", times_hidden=4),
    norm="layernorm",
    norm_bias=True,
    embedding="word_embeddings",
    embedding_norm="word_embeddings_layernorm",
    final_norm="ln_f",
)
FALCON = Decoder(
    mixers={"full_attention": FalconAttention(fused="query_key_value", o="dense", bias="bias", output_bias="bias")},
    feed_forwards=two(up="dense_h_to_4h", down="dense_4h_to_h", bias="bias", width="ffn_hidden_size", times_hidden=4),
    norms=falcon_norms,
    norm="layernorm",
    norm_bias=True,
    embedding="word_embeddings",
    final_norm="ln_f",
)
MPT = Decoder(
    mixers=full(fused="Wqkv", o="out_proj"),
    feed_forwards=two(width="", times_hidden=4),
    norms=("norm_1", "norm_2"),
    norm="layernorm",
    embedding="wte",
    final_norm="norm_f",
)
STARCODER2 = Decoder(
    mixers=full(bias="use_bias", output_bias="use_bias"),
    feed_forwards=two(up="c_fc", down="c_proj", bias="use_bias"),
    plan=windowed,
    norm="layernorm",
    norm_bias=True,
)
PHI = Decoder(
    mixers=full(
        o="dense",
        bias=True,
        output_bias=True,
        qk_norm="head",
        qk_norm_if="qk_layernorm",
        qk_norm_bias=True,
        q_norm="q_layernorm",
        k_norm="k_layernorm",
    ),
    feed_forwards=two(up="fc1", down="fc2", bias=True),
    norms=("input_layernorm",),
    norm="layernorm",
    norm_bias=True,
    final_norm="final_layernorm",
    head_bias=True,
)
PHI3 = Decoder(
    mixers=full(fused="qkv_proj"), feed_forwards={"dense": Mlp(fused="gate_up_proj")}, plan=windowed, tie_default=False
)
COHERE = Decoder(
    mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="per_head", qk_norm_if="use_qk_norm"),
    norms=("input_layernorm",),
    norm="layernorm",
)
COHERE2 = replace(COHERE, mixers=full(bias="attention_bias", output_bias="attention_bias"), plan=every_nth_full(4))
OLMO = Decoder(
    mixers=full(bias="attention_bias", output_bias="attention_bias"),
    norm="layernorm",
    norm_weight=False,
    tie_default=False,
)
OLMO2 = replace(
    LLAMA,
    mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="full"),
    feed_forwards={"dense": Mlp()},
    norms=("post_attention_layernorm", "post_feedforward_layernorm"),
)
GLM = replace(LLAMA, mixers=full(bias="attention_bias"), feed_forwards={"dense": Mlp(fused="gate_up_proj")})


class LandmarkAttention(Attention):
    """HiLS: queries of their own for landmarks, through a low rank, normed as a whole."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        hidden, rank = c.size("hidden_size"), c.size("lmk_q_lora_dim")
        yield from linear("lmk_q_proj.0", rank, hidden, "attention", where)
        yield from linear("lmk_q_proj.1", hidden, rank, "attention", where)
        yield from norm("lmk_q_norm", hidden, where)


def landmark_token(c: Config, where: Where) -> Iterator[Tensor]:
    yield from vector("lmk_embed", c.size("hidden_size"), "embedding")


def glm(c: Config) -> Body:
    """GLM; GLM-Edge-V has the same ``model_type`` and a ``vision_config``."""
    if not isinstance(c.raw.get("vision_config"), Mapping):
        return GLM(c)
    from cfglint.catalog.families.vision_remote import FAMILIES as REMOTE

    return REMOTE["glm_edge_v"](c)


GLM4_NORMS = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")
STABLELM = Decoder(
    mixers=full(
        bias="use_qkv_bias", qk_norm="list", qk_norm_if="qk_layernorm", q_norm="q_layernorm", k_norm="k_layernorm"
    ),
    norms=lambda c: ("input_layernorm",) + (() if c.flag("use_parallel_residual") else ("post_attention_layernorm",)),
    norm="layernorm",
    norm_bias=True,
    tie_default=False,
)
INTERNLM2 = Decoder(
    mixers=full(fused="wqkv", o="wo", bias="bias", output_bias="bias"),
    feed_forwards={"dense": Mlp(gate="w1", up="w3", down="w2")},
    norms=("attention_norm", "ffn_norm"),
    embedding="tok_embeddings",
    head="output",
    tie_default=False,
)
QWEN1 = Decoder(
    mixers=full(fused="c_attn", o="c_proj", bias=True, output_bias=lambda c: not c.flag("no_bias", True)),
    feed_forwards={
        "dense": Mlp(gate="w2", up="w1", down="c_proj", halved=True, bias=lambda c: not c.flag("no_bias", True))
    },
    norms=("ln_1", "ln_2"),
    embedding="wte",
    final_norm="ln_f",
    tie_default=False,
)

PHI3_SMALL = Decoder(
    mixers=full(fused="query_key_value", o="dense", bias=True, output_bias=True),
    feed_forwards={"dense": Mlp(fused="up_proj", bias=True, width="ff_intermediate_size")},
    norm="layernorm",
    norm_bias=True,
    final_norm="final_layernorm",
)
"""modeling_phi3_small.py beside the checkpoints."""

CHATGLM = Decoder(
    mixers=full(fused="query_key_value", o="dense", bias="add_qkv_bias"),
    feed_forwards={"dense": Mlp(fused="dense_h_to_4h", down="dense_4h_to_h")},
    embedding="word_embeddings",
    final_norm="final_layernorm",
    head="output_layer",
    tie_default=False,
)


def chatglm(c: Config) -> Body:
    """ChatGLM 2 to GLM-4 in their own spelling (modeling_chatglm.py beside the checkpoints)."""
    names = {
        "num_layers": "num_hidden_layers", "kv_channels": "head_dim", "ffn_hidden_size": "intermediate_size",
        "padded_vocab_size": "vocab_size", "multi_query_group_num": "num_key_value_heads", "seq_length": "max_position_embeddings",
    }  # fmt: skip
    raw = {**c.raw, **{name: c.raw[own] for own, name in names.items() if c.raw.get(own) is not None}}
    return CHATGLM(Config(raw, c.model_type, nested=c.nested))


FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "ministral": replace(MISTRAL, plan=lambda c: typed(c, lambda index: "sliding_attention")),
    "ministral3": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gpt2": GPT2,
    "gpt_bigcode": GPT_BIGCODE,
    "gpt_neo": GPT_NEO,
    "gptj": GPTJ,
    "codegen": CODEGEN,
    "gpt_neox": GPT_NEOX,
    "opt": OPT,
    "bloom": BLOOM,
    "falcon": FALCON,
    "mpt": MPT,
    "starcoder2": STARCODER2,
    "phi": PHI,
    "phi3": PHI3,
    "cohere": COHERE,
    "cohere2": COHERE2,
    "olmo": OLMO,
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, plan=every_nth_full(4)),
    "granite": LLAMA,
    "glm": glm,
    "glm4": replace(GLM, norms=GLM4_NORMS),
    "stablelm": STABLELM,
    "apertus": replace(
        LLAMA,
        mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head"),
        feed_forwards=two(),
        norms=("attention_layernorm", "feedforward_layernorm"),
        extra=xielu,
    ),
    "arcee": replace(LLAMA, feed_forwards=two(bias="mlp_bias")),
    "exaone4": replace(
        LLAMA,
        mixers=full(qk_norm="head"),
        feed_forwards={"dense": Mlp()},
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        plan=exaone4_plan,
    ),
    "helium": replace(LLAMA, mixers=full(bias="attention_bias")),
    "smollm3": replace(LLAMA, plan=smollm3_plan, tie_default=True),
    "seed_oss": replace(LLAMA, mixers=full(bias="attention_bias", output_bias="attention_out_bias")),
    "nemotron": replace(LLAMA, feed_forwards=two(bias="mlp_bias"), norm="layernorm", norm_bias=True),
    "ernie4_5": replace(
        LLAMA,
        mixers=full(bias="use_bias", output_bias="use_bias"),
        feed_forwards={"dense": Mlp(bias="use_bias")},
    ),
    "hunyuan_v1_dense": replace(
        LLAMA,
        mixers=full(
            bias="attention_bias",
            output_bias="attention_bias",
            qk_norm="head",
            qk_norm_if=True,
            q_norm="query_layernorm",
            k_norm="key_layernorm",
        ),
        feed_forwards={"dense": Mlp()},
    ),
    "mllama_text_model": replace(
        MISTRAL, mixers={**full(), "cross": CrossAttention(qk_norm="head")}, plan=mllama_plan, extra_rows=8
    ),
    "olmo_hils": replace(
        OLMO2,
        mixers={"full_attention": LandmarkAttention(qk_norm="full"), "sliding_attention": Attention(qk_norm="full")},
        plan=every_nth_full(4),
        extra=landmark_token,
    ),
    "solar": LLAMA,
    "minicpm": LLAMA,
    "apriel": LLAMA,
    "olmo2_noqknorm_prenorm": LLAMA,
    "chatglm": chatglm,
    "phi3small": PHI3_SMALL,
    # Text parts of vision-language models.
    "qwen2_vl_text": QWEN2,
    "qwen2_5_vl_text": QWEN2,
    "qwen3_vl_text": QWEN3,
    "molmo2_text": QWEN3,
    "cohere_compass_text": COHERE2,
    "glm4v_text": replace(GLM, mixers=full(bias=True), norms=GLM4_NORMS),
    # Remote code: the modeling files beside the checkpoints.
    "mimo": replace(QWEN2, mixers=full(bias="attention_bias")),
    # Diffusion and retrofitted models on the tensors of the models they were made from.
    "Dream": QWEN2,
    "wedlm": QWEN2,
    "olmo2-retrofit": replace(OLMO2, plan=every_nth_full(4)),
    "nemotron-nas": nemotron_nas,
    "internlm2": INTERNLM2,
    "internlm3": replace(
        LLAMA, mixers=full(bias="qkv_bias", output_bias="bias"), feed_forwards={"dense": Mlp(bias="bias")}
    ),
    "baichuan": replace(LLAMA, mixers=full(fused="W_pack"), feed_forwards={"dense": Mlp()}),
    "qwen": QWEN1,
}
