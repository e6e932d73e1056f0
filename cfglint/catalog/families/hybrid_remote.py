"""Hybrids whose classes stand beside their checkpoints (remote code): Hymba, Nemotron-Flash, Phi-4-mini-flash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cfglint.catalog.architecture import StateSpace, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, divide, whole
from cfglint.catalog.families.hybrid import Mamba, Mamba2, convolution
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
    read_heads,
    vector,
)

# --- Phi-4-mini-flash (SambaY, arXiv 2507.06607) ---------------------------------------------------------------------


def samba_sizes(c: Config) -> tuple[int, int]:
    """Hidden and inner width."""
    hidden = c.size("hidden_size")
    return hidden, c.size("mamba_expand", 2) * hidden


@dataclass(frozen=True)
class DifferentialAttention:
    """Differential attention: four vectors weigh the second map, a norm over two heads; the later half keeps queries alone."""

    cross: bool = False

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, groups, width = read_heads(c)
        hidden = c.size("hidden_size")
        out = heads * width if self.cross else (heads + 2 * groups) * width
        yield from linear("Wqkv", out, hidden, "attention", where, bias=True)
        yield from linear("out_proj", hidden, heads * width, "attention", where, bias=True)
        for module in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            yield from vector(module, width, "attention", where)
        yield from norm("subln", 2 * width, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {**read_heads(c)._asdict(), **({"kv_elements": 0, "cross_attention": False} if self.cross else {})}


@dataclass(frozen=True)
class GatedMemory:
    """A gated memory unit: what the last recurrent layer saw, gated anew; nothing of its own is kept."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, inner = samba_sizes(c)
        yield from linear("in_proj", inner, hidden, "ssm", where)
        yield from linear("out_proj", hidden, inner, "ssm", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {}


class SambaMamba(Mamba):
    """Its inner width follows from the hidden size; ``intermediate_size`` is the MLP's."""

    def sizes(self, c: Config) -> tuple[int, int, int, int, int]:
        hidden, inner = samba_sizes(c)
        return hidden, inner, c.size(self.state, 16), c.size(self.kernel, 4), c.size(self.rank, -(-hidden // 16))


def samba_plan(c: Config) -> tuple[Slot, ...]:
    """Recurrent and attention layers in turn; two past the middle the rest reads what the first half kept."""
    count, every = c.size("num_hidden_layers"), c.size("mb_per_layer", 2)
    window = c.get("sliding_window")
    slots = []
    for index in range(count):
        later = index >= count // 2 + 2
        if index % every == 0:
            slots.append(Slot("mamba", part="memory" if later else "mamba"))
        elif index < count // 2 and isinstance(window, int) and window > 0:
            slots.append(Slot("sliding_attention", window=window, part="own"))
        else:
            slots.append(Slot("full_attention", part="cross" if later else "own"))
    return tuple(slots)


# --- Hymba (arXiv 2411.13676) ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HymbaHeads:
    """Attention and Mamba heads on one input projection; ``reusing`` layers take the keys and values of the one before."""

    reusing: bool = False

    def sizes(self, c: Config) -> tuple[int, int, int, int]:
        """Hidden and inner width, state, rank of the time step."""
        hidden = c.size("hidden_size")
        rank = c.get("mamba_dt_rank", "auto")
        rank = -(-hidden // 16) if rank == "auto" else whole("mamba_dt_rank", rank, at_least=1)
        return hidden, c.size("mamba_expand", 2) * hidden, c.size("mamba_d_state", 16), rank

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, inner, state, rank = self.sizes(c)
        heads, groups, width = read_heads(c)
        kept = 0 if self.reusing else groups * (width + divide("the inner width", inner, "num_attention_heads", heads))
        yield from linear("in_proj", 2 * inner + heads * width + kept, hidden, "ssm", where)
        yield from linear("out_proj", hidden, inner, "ssm", where)
        yield from convolution(inner, c.size("mamba_d_conv", 4), where, bias=c.flag("mamba_conv_bias", True))
        yield from linear("x_proj", rank + 2 * state, inner, "ssm", where)
        yield from linear("dt_proj", inner, rank, "ssm", where, bias=True)
        yield from matrix("A_log", (inner, state), "ssm", where)
        yield from vector("D", inner, "ssm", where)
        for module, size in (("dt_layernorm", rank), ("B_layernorm", state), ("C_layernorm", state)):
            yield from norm(module, size, where)
        yield from norm("pre_avg_layernorm1", inner, where)
        yield from norm("pre_avg_layernorm2", inner, where)

    def facts(self, c: Config) -> dict[str, Any]:
        heads, groups, width = read_heads(c)
        values = divide("the inner width", self.sizes(c)[1], "num_attention_heads", heads)
        return {
            "heads": heads,
            "kv_heads": groups,
            "head_dim": width,
            "kv_elements": 0 if self.reusing else groups * (width + values),
            "recurrent": True,
        }

    def describe(self, c: Config, body: Body) -> None:
        _, inner, state, _ = self.sizes(c)
        body.ssm = StateSpace("mamba", inner * (c.size("mamba_d_conv", 4) - 1), inner * state, inner)


def hymba_plan(c: Config) -> tuple[Slot, ...]:
    """``global_attn_idx`` names the full layers; in ``kv_reuse_group`` every layer but the first reuses its keys and values."""
    full = c.indexes("global_attn_idx") or frozenset()
    window = c.get("attn_window_size", c.get("sliding_window"))
    groups = [group for group in c.sequence("kv_reuse_group") or () if isinstance(group, (list, tuple))]
    reusing = {index for group in groups for index in group[1:] if isinstance(index, int)}
    slots = []
    for index in range(c.size("num_hidden_layers")):
        part = "reusing" if index in reusing else "own"
        if index in full or not isinstance(window, int) or window < 1:
            slots.append(Slot("full_attention", part=part))
        else:
            slots.append(Slot("sliding_attention", window=window, part=part))
    return tuple(slots)


def meta_tokens(c: Config, where: Where) -> Iterator[Tensor]:
    count = c.count("num_memory_tokens")
    if count:
        yield from matrix("memory_tokens", (count, c.size("hidden_size")), "embedding")


# --- Nemotron-Flash (arXiv 2511.18890) -------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeltaNet:
    """Its delta net: queries, keys and values as wide as the hidden size, one step size per head, no gate."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
        for module in ("q_proj", "k_proj", "v_proj"):
            yield from linear(module, hidden, hidden, "linear_attention", where)
        yield from linear("b_proj", heads, hidden, "linear_attention", where)
        yield from convolution(3 * hidden, c.size("d_conv", 4), where, bias=False, role="linear_attention")
        yield from norm(
            "o_norm", divide("hidden_size", hidden, "num_attention_heads", heads), where, role="linear_attention"
        )
        yield from linear("o_proj", hidden, hidden, "linear_attention", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}


@dataclass(frozen=True)
class ExpandedMlp(Mlp):
    """As wide as ``ffn_expand_ratio`` hidden sizes."""

    def read(self, c: Config) -> int:
        return c.size("ffn_expand_ratio", 3) * c.size("hidden_size")


def flash_plan(c: Config) -> tuple[Slot, ...]:
    """``layer_types``: one thing a layer (``deltanet``, ``m2``, ``a`` for attention, ``f`` for an MLP)."""
    named, count = c.sequence("layer_types"), c.size("num_hidden_layers")
    slots = {
        "deltanet": Slot("linear_attention", "none"),
        "m2": Slot("mamba2", "none"),
        "a": Slot("full_attention", "none"),
        "f": Slot("none", "dense"),
    }
    if named is None or len(named) != count or any(kind not in tuple(slots) for kind in named):
        raise UnknownArchitecture("layer_types does not name each of the num_hidden_layers as deltanet, m2, a or f")
    return tuple(slots[kind] for kind in named)


def flash_heads(c: Config) -> int:
    return divide("the inner width", 2 * c.size("hidden_size"), "mamba2_headdim", c.size("mamba2_headdim", 64))


class FlashMamba(Mamba2):
    """Mamba 2 with ``mamba2_headdim`` instead of a number of heads."""

    def sizes(self, c: Config) -> tuple[int, int, int, int, int]:
        raw = {**c.raw, "num_heads": flash_heads(c), "n_groups": c.raw.get("n_groups", 1)}
        return super().sizes(Config(raw, c.model_type, nested=True))


FAMILIES: dict[str, Family] = {
    "phi4flash": Decoder(
        mixers={
            "mamba": SambaMamba(
                state="mamba_d_state", kernel="mamba_d_conv", rank="mamba_dt_rank", bias=False, conv_bias=True
            ),
            "memory": GatedMemory(),
            "own": DifferentialAttention(),
            "cross": DifferentialAttention(cross=True),
        },
        feed_forwards={"dense": Mlp(fused="fc1", down="fc2")},
        plan=samba_plan,
        norm="layernorm",
        norm_bias=True,
        final_norm="final_layernorm",
    ),
    "hymba": Decoder(
        mixers={"own": HymbaHeads(), "reusing": HymbaHeads(reusing=True)},
        plan=hymba_plan,
        norms=("input_layernorm", "pre_moe_layernorm"),
        final_norm="final_layernorm",
        extra=meta_tokens,
    ),
    "nemotron_flash": Decoder(
        mixers={
            "linear_attention": DeltaNet(),
            "mamba2": FlashMamba(state="mamba_d_state", kernel="d_conv", bias=False, conv_bias=True),
            "full_attention": Attention(),
        },
        feed_forwards={"dense": ExpandedMlp()},
        plan=flash_plan,
        norms=("input_layernorm",),
        final_norm="final_layernorm",
        extra=meta_tokens,
    ),
}
