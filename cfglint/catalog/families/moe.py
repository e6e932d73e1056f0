"""Decoders with mixtures of experts, and multi-head latent attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.architecture import ImpossibleArchitecture, Mla, Moe, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, Flag, divide, whole
from cfglint.catalog.families.dense import full, windowed
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Mlp,
    Plan,
    Slot,
    Where,
    linear,
    matrix,
    norm,
    typed,
    vector,
)


@dataclass(frozen=True)
class Experts:
    """Routed experts, their router, and an expert shared by all tokens."""

    experts: str = "num_local_experts"
    top_k: str = "num_experts_per_tok"
    width: str = "moe_intermediate_size"
    gate: str = "gate_proj"
    """Empty where the experts are not gated."""
    up: str = "up_proj"
    down: str = "down_proj"
    bias: bool = False
    router: str = "gate"
    router_bias: bool = False
    router_is_linear: bool = False
    separate_before_5: bool = True
    """transformers 4 has an ``nn.Linear`` per expert and projection."""
    shared: Callable[[Config], int] | None = None
    """Width of the shared expert, zero for none."""
    shared_fused: str = ""
    shared_gate: str = ""
    hidden: str = "hidden_size"
    latent: str = ""
    """Config key of a narrower space the experts work in (Nemotron 3)."""

    def read(self, c: Config) -> Moe:
        count = c.size(self.experts)
        chosen = c.get(self.top_k)
        if isinstance(chosen, (list, tuple)):  # HunYuan states one per layer
            chosen = max((whole(self.top_k, item, at_least=1) for item in chosen), default=None)
        if chosen is None:
            raise UnknownArchitecture(f"the config does not state {self.top_k} (model_type {c.model_type!r})")
        top_k = whole(self.top_k, chosen, at_least=1)
        if top_k > count:
            raise ImpossibleArchitecture(f"{self.top_k} {top_k} is more than the {count} experts")
        width = c.get(self.width)
        if isinstance(width, (list, tuple)):
            width = max((whole(self.width, item, at_least=1) for item in width), default=None)
        if width is None:
            width = c.size("intermediate_size")
        shared = self.shared(c) if self.shared is not None else 0
        return Moe(count, top_k, whole(self.width, width, at_least=1), shared)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        moe, hidden = self.read(c), c.size(self.hidden)
        make = linear if self.router_is_linear else matrix_named
        yield from make(self.router, moe.num_experts, hidden, "router", where)
        if self.router_bias:
            yield from vector(self.router, moe.num_experts, "router", where, bias=True)
        width, inner = moe.intermediate_size, hidden
        if self.latent and c.get(self.latent):
            inner, bias = c.size(self.latent), c.flag("mlp_bias")
            yield from linear("fc1_latent_proj", inner, hidden, "mlp", where, bias=bias)
            yield from linear("fc2_latent_proj", hidden, inner, "mlp", where, bias=bias)
        for module, shape in ((self.gate, (width, inner)), (self.up, (width, inner)), (self.down, (inner, width))):
            if not module:
                continue
            yield Tensor(
                module,
                shape,
                "expert",
                moe.num_experts,
                where.layers,
                where.stack,
                linear_before_5=self.separate_before_5,
            )
            if self.bias:
                yield vector_of(module, shape[0], moe.num_experts, where)
        if moe.shared_intermediate_size:
            yield from self.shared_tensors(moe.shared_intermediate_size, hidden, where)

    def shared_tensors(self, width: int, hidden: int, where: Where) -> Iterator[Tensor]:
        if self.shared_fused:
            yield from linear(self.shared_fused, 2 * width, hidden, "shared_expert", where)
        else:
            if self.gate:
                yield from linear("gate_proj", width, hidden, "shared_expert", where)
            yield from linear("up_proj", width, hidden, "shared_expert", where)
        down = "output_linear" if self.shared_fused == "input_linear" else "down_proj"
        yield from linear(down, hidden, width, "shared_expert", where)
        if self.shared_gate:
            yield from linear(self.shared_gate, 1, hidden, "shared_expert", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"intermediate_size": self.read(c).intermediate_size}

    def describe(self, c: Config, body: Body) -> None:
        body.moe = self.read(c)


def matrix_named(module: str, out: int, inner: int, role: Any, where: Where) -> Iterator[Tensor]:
    """A router kept as a bare parameter; an ``nn.Linear`` in transformers 4."""
    yield Tensor(module, (out, inner), role, 1, where.layers, where.stack, linear_before_5=True)


def vector_of(module: str, size: int, count: int, where: Where) -> Tensor:
    return Tensor(module, (size,), "expert", count, where.layers, where.stack, bias=True)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), with DeepSeek-V3.2's indexer."""

    bias: Flag = "attention_bias"
    indexer: bool = False

    def read(self, c: Config) -> Mla:
        rank = c.get("q_lora_rank")
        return Mla(
            kv_lora_rank=c.size("kv_lora_rank"),
            q_lora_rank=None if rank is None else whole("q_lora_rank", rank, at_least=1),
            qk_rope_head_dim=c.size("qk_rope_head_dim"),
            qk_nope_head_dim=c.size("qk_nope_head_dim"),
            v_head_dim=c.size("v_head_dim"),
        )

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        mla, hidden, heads = self.read(c), c.size("hidden_size"), c.size("num_attention_heads")
        bias = c.flag(self.bias)
        query = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
        if mla.q_lora_rank is None:
            yield from linear("q_proj", query, hidden, "mla", where)
        else:
            yield from linear("q_a_proj", mla.q_lora_rank, hidden, "mla", where, bias=bias)
            yield from norm("q_a_layernorm", mla.q_lora_rank, where)
            yield from linear("q_b_proj", query, mla.q_lora_rank, "mla", where)
        latent = mla.kv_lora_rank + mla.qk_rope_head_dim
        yield from linear("kv_a_proj_with_mqa", latent, hidden, "mla", where, bias=bias)
        yield from norm("kv_a_layernorm", mla.kv_lora_rank, where)
        expanded = heads * (mla.qk_nope_head_dim + mla.v_head_dim)
        yield from linear("kv_b_proj", expanded, mla.kv_lora_rank, "mla", where)
        yield from linear("o_proj", hidden, heads * mla.v_head_dim, "mla", where, bias=bias)
        if self.indexer and mla.q_lora_rank is not None:
            yield from self.indexer_tensors(c, where, hidden, mla.q_lora_rank)

    def indexer_tensors(self, c: Config, where: Where, hidden: int, rank: int) -> Iterator[Tensor]:
        where = Where(where.stack, tuple(index for index in where.layers if has_indexer(c, index)))
        heads, width = c.size("index_n_heads"), c.size("index_head_dim")
        yield from linear("wq_b", heads * width, rank, "mla", where)
        yield from linear("wk", width, hidden, "mla", where)
        yield from norm("k_norm", width, where, bias=True)
        yield from linear("weights_proj", heads, hidden, "mla", where)

    def facts(self, c: Config) -> dict[str, Any]:
        mla, heads = self.read(c), c.size("num_attention_heads")
        return {
            "heads": heads,
            "kv_heads": heads,
            "head_dim": mla.qk_nope_head_dim + mla.qk_rope_head_dim,
            "kv_elements": mla.kv_lora_rank + mla.qk_rope_head_dim,
            "index_elements": c.size("index_head_dim") if self.indexer else 0,
        }

    def describe(self, c: Config, body: Body) -> None:
        body.mla = self.read(c)


