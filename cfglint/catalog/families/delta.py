"""Hybrids of latent or softmax attention with linear attention that decays per channel or per head: Kimi Linear and K3, Ling 2.5
to 3, GLM-5.3-Flash, OLMo Hybrid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cfglint.catalog.architecture import Mla, StateSpace, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config
from cfglint.catalog.families.hybrid import LightningAttention, convolution
from cfglint.catalog.families.moe import DEEPSEEK, Experts, LatentAttention, dense_first, hyper_connections, times
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Mlp,
    Slot,
    Where,
    linear,
    matrix,
    norm,
    vector,
)

LINEAR: Final = "linear_attention"


def linear_sizes(c: Config) -> tuple[int, int, int]:
    """Heads, head size and convolution kernel: in ``linear_attn_config`` (Kimi), as ``linear_…`` (GLM) or those of attention (Ling)."""
    stated = c.raw.get("linear_attn_config")
    if isinstance(stated, Mapping):
        inner = Config(stated, c.model_type, nested=True)
        return inner.size("num_heads"), inner.size("head_dim", 128), inner.size("short_conv_kernel_size", 4)
    if c.raw.get("linear_num_heads") is not None:
        return c.size("linear_num_heads"), c.size("linear_head_dim"), c.size("linear_conv_kernel_dim", 4)
    return c.size("num_attention_heads"), c.size("head_dim", 128), c.size("short_conv_kernel_size", 4)


def full_rank_gate(c: Config) -> bool:
    """Kimi K3: the output gate is one projection, the decay is not."""
    stated = c.raw.get("linear_attn_config")
    return isinstance(stated, Mapping) and bool(stated.get("use_full_rank_gate"))


@dataclass(frozen=True)
class KimiDelta:
    """Kimi delta attention (arXiv 2510.26692, section 3): a decay per channel, short convolutions on queries, keys and values."""

    full_rank: bool = False
    """Decay and output gate are one projection each (Ling 3), not two through the head size (Kimi Linear)."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, width, kernel = linear_sizes(c)
        hidden, inner = c.size("hidden_size"), heads * width
        for module in ("q_proj", "k_proj", "v_proj"):
            yield from linear(module, inner, hidden, LINEAR, where)
        yield from convolution(3 * inner, kernel, where, bias=False, role=LINEAR)
        yield from vector("A_log", heads, LINEAR, where)
        yield from vector("dt_bias", inner, LINEAR, where)
        for name, whole in (("f", self.full_rank), ("g", self.full_rank or full_rank_gate(c))):
            if whole:
                yield from linear(f"{name}_proj", inner, hidden, LINEAR, where)
            else:
                yield from linear(f"{name}_a_proj", width, hidden, LINEAR, where)
                yield from linear(f"{name}_b_proj", inner, width, LINEAR, where)
        yield from linear("b_proj", heads, hidden, LINEAR, where)
        yield from norm("o_norm", width, where, role=LINEAR)
        yield from linear("o_proj", hidden, inner, LINEAR, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        heads, width, kernel = linear_sizes(c)
        body.ssm = StateSpace("kimi-delta", 3 * heads * width * (kernel - 1), heads * width * width, heads * width)


class KimiLatentAttention(LatentAttention):
    """Kimi K3 gates every element of the output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        if c.flag("mla_use_output_gate"):
            out = c.size("num_attention_heads") * c.size("v_head_dim")
            yield from linear("g_proj", out, c.size("hidden_size"), "mla", where)


class KimiExperts(Experts):
    """Kimi K3's experts work in a narrower space (``routed_expert_hidden_size``)."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        if c.get("routed_expert_hidden_size") and c.flag("latent_moe_use_norm"):
            yield from norm("routed_expert_norm", c.size("routed_expert_hidden_size"), where)


def attention_residuals(c: Config, where: Where) -> Iterator[Tensor]:
    """Kimi K3: what earlier blocks put out is mixed in before attention, before the MLP and at the end."""
    if not c.get("attn_res_block_size"):
        return
    hidden = c.size("hidden_size")
    for module in ("self_attention_res", "mlp_res"):
        yield from norm(f"{module}_norm", hidden, where)
        yield from linear(f"{module}_proj", 1, hidden, "other", where)
    yield from norm("output_attn_res_norm", hidden)
    yield from linear("output_attn_res_proj", 1, hidden, "other")


class PooledIndexer(LatentAttention):
    """GLM-5.3-Flash: the indexer scores pools of ``index_kpool`` keys."""

    def indexer_tensors(self, c: Config, where: Where, hidden: int, rank: int) -> Iterator[Tensor]:
        yield from super().indexer_tensors(c, where, hidden, rank)
        width = c.size("index_head_dim")
        yield from matrix("index_kpool_compress_ape", (c.size("index_kpool", 16), width), "mla", where)
        yield from matrix("index_kpool_compress_gate", (width, hidden), "mla", where)

    def read(self, c: Config) -> Mla:
        if c.raw.get("qk_rope_head_dim") == 0:  # no positions at all
            rank = c.size("q_lora_rank")
            return Mla(c.size("kv_lora_rank"), rank, 0, c.size("qk_nope_head_dim"), c.size("v_head_dim"))
        return super().read(c)


def streams(c: Config, where: Where) -> Iterator[Tensor]:
    """Hyper-connections of every layer, without DeepSeek-V4's at the end."""
    for tensor in hyper_connections(c, where):
        if tensor.stack:
            yield tensor


class GatedLatentAttention(LatentAttention):
    """Ling 3's latent attention: one gate per head on the output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        yield from linear("g_proj", c.size("num_attention_heads"), c.size("hidden_size"), "mla", where)


@dataclass(frozen=True)
class LingLightning(LightningAttention):
    """Ling 2.5's lightning attention (modeling_bailing_moe_v2_5.py beside the checkpoints)."""

    attention: Attention = field(default_factory=lambda: Attention(kv_heads=""))

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, _, width = self.attention.read(c)
        hidden, inner = c.size("hidden_size"), heads * width
        bias = c.flag("use_qkv_bias") or c.flag("use_bias")
        yield from linear("query_key_value", 3 * inner, hidden, LINEAR, where, bias=bias)
        if c.flag("use_qk_norm", True):
            yield from norm("query_layernorm", width, where)
            yield from norm("key_layernorm", width, where)
        yield from linear("g_proj", inner, hidden, LINEAR, where)
        yield from norm("g_norm", inner, where, role=LINEAR)
        yield from linear("dense", hidden, inner, LINEAR, where, bias=c.flag("use_bias"))


@dataclass(frozen=True)
class OlmoDelta:
    """OLMo Hybrid's gated delta net: separate projections, values wider than keys."""

    def sizes(self, c: Config) -> tuple[int, int, int, int]:
        """Width of all keys and of all values, value heads, kernel."""
        keys = c.size("linear_num_key_heads") * c.size("linear_key_head_dim")
        heads = c.size("linear_num_value_heads")
        return keys, heads * c.size("linear_value_head_dim"), heads, c.size("linear_conv_kernel_dim", 4)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        keys, values, heads, kernel = self.sizes(c)
        hidden = c.size("hidden_size")
        yield from norm("input_layernorm", hidden, where)
        yield from vector("A_log", heads, LINEAR, where)
        yield from vector("dt_bias", heads, LINEAR, where)
        for module, out in (
            ("q_proj", keys), ("k_proj", keys), ("v_proj", values), ("a_proj", heads), ("b_proj", heads), ("g_proj", values),
        ):  # fmt: skip
            yield from linear(module, out, hidden, LINEAR, where)
        yield from linear("o_proj", hidden, values, LINEAR, where)
        yield from convolution(2 * keys + values, kernel, where, bias=False, role=LINEAR)
        yield from norm("o_norm", c.size("linear_value_head_dim"), where, role=LINEAR)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        keys, values, heads, kernel = self.sizes(c)
        state = heads * c.size("linear_key_head_dim") * c.size("linear_value_head_dim")
        body.ssm = StateSpace("gated-deltanet", (2 * keys + values) * (kernel - 1), state, values)


class SolarAttention(Attention):
    """Solar Open 2 gates every element of the output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        if c.flag("use_gqa_gate", True):
            heads, _, width = self.read(c)
            yield from linear("g_proj", heads * width, c.size("hidden_size"), "attention", where)


class OlmoAttention(Attention):
    """Its attention layers norm what they put out, their linear layers what they take in."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        yield from norm("post_feedforward_layernorm", c.size("hidden_size"), where)


def kinds(c: Config) -> list[str] | None:
    """``layer_types``, or which layers ``linear_attn_config`` lists, counted from one."""
    named = c.sequence("layer_types")
    if named is not None:
        return [str(kind) for kind in named]
    stated = c.raw.get("linear_attn_config")
    full = stated.get("full_attn_layers") if isinstance(stated, Mapping) else None
    if not isinstance(full, (list, tuple)):
        return None
    return ["full_attention" if index + 1 in full else LINEAR for index in range(c.size("num_hidden_layers"))]


def grouped(c: Config, full: str = "mla") -> tuple[Slot, ...]:
    """The last layer of every ``layer_group_size`` has full attention; experts as ``dense_first`` says."""
    count, group = c.size("num_hidden_layers"), c.size("layer_group_size", 4)
    named = kinds(c) or [LINEAR if (index + 1) % group else "full_attention" for index in range(count)]
    if len(named) != count:
        raise UnknownArchitecture(f"layer_types names {len(named)} layers, num_hidden_layers is {count}")
    sparse = dense_first()(c)
    slots = []
    for kind, other in zip(named, sparse, strict=True):
        if kind not in (LINEAR, "full_attention", "indexed_attention"):
            raise UnknownArchitecture(f"layer_types names {kind!r}, which {c.model_type} does not have")
        mixer: Any = LINEAR if kind == LINEAR else full
        slots.append(Slot(mixer, other.feed_forward))
    return tuple(slots)


def solar_plan(c: Config) -> tuple[Slot, ...]:
    """Every ``gqa_interval``-th layer, or those of ``gqa_layers``, has softmax attention; experts in all."""
    chosen, every = c.indexes("gqa_layers"), c.size("gqa_interval", 4)
    named = kinds(c) if c.sequence("layer_types") is not None else None
    slots: list[Slot] = []
    for index in range(c.size("num_hidden_layers")):
        full = (
            named[index : index + 1] == ["full_attention"]
            if named is not None
            else (index in chosen if chosen is not None else (index + 1) % every == 0)
        )
        slots.append(Slot("full_attention" if full else LINEAR, "moe"))
    return tuple(slots)


def olmo_plan(c: Config) -> tuple[Slot, ...]:
    return tuple(slot._replace(feed_forward="dense") for slot in grouped(c, "full_attention"))


LING3 = replace(
    DEEPSEEK,
    mixers={"mla": GatedLatentAttention(), LINEAR: KimiDelta(full_rank=True)},
    feed_forwards={"dense": Mlp(), "moe": Experts("num_experts", shared=times("num_shared_experts"))},
    plan=grouped,
    embedding="word_embeddings",
)
LING25 = replace(LING3, mixers={"mla": LatentAttention(bias="use_bias"), LINEAR: LingLightning()})


def bailing_hybrid(c: Config) -> Body:
    """Ling 2.5 and Ling 3 share a ``model_type``; Ling 3's configs state ``short_conv_kernel_size``."""
    return (LING3 if c.raw.get("short_conv_kernel_size") is not None else LING25)(c)


FAMILIES: dict[str, Family] = {
    "solar_open2": replace(
        DEEPSEEK, mixers={"full_attention": SolarAttention(bias="attention_bias"), LINEAR: KimiDelta()}, plan=solar_plan
    ),
    "bailing_hybrid": bailing_hybrid,
    "kimi_linear": replace(
        DEEPSEEK,
        mixers={"mla": KimiLatentAttention(), LINEAR: KimiDelta()},
        feed_forwards={
            "dense": Mlp(),
            "moe": KimiExperts(
                "num_experts",
                top_k="num_experts_per_token",
                shared=times("num_shared_experts"),
                latent="routed_expert_hidden_size",
            ),
        },
        plan=grouped,
        extra=attention_residuals,
    ),
    "glm5_next_text": replace(
        DEEPSEEK,
        mixers={"mla": PooledIndexer(indexer=True), LINEAR: KimiDelta()},
        plan=grouped,
        extra=streams,
    ),
    "olmo_hybrid": Decoder(
        mixers={LINEAR: OlmoDelta(), "full_attention": OlmoAttention(qk_norm="full")},
        plan=olmo_plan,
        norms=("post_attention_layernorm",),
        tie_default=False,
    ),
}
