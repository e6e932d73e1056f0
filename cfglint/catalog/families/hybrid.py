"""State-space models and hybrids of recurrent and softmax layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cfglint.catalog.architecture import FeedForward, StateSpace, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import LARGEST, Config, Flag, divide, whole
from cfglint.catalog.families.dense import full
from cfglint.catalog.families.moe import Experts, qwen_moe_plan
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Mlp,
    Part,
    Slot,
    Where,
    architecture_name,
    linear,
    matrix,
    norm,
    vector,
)

# A convolution over k tokens keeps the k - 1 before the present one, as vLLM's cache does.


@dataclass(frozen=True)
class Mamba:
    """Selective state space (Mamba, arXiv 2312.00752), with Jamba's norms where ``normed``."""

    state: str = "state_size"
    kernel: str = "conv_kernel"
    expand: str = "expand"
    rank: str = "time_step_rank"
    bias: Flag = "use_bias"
    conv_bias: Flag = "use_conv_bias"
    normed: bool = False

    def sizes(self, c: Config) -> tuple[int, int, int, int, int]:
        """Hidden and inner width, state, kernel, rank of the time step."""
        hidden = c.size("hidden_size")
        inner = c.size("intermediate_size", 0) if c.stated("intermediate_size") and not self.normed else 0
        inner = inner or c.size(self.expand, 2) * hidden
        rank = c.get(self.rank, "auto")
        rank = -(-hidden // 16) if rank == "auto" else whole(self.rank, rank, at_least=1)
        return hidden, inner, c.size(self.state, 16), c.size(self.kernel, 4), rank

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, inner, state, kernel, rank = self.sizes(c)
        bias = c.flag(self.bias)
        yield from matrix("A_log", (inner, state), "ssm", where)
        yield from vector("D", inner, "ssm", where)
        yield from convolution(inner, kernel, where, bias=c.flag(self.conv_bias, True))
        yield from linear("in_proj", 2 * inner, hidden, "ssm", where, bias=bias)
        yield from linear("x_proj", rank + 2 * state, inner, "ssm", where)
        yield from linear("dt_proj", inner, rank, "ssm", where, bias=True)
        yield from linear("out_proj", hidden, inner, "ssm", where, bias=bias)
        if self.normed:
            for module, size in (("dt_layernorm", rank), ("b_layernorm", state), ("c_layernorm", state)):
                yield from norm(module, size, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        _, inner, state, kernel, _ = self.sizes(c)
        body.ssm = StateSpace("mamba", inner * (kernel - 1), inner * state, inner)


@dataclass(frozen=True)
class Mamba2:
    """Mamba 2 (arXiv 2405.21060): heads with one decay each, groups share B and C."""

    heads: str = "num_heads"
    head_dim: str = "head_dim"
    groups: str = "n_groups"
    state: str = "state_size"
    kernel: str = "conv_kernel"
    inner: Callable[[Config], int] = lambda c: c.size("expand", 2) * c.size("hidden_size")
    bias: Flag = "use_bias"
    conv_bias: Flag = "use_conv_bias"
    normed: Flag = True

    def sizes(self, c: Config) -> tuple[int, int, int, int, int]:
        """Inner width, width of the convolution, heads, state, kernel."""
        inner, groups, state, heads = self.inner(c), c.size(self.groups), c.size(self.state), c.size(self.heads)
        divide("the inner width", inner, self.heads, heads)
        return inner, inner + 2 * groups * state, heads, state, c.size(self.kernel, 4)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        inner, mixed, heads, _, kernel = self.sizes(c)
        hidden, bias = c.size("hidden_size"), c.flag(self.bias)
        for module in ("dt_bias", "A_log", "D"):
            yield from vector(module, heads, "ssm", where)
        yield from convolution(mixed, kernel, where, bias=c.flag(self.conv_bias, True))
        yield from linear("in_proj", inner + mixed + heads, hidden, "ssm", where, bias=bias)
        if c.flag(self.normed):
            yield from norm("norm", inner, where, role="ssm")
        yield from linear("out_proj", hidden, inner, "ssm", where, bias=bias)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        inner, mixed, _, state, kernel = self.sizes(c)
        body.ssm = StateSpace("mamba2", mixed * (kernel - 1), inner * state, inner)


def convolution(width: int, kernel: int, where: Where, *, bias: bool, role: Any = "ssm") -> Iterator[Tensor]:
    """A depthwise causal convolution."""
    yield from matrix("conv1d", (width, 1, kernel), role, where)
    if bias:
        yield from vector("conv1d", width, role, where, bias=True)


@dataclass(frozen=True)
class GatedDeltaNet:
    """Qwen3-Next's linear attention (gated delta rule, arXiv 2412.06464)."""

    projections: Literal["fused", "split"] = "fused"

    def sizes(self, c: Config) -> tuple[int, int, int, int]:
        """Width of all keys and of all values, value heads, kernel."""
        keys = c.size("linear_num_key_heads") * c.size("linear_key_head_dim")
        heads = c.size("linear_num_value_heads")
        return keys, heads * c.size("linear_value_head_dim"), heads, c.size("linear_conv_kernel_dim", 4)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        keys, values, heads, kernel = self.sizes(c)
        hidden = c.size("hidden_size")
        yield from vector("dt_bias", heads, "linear_attention", where)
        yield from vector("A_log", heads, "linear_attention", where)
        yield from convolution(2 * keys + values, kernel, where, bias=False, role="linear_attention")
        if self.projections == "fused":
            projections = {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads}
        else:
            projections = {
                "in_proj_qkv": 2 * keys + values, "in_proj_z": values, "in_proj_b": heads, "in_proj_a": heads,
            }  # fmt: skip
        for module, out in projections.items():
            yield from linear(module, out, hidden, "linear_attention", where)
        yield from norm("norm", c.size("linear_value_head_dim"), where, role="linear_attention")
        yield from linear("out_proj", hidden, values, "linear_attention", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        keys, values, heads, kernel = self.sizes(c)
        state = heads * c.size("linear_key_head_dim") * c.size("linear_value_head_dim")
        body.ssm = StateSpace("gated-deltanet", (2 * keys + values) * (kernel - 1), state, values)


@dataclass(frozen=True)
class LightningAttention:
    """MiniMax-Text-01's linear attention (arXiv 2501.08313)."""

    attention: Attention = field(default_factory=Attention)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, _, width = self.attention.read(c)
        hidden, inner = c.size("hidden_size"), heads * width
        yield from norm("norm", inner, where, role="linear_attention")
        yield from linear("qkv_proj", 3 * inner, hidden, "linear_attention", where)
        yield from linear("out_proj", hidden, inner, "linear_attention", where)
        yield from linear("output_gate", inner, hidden, "linear_attention", where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        heads, _, width = self.attention.read(c)
        body.ssm = StateSpace("lightning-attention", 0, heads * width * width, heads * width)


@dataclass(frozen=True)
class MiniCpmLightning:
    """MiniCPM-SALA's lightning attention, with heads of its own."""

    def sizes(self, c: Config) -> tuple[int, int, int]:
        heads = c.size("lightning_nh", c.size("num_attention_heads"))
        width = c.size("lightning_head_dim", c.size("head_dim", 128))
        return heads, c.size("lightning_nkv", heads), width

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        heads, groups, width = self.sizes(c)
        hidden, inner = c.size("hidden_size"), heads * width
        for module, out in (("q_proj", inner), ("k_proj", groups * width), ("v_proj", groups * width)):
            yield from linear(module, out, hidden, "linear_attention", where)
        yield from linear("o_proj", hidden, inner, "linear_attention", where)
        if c.flag("use_output_norm", True):
            yield from norm("o_norm", inner, where, role="linear_attention")
        if c.flag("use_output_gate", True):
            yield from linear("z_proj", inner, hidden, "linear_attention", where)
        if c.flag("qk_norm", True):
            yield from norm("q_norm", width, where)
            yield from norm("k_norm", width, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        heads, _, width = self.sizes(c)
        body.ssm = StateSpace("lightning-attention", 0, heads * width * width, heads * width)


class GatedAttention(Attention):
    """MiniCPM-SALA's softmax layers gate their output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        if c.flag("attn_use_output_gate", True):
            heads, _, width = self.read(c)
            yield from linear("o_gate", heads * width, c.size("hidden_size"), "attention", where)


def sala_plan(c: Config) -> tuple[Slot, ...]:
    """``mixer_types``: sparse softmax attention (``minicpm4``) or lightning attention."""
    named, count = c.sequence("mixer_types"), c.size("num_hidden_layers")
    if named is None or len(named) != count:
        raise UnknownArchitecture("mixer_types does not name each of the num_hidden_layers")
    return tuple(Slot("full_attention" if kind == "minicpm4" else "linear_attention") for kind in named)


@dataclass(frozen=True)
class ShortConvolution:
    """LFM2's gated short convolution."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        hidden, bias = c.size("hidden_size"), c.flag("conv_bias")
        yield from matrix("conv", (hidden, 1, c.size("conv_L_cache", 3)), "ssm", where)
        if bias:
            yield from vector("conv", hidden, "ssm", where, bias=True)
        yield from linear("in_proj", 3 * hidden, hidden, "ssm", where, bias=bias)
        yield from linear("out_proj", hidden, hidden, "ssm", where, bias=bias)

    def facts(self, c: Config) -> dict[str, Any]:
        return {"recurrent": True}

    def describe(self, c: Config, body: Body) -> None:
        hidden = c.size("hidden_size")
        body.ssm = StateSpace("short-convolution", hidden * (c.size("conv_L_cache", 3) - 1), 0, hidden)


@dataclass(frozen=True)
class Beside:
    """Two mixers in one layer, on the same input (Falcon-H1)."""

    parts: tuple[Part, ...]

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        for part in self.parts:
            yield from part.tensors(c, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {key: value for part in self.parts for key, value in part.facts(c).items()}

    def describe(self, c: Config, body: Body) -> None:
        for part in self.parts:
            describe = getattr(part, "describe", None)
            if describe is not None:
                describe(c, body)


class AdjustedMlp(Mlp):
    """LFM2 takes two thirds of the stated width, rounded up to a multiple of ``block_multiple_of``."""

    def read(self, c: Config) -> int:
        width = c.size("intermediate_size", c.get("block_ff_dim"))
        if not c.flag("block_auto_adjust_ff_dim", True):
            return width
        multiplier = c.get("block_ffn_dim_multiplier", 1.0)
        width = 2 * width // 3
        if isinstance(multiplier, (int, float)) and 0 < multiplier < LARGEST:
            step = c.size("block_multiple_of", 256)
            width = -(-int(multiplier * width) // step) * step
        return width


def one_kind(mixer: Any, feed_forward: FeedForward = "none") -> Callable[[Config], tuple[Slot, ...]]:
    return lambda c: (Slot(mixer, feed_forward),) * c.size("num_hidden_layers")


def jamba_plan(c: Config) -> tuple[Slot, ...]:
    """Attention and experts in every n-th layer, each counted from its own offset."""
    period, offset = c.size("attn_layer_period", 8), c.count("attn_layer_offset", 4)
    moe_period, moe_offset = c.size("expert_layer_period", 2), c.count("expert_layer_offset", 1)
    has_experts = c.size("num_experts", 16) > 1
    return tuple(
        Slot(
            "full_attention" if index % period == offset else "mamba",
            "moe" if has_experts and index % moe_period == moe_offset else "dense",
        )
        for index in range(c.size("num_hidden_layers"))
    )


NEMOTRON_LETTERS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}


def nemotron_h_plan(c: Config) -> tuple[Slot, ...]:
    """One thing a layer: ``hybrid_override_pattern`` spells them as letters, ``layers_block_type`` as words."""
    kinds = c.sequence("layers_block_type") or c.sequence("layer_types")
    pattern = c.raw.get("hybrid_override_pattern")
    if kinds is None and isinstance(pattern, str):
        kinds = [NEMOTRON_LETTERS.get(letter, letter) for letter in pattern]
    if kinds is None:
        raise UnknownArchitecture("the config states neither hybrid_override_pattern nor layers_block_type")
    slots = {
        "mamba": Slot("mamba2", "none"),
        "linear_attention": Slot("mamba2", "none"),
        "attention": Slot("full_attention", "none"),
        "full_attention": Slot("full_attention", "none"),
        "mlp": Slot("none", "dense"),
        "moe": Slot("none", "moe"),
    }
    return tuple(look_up(slots, kind, "nemotron_h") for kind in kinds)


def look_up(slots: dict[str, Slot], kind: Any, model_type: str) -> Slot:
    if not isinstance(kind, str) or kind not in slots:
        raise UnknownArchitecture(f"layer_types names {kind!r}, which {model_type} does not have")
    return slots[kind]


def layers_of(c: Config, kinds: dict[str, Slot], usual: Callable[[int], str]) -> tuple[Slot, ...]:
    """Layers by ``layer_types`` (or ``layers_block_type``), each kind with its slot."""
    count = c.size("num_hidden_layers")
    named = c.sequence("layer_types") or c.sequence("layers_block_type")
    if named is not None and len(named) != count:
        raise UnknownArchitecture(f"layer_types names {len(named)} layers, num_hidden_layers is {count}")
    return tuple(look_up(kinds, named[i] if named is not None else usual(i), c.model_type) for i in range(count))


def granite_plan(c: Config) -> tuple[Slot, ...]:
    ffn: FeedForward = "moe" if c.count("num_local_experts") else "dense"
    recurrent, attention = Slot("mamba2", ffn), Slot("full_attention", ffn)
    kinds = {
        "mamba": recurrent, "linear_attention": recurrent, "attention": attention, "full_attention": attention,
    }  # fmt: skip
    if c.sequence("layer_types") is None and c.sequence("layers_block_type") is None:
        raise UnknownArchitecture("the config does not state layer_types")
    return layers_of(c, kinds, lambda index: "mamba")


def lfm2_plan(c: Config) -> tuple[Slot, ...]:
    """Convolutions, with attention in ``full_attn_idxs`` or as ``layer_types`` says."""
    indexes = c.indexes("full_attn_idxs")
    if indexes is None and c.sequence("layer_types") is None:
        raise UnknownArchitecture("the config states neither layer_types nor full_attn_idxs")
    attending = indexes or frozenset()
    kinds = {"conv": Slot("conv"), "full_attention": Slot("full_attention"), "attention": Slot("full_attention")}
    slots = layers_of(c, kinds, lambda index: "full_attention" if index in attending else "conv")
    if c.model_type != "lfm2_moe":
        return slots
    dense = c.count("num_dense_layers")
    return tuple(slot if index < dense else slot._replace(feed_forward="moe") for index, slot in enumerate(slots))


def delta_plan(c: Config) -> tuple[Slot, ...]:
    """Linear attention with every n-th layer full; experts where the config has them."""
    every = c.size("full_attention_interval", 4)
    kinds = {"linear_attention": Slot("linear_attention"), "full_attention": Slot("full_attention")}
    slots = layers_of(c, kinds, lambda index: "linear_attention" if (index + 1) % every else "full_attention")
    if c.model_type == "qwen3_5_text":
        return slots
    if c.model_type == "qwen3_5_moe_text":
        return tuple(slot._replace(feed_forward="moe") for slot in slots)
    sparse = qwen_moe_plan(c)
    return tuple(slot._replace(feed_forward=other.feed_forward) for slot, other in zip(slots, sparse, strict=True))


def minimax_plan(c: Config) -> tuple[Slot, ...]:
    legacy = c.sequence("attn_type_list")
    kinds = {"linear_attention": Slot("linear_attention", "moe"), "full_attention": Slot("full_attention", "moe")}
    if legacy is not None and c.sequence("layer_types") is None and len(legacy) == c.size("num_hidden_layers"):
        return tuple(kinds["full_attention" if kind == 1 else "linear_attention"] for kind in legacy)
    return layers_of(c, kinds, lambda index: "full_attention" if (index + 1) % 2 else "linear_attention")


def inner_of_heads(heads: str, head_dim: str) -> Callable[[Config], int]:
    return lambda c: c.size(heads) * c.size(head_dim)


MAMBA = Decoder(
    mixers={"mamba": Mamba()},
    feed_forwards={},
    plan=one_kind("mamba"),
    norms=("norm",),
    embedding="embeddings",
    final_norm="norm_f",
)
QWEN3_NEXT = Decoder(
    mixers={
        "linear_attention": GatedDeltaNet(),
        "full_attention": Attention(bias="attention_bias", output_bias="attention_bias", qk_norm="head", gated=True),
    },
    feed_forwards={
        "dense": Mlp(),
        "moe": Experts(
            "num_experts", shared=lambda c: c.size("shared_expert_intermediate_size"), shared_gate="shared_expert_gate"
        ),
    },
    plan=delta_plan,
    tie_default=False,
)
QWEN3_5 = replace(QWEN3_NEXT, mixers={**QWEN3_NEXT.mixers, "linear_attention": GatedDeltaNet("split")})
LFM2 = Decoder(
    mixers={
        "conv": ShortConvolution(),
        "full_attention": Attention(o="out_proj", qk_norm="head", q_norm="q_layernorm", k_norm="k_layernorm"),
    },
    feed_forwards={"dense": AdjustedMlp(gate="w1", up="w3", down="w2")},
    plan=lfm2_plan,
    norms=("operator_norm", "ffn_norm"),
    final_norm="embedding_norm",
)

NEMOTRON_H = Decoder(
    mixers={
        "mamba2": Mamba2(
            heads="mamba_num_heads",
            head_dim="mamba_head_dim",
            state="ssm_state_size",
            inner=inner_of_heads("mamba_num_heads", "mamba_head_dim"),
        ),
        "full_attention": Attention(),
    },
    feed_forwards={
        "dense": Mlp(gate="", bias="mlp_bias"),
        "moe": Experts(
            "n_routed_experts",
            gate="",
            latent="moe_latent_size",
            shared=lambda c: c.size("moe_shared_expert_intermediate_size") if c.count("n_shared_experts", 1) else 0,
        ),
    },
    plan=nemotron_h_plan,
    norms=("norm",),
    embedding="embeddings",
    final_norm="norm_f",
    tie_default=False,
)
TIME_FREQUENCIES = 256


def nemotron_h(c: Config) -> Body:
    """Nemotron-H, and its two towers that denoise blocks of text (``modeling_nemotron_twotower.py``): all of it twice, and time."""
    body = NEMOTRON_H(c)
    if architecture_name(c) != "NemotronHTwoTowerForCausalLM":
        return body
    body.tensors[:] = [replace(tensor, count=2 * tensor.count) for tensor in body.tensors]
    hidden = c.size("hidden_size")
    body.tensors += linear("0", hidden, TIME_FREQUENCIES, "other", bias=True)
    body.tensors += linear("2", hidden, hidden, "other", bias=True)
    body.tensors += linear("1", 3 * hidden, hidden, "other", bias=True)
    body.tensors += matrix("scale_shift_tables", (3, hidden), "other", Where("decoder", tuple(range(len(body.layers)))))
    return body


FAMILIES: dict[str, Family] = {
    "mamba": MAMBA,
    "falcon_mamba": MAMBA,
    "mamba2": replace(MAMBA, mixers={"mamba2": Mamba2()}, plan=one_kind("mamba2"), tie_default=False),
    "jamba": Decoder(
        mixers={
            "mamba": Mamba(
                state="mamba_d_state",
                kernel="mamba_d_conv",
                expand="mamba_expand",
                rank="mamba_dt_rank",
                bias="mamba_proj_bias",
                conv_bias="mamba_conv_bias",
                normed=True,
            ),
            "full_attention": Attention(),
        },
        feed_forwards={"dense": Mlp(), "moe": Experts("num_experts", width="intermediate_size", router="router")},
        plan=jamba_plan,
        norms=("input_layernorm", "pre_ff_layernorm"),
        final_norm="final_layernorm",
        tie_default=False,
    ),
    "falcon_h1": Decoder(
        mixers={
            "full_attention": Beside(
                (
                    Mamba2(
                        heads="mamba_n_heads",
                        head_dim="mamba_d_head",
                        groups="mamba_n_groups",
                        state="mamba_d_state",
                        kernel="mamba_d_conv",
                        bias="mamba_proj_bias",
                        conv_bias="mamba_conv_bias",
                        normed="mamba_rms_norm",
                        inner=lambda c: c.size("mamba_d_ssm", c.size("mamba_expand", 2) * c.size("hidden_size")),
                    ),
                    Attention(bias="attention_bias", output_bias="attention_bias"),
                )
            )
        },
        feed_forwards={"dense": Mlp(bias="mlp_bias")},
        norms=("input_layernorm", "pre_ff_layernorm"),
        final_norm="final_layernorm",
        tie_default=False,
    ),
    "nemotron_h": nemotron_h,
    "granitemoehybrid": Decoder(
        mixers={
            "mamba2": Mamba2(
                heads="mamba_n_heads",
                head_dim="mamba_d_head",
                groups="mamba_n_groups",
                state="mamba_d_state",
                kernel="mamba_d_conv",
                bias="mamba_proj_bias",
                conv_bias="mamba_conv_bias",
                inner=lambda c: c.size("mamba_expand", 2) * c.size("hidden_size"),
            ),
            **full(bias="attention_bias", output_bias="attention_bias"),
        },
        feed_forwards={
            "dense": Mlp(fused="input_linear", down="output_linear", width="shared_intermediate_size"),
            "moe": Experts(
                width="intermediate_size",
                router="router",
                separate_before_5=False,
                shared=lambda c: c.size("shared_intermediate_size"),
                shared_fused="input_linear",
            ),
        },
        plan=granite_plan,
        tie_default=False,
    ),
    "lfm2": LFM2,
    "lfm2_moe": replace(
        LFM2,
        feed_forwards={
            "dense": Mlp(gate="w1", up="w3", down="w2"),
            "moe": Experts("num_experts", gate="w1", up="w3", down="w2"),
        },
    ),
    "qwen3_next": QWEN3_NEXT,
    "qwen3_5_text": QWEN3_5,
    "qwen3_5_moe_text": QWEN3_5,
    "minimax": Decoder(
        mixers={"linear_attention": LightningAttention(), "full_attention": Attention()},
        feed_forwards={"moe": Experts(width="intermediate_size")},
        plan=minimax_plan,
        tie_default=False,
    ),
}
FAMILIES["minimax_m1"] = FAMILIES["minimax"]
FAMILIES["minicpm_sala"] = Decoder(
    mixers={"linear_attention": MiniCpmLightning(), "full_attention": GatedAttention()},
    plan=sala_plan,
    tie_default=False,
)