def has_indexer(c: Config, index: int) -> bool:
    """GLM-5.2: layers marked ``shared`` reuse the selection of the layer before (``indexer_types``, or a schedule)."""
    kinds = c.sequence("indexer_types")
    if kinds is not None:
        return index >= len(kinds) or kinds[index] != "shared"
    pattern = c.raw.get("index_topk_pattern")
    if isinstance(pattern, (str, list)):
        return index >= len(pattern) or pattern[index] not in ("S", "shared")
    period = max(c.count("index_topk_freq", 1), 1)
    offset = c.count("index_skip_topk_offset", 2)
    return max(index - offset + 1, 0) % period == 0


def dense_first(mixer: Any = "full_attention", *, first: str = "first_k_dense_replace", usual: int = 0) -> Plan:
    """Dense layers first, experts in the rest (or in every ``moe_layer_freq``-th), or as ``mlp_layer_types`` says."""

    def plan(c: Config) -> tuple[Slot, ...]:
        count = c.size("num_hidden_layers")
        named = c.sequence("mlp_layer_types")
        if named is not None and len(named) == count:
            return tuple(Slot(mixer, "moe" if kind == "sparse" else "dense") for kind in named)
        dense = c.count(first, usual)
        every = c.raw.get("moe_layer_freq", 1)
        if isinstance(every, (list, tuple)):
            return tuple(
                Slot(mixer, "moe" if index < len(every) and every[index] else "dense") for index in range(count)
            )
        every = whole("moe_layer_freq", every, at_least=1)
        return tuple(Slot(mixer, "moe" if index >= dense and index % every == 0 else "dense") for index in range(count))

    return plan


