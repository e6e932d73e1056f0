"""Gemma 3n and Gemma 4: layers that share caches, per-layer embeddings, two head sizes, experts beside a dense MLP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.architecture import Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, whole
from cfglint.catalog.families.dense import GEMMA2, GEMMA3
from cfglint.catalog.families.moe import Experts
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Mlp,
    Part,
    Where,
    linear,
    matrix,
    norm,
    read_heads,
    typed,
    vector,
)


@dataclass(frozen=True)
class Reusing:
    """Attention over another layer's keys and values: no projections of its own for them, nothing cached."""

    attention: Attention

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        for tensor in self.attention.tensors(c, where):
            if tensor.module not in ("k_proj", "v_proj", "k_norm"):
                yield tensor

    def facts(self, c: Config) -> dict[str, Any]:
        return {**self.attention.facts(c), "kv_elements": 0}


@dataclass(frozen=True)
class Widened(Mlp):
    """An MLP of a stated width (Gemma 3n lists one per layer) or of a multiple of the config's."""

    stated: int = 0
    factor: int = 1

    def read(self, c: Config) -> int:
        return self.stated or self.factor * c.size("intermediate_size")


class GlobalAttention(Attention):
    """Gemma 4's full-attention layers: heads of their own size and, where keys are values, their own key-value heads."""

    def read(self, c: Config) -> Any:
        width = c.size("global_head_dim", 512)
        if self.shared_kv and c.get("num_global_key_value_heads") is not None:
            return read_heads(c, kv_heads="num_global_key_value_heads", head_dim="")._replace(head_dim=width)
        return super().read(c)._replace(head_dim=width)


@dataclass(frozen=True)
class ExpertsBeside:
    """Gemma 4's experts run beside the dense MLP of the same layer, with norms and scales of their own."""

    experts: Experts
    dense: Mlp

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden = c.size("hidden_size")
        yield from self.dense.tensors(c, where)
        yield from self.experts.tensors(c, where)
        yield from vector("router", hidden, "router", where)
        yield from vector("router", c.size("num_experts"), "router", where)
        for module in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
            yield from norm(module, hidden, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return self.experts.facts(c)

    def describe(self, c: Config, body: Body) -> None:
        self.experts.describe(c, body)


def per_layer_inputs(c: Config, where: Where) -> Iterator[Tensor]:
    """A small embedding per token and layer, projected into the residual stream."""
    width = c.count("hidden_size_per_layer_input")
    if not width:
        return
    hidden, together = c.size("hidden_size"), len(where.layers) * width
    vocabulary = c.size("vocab_size_per_layer_input", c.size("vocab_size"))
    yield from matrix("embed_tokens_per_layer", (vocabulary, together), "embedding")
    yield from linear("per_layer_model_projection", together, hidden, "other")
    yield from norm("per_layer_projection_norm", width)
    yield from linear("per_layer_input_gate", width, hidden, "other", where)
    yield from linear("per_layer_projection", hidden, width, "other", where)
    yield from norm("post_per_layer_input_norm", hidden, where)


def gemma3n_extra(c: Config, where: Where) -> Iterator[Tensor]:
    """Alternating updates (AltUp, arXiv 2301.13310) and LAuReL (arXiv 2411.07501)."""
    yield from per_layer_inputs(c, where)
    hidden, inputs, rank = c.size("hidden_size"), c.size("altup_num_inputs"), c.size("laurel_rank")
    yield from vector("altup", hidden, "other", where)
    yield from linear("correction_coefs", inputs, inputs, "other", where)
    yield from linear("prediction_coefs", inputs * inputs, inputs, "other", where)
    yield from linear("modality_router", inputs, hidden, "other", where)
    yield from norm("router_norm", hidden, where)
    yield from linear("linear_left", rank, hidden, "other", where)
    yield from linear("linear_right", hidden, rank, "other", where)
    yield from norm("post_laurel_norm", hidden, where)
    for module in ("altup_projections", "altup_unembed_projections"):
        yield Tensor(module, (hidden, hidden), "other", inputs - 1, linear=True)


def shared_from(c: Config) -> int:
    """Index of the first layer that reuses an earlier one's cache."""
    count, shared = c.size("num_hidden_layers"), c.count("num_kv_shared_layers")
    if shared > count:
        raise UnknownArchitecture(f"num_kv_shared_layers is {shared}, num_hidden_layers {count}")
    return count - shared


def gemma3n(c: Config) -> Body:
    stated = c.get("intermediate_size")
    count = c.size("num_hidden_layers")
    widths = list(stated) if isinstance(stated, (list, tuple)) else [stated] * count
    if len(widths) != count:
        raise UnknownArchitecture(f"intermediate_size names {len(widths)} layers, num_hidden_layers is {count}")
    widths = [whole("intermediate_size", width, at_least=1) for width in widths]
    attention = GEMMA3.mixers["full_attention"]
    assert isinstance(attention, Attention)
    first = shared_from(c)
    slots = typed(c, lambda index: "sliding_attention" if (index + 1) % 5 else "full_attention")
    plan = tuple(
        slot._replace(part="own" if index < first else "reusing", ffn=str(widths[index]))
        for index, slot in enumerate(slots)
    )
    decoder = replace(
        GEMMA2,
        mixers={"own": attention, "reusing": Reusing(attention)},
        feed_forwards={str(width): Widened(stated=width) for width in widths},
        plan=lambda _: plan,
        extra=gemma3n_extra,
    )
    return decoder(c)


def gemma4(c: Config) -> Body:
    first = shared_from(c)
    same = c.flag("attention_k_eq_v")
    options: dict[str, Any] = {"bias": "attention_bias", "output_bias": "attention_bias", "qk_norm": "head"}
    local, wide = Attention(**options), GlobalAttention(**options, shared_kv=same)
    mixers: dict[str, Part] = {
        "local": local, "local_reusing": Reusing(local), "global": wide, "global_reusing": Reusing(wide),
    }  # fmt: skip
    experts = Experts(
        "num_experts", top_k="top_k_experts", router="proj", router_is_linear=True, separate_before_5=False
    )
    doubled = 2 if c.flag("use_double_wide_mlp") else 1
    count = c.size("num_hidden_layers")
    slots = typed(c, lambda index: "sliding_attention" if (index + 1) % 6 and index != count - 1 else "full_attention")
    plan = []
    for index, slot in enumerate(slots):
        part = "local" if slot.mixer == "sliding_attention" else "global"
        reusing = index >= first
        plan.append(
            slot._replace(
                part=part + ("_reusing" if reusing else ""),
                feed_forward="moe" if c.flag("enable_moe_block") else "dense",
                ffn="wide" if reusing and doubled > 1 and not c.flag("enable_moe_block") else "",
            )
        )
    decoder: Decoder = replace(
        GEMMA2,
        mixers=mixers,
        feed_forwards={"dense": Mlp(), "wide": Widened(factor=doubled), "moe": ExpertsBeside(experts, Mlp())},
        plan=lambda _: tuple(plan),
        extra=per_layer_inputs,
    )
    return decoder(c)


FAMILIES: dict[str, Family] = {
    "gemma3n_text": gemma3n,
    "gemma4_text": gemma4,
    "gemma4_unified_text": gemma4,
}