def all_experts(c: Config) -> tuple[Slot, ...]:
    return tuple(slot._replace(feed_forward="moe") for slot in windowed(c))


def qwen_moe_plan(c: Config) -> tuple[Slot, ...]:
    """Experts in every ``decoder_sparse_step``-th layer except ``mlp_only_layers``."""
    step = c.size("decoder_sparse_step", 1)
    dense = c.indexes("mlp_only_layers") or frozenset()
    return tuple(
        Slot("full_attention", "moe" if index not in dense and (index + 1) % step == 0 else "dense")
        for index in range(c.size("num_hidden_layers"))
    )


def gpt_oss_plan(c: Config) -> tuple[Slot, ...]:
    slots = typed(c, lambda index: "sliding_attention" if (index + 1) % 2 else "full_attention")
    return tuple(slot._replace(feed_forward="moe") for slot in slots)


def llama4_plan(c: Config) -> tuple[Slot, ...]:
    """Chunked attention with every fourth layer full and without positions; experts in every n-th layer."""
    count = c.size("num_hidden_layers")
    positions = c.sequence("no_rope_layers") or ()
    step = c.size("no_rope_layer_interval", 4)
    plain = [bool(positions[i]) if len(positions) == count else bool((i + 1) % step) for i in range(count)]
    listed = c.indexes("moe_layers")
    every = c.size("interleave_moe_layer_step", 1)
    sparse = listed if listed is not None else frozenset(range(every - 1, count, every))
    slots = typed(c, lambda index: "chunked_attention" if plain[index] else "full_attention")
    return tuple(slot._replace(feed_forward="moe" if i in sparse else "dense") for i, slot in enumerate(slots))


def ernie_plan(c: Config) -> tuple[Slot, ...]:
    count = c.size("num_hidden_layers")
    first, every = c.count("moe_layer_start_index", 1), c.size("moe_layer_interval", 1)
    stated = c.get("moe_layer_end_index", -1)
    last = count - 1 if not isinstance(stated, int) or stated < 0 else stated
    return tuple(
        Slot("full_attention", "moe" if (index + 1) % every == 0 and first <= index <= last else "dense")
        for index in range(count)
    )


def ernie_correction(c: Config, where: Where) -> Iterator[Tensor]:
    sparse = tuple(index for index, slot in enumerate(ernie_plan(c)) if slot.feed_forward == "moe")
    yield from matrix("moe_statics", (1, c.size("moe_num_experts")), "router", Where(where.stack, sparse))


def times(count: str, width: str = "moe_intermediate_size") -> Callable[[Config], int]:
    """Shared experts are one MLP of their summed width."""
    return lambda c: c.count(count) * c.size(width)


def mimo_plan(c: Config) -> tuple[Slot, ...]:
    slots = typed(c, lambda index: "full_attention" if index == 0 or (index + 1) % 6 == 0 else "sliding_attention")
    sparse = dense_first(usual=1)(c)
    return tuple(slot._replace(feed_forward=other.feed_forward) for slot, other in zip(slots, sparse, strict=True))


@dataclass(frozen=True)
class MimoAttention:
    """MiMo-V2: values narrower than keys; window layers have twice the key-value heads, and sinks."""

    sliding: bool = False

    def sizes(self, c: Config) -> tuple[int, int, int, int]:
        heads, kv_heads = c.size("num_attention_heads"), c.size("num_key_value_heads")
        if self.sliding:
            kv_heads = c.size("swa_num_key_value_heads", 2 * kv_heads)
        divide("num_attention_heads", heads, "num_key_value_heads", kv_heads)
        return heads, kv_heads, c.size("head_dim"), c.size("v_head_dim")

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, kv_heads, width, values = self.sizes(c)
        hidden, bias = c.size("hidden_size"), c.flag("attention_bias")
        yield from linear("q_proj", heads * width, hidden, "attention", where, bias=bias)
        yield from linear("k_proj", kv_heads * width, hidden, "attention", where, bias=bias)
        yield from linear("v_proj", kv_heads * values, hidden, "attention", where, bias=bias)
        yield from linear("o_proj", hidden, heads * values, "attention", where)
        if self.sliding:
            yield from vector("sinks", heads, "attention", where)

    def facts(self, c: Config) -> dict[str, Any]:
        heads, kv_heads, width, values = self.sizes(c)
        return {"heads": heads, "kv_heads": kv_heads, "head_dim": width, "kv_elements": kv_heads * (width + values)}


@dataclass(frozen=True)
class CompressedAttention:
    """DeepSeek-V4: one latent per token as key and value, kept whole in a window and compressed beyond it."""

    kind: str = "sliding_attention"

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, heads, width = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim")
        rank, groups, out_rank = c.size("q_lora_rank"), c.size("o_groups"), c.size("o_lora_rank")
        yield from vector("sinks", heads, "mla", where)
        yield from linear("q_a_proj", rank, hidden, "mla", where)
        yield from norm("q_a_norm", rank, where)
        yield from linear("q_b_proj", heads * width, rank, "mla", where)
        yield from linear("kv_proj", width, hidden, "mla", where)
        yield from norm("kv_norm", width, where)
        grouped = divide("num_attention_heads × head_dim", heads * width, "o_groups", groups)
        yield from linear("o_a_proj", groups * out_rank, grouped, "mla", where)
        yield from linear("o_b_proj", hidden, groups * out_rank, "mla", where)
        if self.kind != "sliding_attention":
            yield from self.compressor(c, where, hidden, width, rank)

    def compressor(self, c: Config, where: Where, hidden: int, width: int, rank: int) -> Iterator[Tensor]:
        overlap = 2 if self.kind == "compressed_sparse_attention" else 1
        rate = compress_rate(c, self.kind)
        yield from matrix("position_bias", (rate, overlap * width), "mla", where)
        yield from linear("kv_proj", overlap * width, hidden, "mla", where)
        yield from linear("gate_proj", overlap * width, hidden, "mla", where)
        yield from norm("kv_norm", width, where)
        if overlap == 2:
            heads, narrow = c.size("index_n_heads"), c.size("index_head_dim")
            yield from matrix("position_bias", (rate, 2 * narrow), "mla", where)
            yield from linear("kv_proj", 2 * narrow, hidden, "mla", where)
            yield from linear("gate_proj", 2 * narrow, hidden, "mla", where)
            yield from norm("kv_norm", narrow, where)
            yield from linear("q_b_proj", heads * narrow, rank, "mla", where)
            yield from linear("weights_proj", heads, hidden, "mla", where)

    def facts(self, c: Config) -> dict[str, Any]:
        sparse = self.kind == "compressed_sparse_attention"
        return {
            "heads": c.size("num_attention_heads"),
            "kv_heads": 1,
            "head_dim": c.size("head_dim"),
            "kv_elements": c.size("head_dim"),
            "kv_compression": 1 if self.kind == "sliding_attention" else compress_rate(c, self.kind),
            "index_elements": c.size("index_head_dim") if sparse else 0,
        }


COMPRESS_RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
"""DeepSeek-V4's usual tokens per entry (transformers 5.24 configuration_deepseek_v4.py)."""


def compress_rate(c: Config, kind: str) -> int:
    stated = c.raw.get("compress_rates")
    value = stated.get(kind, COMPRESS_RATES[kind]) if isinstance(stated, dict) else COMPRESS_RATES[kind]
    return whole("compress_rates", value, at_least=1)


def deepseek_v4_plan(c: Config) -> tuple[Slot, ...]:
    """``layer_types``, or the older ``compress_ratios`` (0, 4, 128 per layer), or two heavy layers and then in turn."""
    count = c.size("num_hidden_layers")
    window = c.size("sliding_window")
    kinds = c.sequence("layer_types")
    ratios = c.sequence("compress_ratios")
    if kinds is None and ratios is not None:
        by_ratio = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
        kinds = [by_ratio.get(ratio, "") if isinstance(ratio, int) else "" for ratio in ratios]
    if kinds is None:
        light, heavy = "compressed_sparse_attention", "heavily_compressed_attention"
        kinds = [heavy if index < 2 or index % 2 else light for index in range(count)]
    if len(kinds) < count:
        raise UnknownArchitecture(f"layer_types names {len(kinds)} layers, num_hidden_layers is {count}")
    slots = []
    for kind in kinds[:count]:
        if kind == "sliding_attention":
            slots.append(Slot("sliding_attention", "moe", window, part="sliding_attention"))
        elif isinstance(kind, str) and kind in COMPRESS_RATES:
            slots.append(Slot("full_attention", "moe", part=kind))
        else:
            raise UnknownArchitecture(f"layer_types names {kind!r}, which deepseek_v4 does not have")
    return tuple(slots)


def hyper_connections(c: Config, where: Where) -> Iterator[Tensor]:
    """DeepSeek-V4's manifold hyper-connections: ``hc_mult`` residual streams."""
    streams, hidden = c.size("hc_mult"), c.size("hidden_size")
    mixed = (2 + streams) * streams
    for module in ("attn_hc", "ffn_hc"):
        yield from matrix(module, (mixed, streams * hidden), "other", where)
        yield from vector(module, mixed, "other", where)
        yield from vector(module, 3, "other", where)
    yield from matrix("hc_head", (streams, streams * hidden), "other")
    yield from vector("hc_head", streams, "other")
    yield from vector("hc_head", 1, "other")


class IndexedAttention(Attention):
    """MiniMax-M3's sparse attention: an indexer chooses the blocks that a token attends to."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        heads, width, hidden = c.size("index_n_heads"), c.size("index_head_dim"), c.size("hidden_size")
        yield from linear("q_proj", heads * width, hidden, "attention", where)
        yield from linear("k_proj", width, hidden, "attention", where)
        yield from norm("q_norm", width, where)
        yield from norm("k_norm", width, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {**super().facts(c), "index_elements": c.size("index_head_dim")}


def minimax_m3_plan(c: Config) -> tuple[Slot, ...]:
    """``layer_types`` and ``mlp_layer_types``, or their older spellings as lists of 0 and 1."""
    count = c.size("num_hidden_layers")
    sparse = c.raw.get("sparse_attention_config")
    flags = sparse.get("sparse_attention_freq") if isinstance(sparse, dict) else None
    kinds = c.sequence("layer_types") or (
        ["minimax_m3_sparse" if flag else "" for flag in flags] if flags else [""] * count
    )
    named, frequency = c.sequence("mlp_layer_types"), c.sequence("moe_layer_freq")
    experts = [kind == "sparse" for kind in named] if named else [bool(flag) for flag in frequency or [1] * count]
    if len(kinds) != count or len(experts) != count:
        raise UnknownArchitecture(f"the layer lists do not have num_hidden_layers {count} entries")
    return tuple(
        Slot(
            "full_attention",
            "moe" if expert else "dense",
            part="indexed" if kind == "minimax_m3_sparse" else "full_attention",
        )
        for kind, expert in zip(kinds, experts, strict=True)
    )


DENSE_BASE = Decoder(tie_default=False)

MIXTRAL = replace(DENSE_BASE, feed_forwards={"moe": Experts(width="intermediate_size")}, plan=all_experts)
QWEN2_MOE = replace(
    DENSE_BASE,
    mixers=full(bias="qkv_bias"),
    feed_forwards={
        "dense": Mlp(),
        "moe": Experts(
            "num_experts", shared=lambda c: c.size("shared_expert_intermediate_size"), shared_gate="shared_expert_gate"
        ),
    },
    plan=qwen_moe_plan,
)
QWEN3_MOE = replace(
    DENSE_BASE,
    mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head"),
    feed_forwards={"dense": Mlp(), "moe": Experts("num_experts")},
    plan=qwen_moe_plan,
)
DEEPSEEK = replace(
    DENSE_BASE,
    mixers={"mla": LatentAttention()},
    feed_forwards={"dense": Mlp(), "moe": Experts("n_routed_experts", shared=times("n_shared_experts"))},
    plan=dense_first("mla"),
)
DEEPSEEK_V32 = replace(DEEPSEEK, mixers={"mla": LatentAttention(indexer=True)})
DEEPSEEK_V4 = replace(
    DENSE_BASE,
    mixers={
        kind: CompressedAttention(kind)
        for kind in ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
    },
    feed_forwards={"moe": Experts("n_routed_experts", shared=times("n_shared_experts"))},
    plan=deepseek_v4_plan,
    extra=hyper_connections,
)
GLM4_MOE = replace(
    DENSE_BASE,
    mixers=full(bias="attention_bias", qk_norm="head", qk_norm_if="use_qk_norm"),
    feed_forwards={"dense": Mlp(), "moe": Experts("n_routed_experts", shared=times("n_shared_experts"))},
    plan=dense_first(usual=1),
)

DEEPSEEK_MOE = replace(
    DENSE_BASE,
    mixers=full(bias="attention_bias"),
    feed_forwards={"dense": Mlp(), "moe": Experts("n_routed_experts", shared=times("n_shared_experts"))},
    plan=dense_first(),
)
"""DeepSeekMoE, before latent attention (modeling_deepseek.py beside the checkpoints)."""


def bailing_correction(c: Config, where: Where) -> Iterator[Tensor]:
    """Ling 2's routers add a bias of their own to each expert's score."""
    if c.flag("moe_router_enable_expert_bias"):
        sparse = tuple(index for index, slot in enumerate(dense_first()(c)) if slot.feed_forward == "moe")
        yield from vector("expert_bias", c.size("num_experts"), "router", Where(where.stack, sparse))


BAILING = replace(
    DENSE_BASE,
    mixers={
        "full_attention": Attention(
            fused="query_key_value",
            o="dense",
            bias="use_qkv_bias",
            output_bias="use_bias",
            qk_norm="head",
            qk_norm_if="use_qk_norm",
            q_norm="query_layernorm",
            k_norm="key_layernorm",
        )
    },
    feed_forwards={"dense": Mlp(), "moe": Experts("num_experts", shared=times("num_shared_experts"))},
    plan=dense_first(),
    extra=bailing_correction,
    embedding="word_embeddings",
)
"""Ling and LLaDA 2 (modeling_bailing_moe.py, modeling_bailing_moe_v2.py beside the checkpoints)."""


class OutputGatedAttention(Attention):
    """Trinity's attention: a projection of its own gates the output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        heads, _, width = self.read(c)
        yield from linear("gate_proj", heads * width, c.size("hidden_size"), "attention", where)


def afmoe_plan(c: Config) -> tuple[Slot, ...]:
    sparse = dense_first(first="num_dense_layers", usual=1)(c)
    if not c.get("sliding_window"):
        return sparse
    every = c.size("global_attn_every_n_layers", 4)
    slots = typed(c, lambda index: "sliding_attention" if (index + 1) % every else "full_attention")
    return tuple(slot._replace(feed_forward=other.feed_forward) for slot, other in zip(slots, sparse, strict=True))


def afmoe_correction(c: Config, where: Where) -> Iterator[Tensor]:
    sparse = tuple(index for index, slot in enumerate(afmoe_plan(c)) if slot.feed_forward == "moe")
    yield from vector("expert_bias", c.size("num_experts"), "router", Where(where.stack, sparse))


AFMOE = replace(
    DENSE_BASE,
    mixers={kind: OutputGatedAttention(qk_norm="head") for kind in ("full_attention", "sliding_attention")},
    feed_forwards={
        "dense": Mlp(),
        "moe": Experts("num_experts", router_is_linear=True, shared=times("num_shared_experts")),
    },
    plan=afmoe_plan,
    norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
    extra=afmoe_correction,
)

DBRX = replace(
    DENSE_BASE,
    mixers={"full_attention": Attention(fused="Wqkv", o="out_proj")},
    feed_forwards={
        "moe": Experts(
            "moe_num_experts",
            top_k="moe_top_k",
            width="ffn_hidden_size",
            gate="w1",
            up="v1",
            down="w2",
            router="layer",
            router_is_linear=True,
            separate_before_5=False,
        )
    },
    plan=lambda c: (Slot("full_attention", "moe"),) * c.size("num_hidden_layers"),
    norms=("norm_1", "norm_2"),
    norm="layernorm",
    embedding="wte",
    final_norm="norm_f",
)


def dbrx(c: Config) -> Body:
    """DBRX keeps the sizes of attention and experts in ``attn_config`` and ``ffn_config``."""
    raw = dict(c.raw)
    for key in ("attn_config", "ffn_config"):
        part = c.raw.get(key)
        if isinstance(part, Mapping):
            raw.update((name, value) for name, value in part.items() if name not in ("model_type", "hidden_size"))
    raw.setdefault("num_key_value_heads", raw.get("kv_n_heads"))
    return DBRX(Config(raw, c.model_type, nested=c.nested))


GPT_OSS_EXPERTS = Experts(
    width="intermediate_size", bias=True, router="router", router_bias=True, separate_before_5=False
)
GPT_OSS = replace(
    DENSE_BASE,
    mixers=full(bias="attention_bias", output_bias="attention_bias", sinks=True),
    feed_forwards={"moe": GPT_OSS_EXPERTS},
    plan=gpt_oss_plan,
)

FAMILIES: dict[str, Family] = {
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2_MOE,
    "qwen3_moe": QWEN3_MOE,
    "olmoe": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="full"),
        feed_forwards={"moe": Experts("num_experts", width="intermediate_size")},
        plan=all_experts,
    ),
    "minimax_m2": replace(
        DENSE_BASE,
        mixers=full(qk_norm="full", qk_norm_if=lambda c: bool(c.get("use_qk_norm", True))),
        feed_forwards={"moe": Experts(width="intermediate_size")},
        plan=lambda c: (Slot("full_attention", "moe"),) * c.size("num_hidden_layers"),
    ),
    "phimoe": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias"),
        feed_forwards={"moe": Experts(width="intermediate_size", router="router", router_is_linear=True)},
        plan=all_experts,
        norm="layernorm",
        norm_bias=True,
        head_bias="lm_head_bias",
    ),
    "gpt_oss": GPT_OSS,
    "granitemoe": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias"),
        feed_forwards={
            "moe": Experts(width="intermediate_size", router="router", separate_before_5=False),
        },
        plan=all_experts,
    ),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "kimi_k2": DEEPSEEK,
    "deepseek_v32": DEEPSEEK_V32,
    "glm_moe_dsa": DEEPSEEK_V32,
    "deepseek_v4": DEEPSEEK_V4,
    "glm4_moe": GLM4_MOE,
    "dots1": replace(GLM4_MOE, mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head")),
    "hunyuan_v1_moe": replace(
        DENSE_BASE,
        mixers=full(
            bias="attention_bias",
            output_bias="attention_bias",
            qk_norm="head",
            q_norm="query_layernorm",
            k_norm="key_layernorm",
        ),
        feed_forwards={
            "moe": Experts(
                "num_experts",
                top_k="moe_topk",
                width="intermediate_size",
                router="wg",
                router_is_linear=True,
                shared=lambda c: c.size("intermediate_size"),
            )
        },
        plan=lambda c: (Slot("full_attention", "moe"),) * c.size("num_hidden_layers"),
    ),
    "ernie4_5_moe": replace(
        DENSE_BASE,
        mixers=full(bias="use_bias", output_bias="use_bias"),
        feed_forwards={
            "dense": Mlp(bias="use_bias"),
            "moe": Experts("moe_num_experts", top_k="moe_k", shared=times("moe_num_shared_experts")),
        },
        plan=ernie_plan,
        extra=ernie_correction,
    ),
    "dbrx": dbrx,
    "llama4_text": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias"),
        feed_forwards={
            "dense": Mlp(width="intermediate_size_mlp"),
            "moe": Experts(
                width="intermediate_size",
                router="router",
                router_is_linear=True,
                separate_before_5=False,
                shared=lambda c: c.size("intermediate_size"),
            ),
        },
        plan=llama4_plan,
    ),
    "mimo_v2_flash": replace(
        DENSE_BASE,
        mixers={"full_attention": MimoAttention(), "sliding_attention": MimoAttention(sliding=True)},
        feed_forwards={"dense": Mlp(), "moe": Experts("n_routed_experts")},
        plan=mimo_plan,
    ),
    "minimax_m3_vl_text": replace(
        DENSE_BASE,
        mixers={"full_attention": Attention(qk_norm="head"), "indexed": IndexedAttention(qk_norm="head")},
        feed_forwards={
            "dense": Mlp(fused="gate_up_proj", width="dense_intermediate_size"),
            "moe": Experts(
                width="intermediate_size",
                shared=lambda c: c.size("shared_intermediate_size"),
                shared_fused="gate_up_proj",
            ),
        },
        plan=minimax_m3_plan,
    ),
    "qwen3_vl_moe_text": QWEN3_MOE,
    "deepseek": DEEPSEEK_MOE,
    "afmoe": AFMOE,
    "hy_v3": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="head"),
        feed_forwards={
            "dense": Mlp(bias="mlp_bias"),
            "moe": Experts("num_experts", shared=times("num_shared_experts")),
        },
        plan=dense_first(usual=1),
    ),
    "solar_open": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias"),
        feed_forwards={"moe": Experts("n_routed_experts", shared=times("n_shared_experts"))},
        plan=lambda c: (Slot("full_attention", "moe"),) * c.size("num_hidden_layers"),
    ),
    "flex_olmo": replace(
        DENSE_BASE,
        mixers=full(bias="attention_bias", output_bias="attention_bias", qk_norm="full"),
        feed_forwards={"moe": Experts("num_experts", width="intermediate_size")},
        plan=lambda c: (Slot("full_attention", "moe"),) * c.size("num_hidden_layers"),
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    "youtu": replace(
        DEEPSEEK, feed_forwards={"dense": Mlp()}, plan=lambda c: (Slot("mla"),) * c.size("num_hidden_layers")
    ),
    "bailing_moe": BAILING,
    "llada2_moe": BAILING,
}
FAMILIES["grinmoe"] = FAMILIES["phimoe"]
