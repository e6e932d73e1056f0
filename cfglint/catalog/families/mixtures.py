"""Mixtures of experts whose layers differ in windows, heads or feed-forwards: K-EXAONE, Command A+, Step 3.5, Arctic, EMO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cfglint.catalog.architecture import Moe, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, divide
from cfglint.catalog.families.dense import COHERE2, LLAMA, full
from cfglint.catalog.families.hybrid import QWEN3_5, delta_plan
from cfglint.catalog.families.moe import (
    DEEPSEEK,
    DENSE_BASE,
    GLM4_MOE,
    GPT_OSS,
    GPT_OSS_EXPERTS,
    MIXTRAL,
    QWEN3_MOE,
    Experts,
    LatentAttention,
    all_experts,
    dense_first,
    ernie_plan,
    times,
)
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Family,
    Heads,
    Mlp,
    Slot,
    Where,
    linear,
    matrix,
    typed,
    vector,
)


def windows_and_experts(period: str, usual: int, first: str = "first_k_dense_replace", dense: int = 1) -> Any:
    """Windows with every ``period``-th layer full, dense layers first."""

    def plan(c: Config) -> tuple[Slot, ...]:
        stated = c.get(period, usual)
        every = len(stated) if isinstance(stated, str) else stated
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise UnknownArchitecture(f"{period} is {stated!r}, expected a number of layers")
        slots = typed(c, lambda index: "sliding_attention" if (index + 1) % every else "full_attention")
        sparse = dense_first(first=first, usual=dense)(c)
        return tuple(slot._replace(feed_forward=other.feed_forward) for slot, other in zip(slots, sparse, strict=True))

    return plan


class StepAttention(Attention):
    """Step 3.5: a gate per head; window layers may have other heads (``attention_other_setting``)."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        yield from linear("g_proj", self.read(c).heads, c.size("hidden_size"), "attention", where)


class StepWindow(StepAttention):
    def read(self, c: Config) -> Heads:
        read = super().read(c)
        other = c.raw.get("attention_other_setting")
        heads = other.get("num_attention_heads") if isinstance(other, dict) else c.get("num_sliding_attention_heads")
        if not isinstance(heads, int) or heads < 1:
            return read
        divide("num_attention_heads of attention_other_setting", heads, "num_attention_groups", read.kv_heads)
        return read._replace(heads=heads)


def step_plan(c: Config) -> tuple[Slot, ...]:
    """``layer_types`` may go on for the draft layers; experts in the layers ``moe_layers_enum`` names, usually from the fourth."""
    count = c.size("num_hidden_layers")
    named = c.sequence("layer_types")
    inner = Config({**c.raw, "layer_types": list(named[:count])}, c.model_type, nested=c.nested) if named else c
    slots = typed(inner, lambda index: "sliding_attention" if index % 4 else "full_attention")
    listed = c.raw.get("moe_layers_enum")
    if isinstance(listed, str):
        chosen = frozenset(int(item) for item in listed.split(",") if item.strip().isdigit())
    else:
        chosen = c.indexes("moe_layers_enum") or frozenset(range(3, count))
    return tuple(
        slot._replace(feed_forward="moe" if index in chosen else "dense", part=slot.mixer)
        for index, slot in enumerate(slots)
    )


@dataclass(frozen=True)
class ArcticExperts:
    """Arctic's experts, and the dense MLP in parallel to them."""

    experts: Experts
    residual: Mlp

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from self.experts.tensors(c, where)
        if c.flag("use_residual", True):
            yield from self.residual.tensors(c, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return self.experts.facts(c)

    def describe(self, c: Config, body: Body) -> None:
        self.experts.describe(c, body)


STEP = replace(
    DENSE_BASE,
    mixers={
        "full_attention": StepAttention(qk_norm="head", kv_heads="num_attention_groups"),
        "sliding_attention": StepWindow(qk_norm="head", kv_heads="num_attention_groups"),
    },
    feed_forwards={
        "dense": Mlp(),
        "moe": Experts("moe_num_experts", top_k="moe_top_k", shared=lambda c: c.size("share_expert_dim")),
    },
    plan=step_plan,
)


def step(c: Config) -> Body:
    """Step 3.5 in its own spelling, or in that of transformers 5."""
    names = {
        "num_key_value_heads": "num_attention_groups", "n_routed_experts": "moe_num_experts", "num_experts": "moe_num_experts",
        "num_experts_per_tok": "moe_top_k",
    }  # fmt: skip
    raw = {**{own: c.raw[name] for name, own in names.items() if c.raw.get(name) is not None}, **c.raw}
    return STEP(Config(raw, c.model_type, nested=c.nested))


@dataclass(frozen=True)
class TwoKinds:
    """ERNIE 4.5 VL: experts for text tokens, narrower ones for image tokens, shared ones for both."""

    text: Experts = field(default_factory=lambda: Experts("moe_num_experts", top_k="moe_k"))

    def one(self, c: Config, index: int) -> Config:
        """The config of one kind: ``moe_num_experts`` and ``moe_intermediate_size`` state both."""
        raw = dict(c.raw)
        for key in ("moe_num_experts", "moe_intermediate_size"):
            stated = c.get(key)
            if isinstance(stated, (list, tuple)) and len(stated) == 2:
                raw[key] = stated[index]
        return Config(raw, c.model_type, nested=c.nested)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from self.text.tensors(self.one(c, 0), where)
        yield from self.text.tensors(self.one(c, 1), where)
        for index in range(2):
            yield from matrix("moe_statics", (1, self.one(c, index).size("moe_num_experts")), "router", where)
        width = self.one(c, 0).size("moe_intermediate_size") * c.count("moe_num_shared_experts", 2)
        if width:
            yield from self.text.shared_tensors(width, c.size("hidden_size"), where)

    def facts(self, c: Config) -> dict[str, Any]:
        return self.text.facts(self.one(c, 0))

    def describe(self, c: Config, body: Body) -> None:
        body.moe = self.text.read(self.one(c, 0))


def ernie_vl_plan(c: Config) -> tuple[Slot, ...]:
    stated = c.raw.get("moe_layer_start_index")
    if isinstance(stated, (list, tuple)) and stated:  # one for text, one for images
        c = Config(
            {**c.raw, "moe_layer_start_index": stated[0], "moe_layer_end_index": -1}, c.model_type, nested=c.nested
        )
    return ernie_plan(c)


def llada(c: Config) -> Body:
    """LLaDA: the mixture has Qwen3-MoE's tensors, the dense model Llama's in OLMo's spelling (modeling_llada.py beside the checkpoints)."""
    if c.raw.get("num_experts"):
        return QWEN3_MOE(c)
    names = {
        "d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads",
        "mlp_hidden_size": "intermediate_size", "embedding_size": "vocab_size", "max_sequence_length": "max_position_embeddings",
        "weight_tying": "tie_word_embeddings",
    }  # fmt: skip
    raw = {**c.raw, **{name: c.raw[own] for own, name in names.items() if c.raw.get(own) is not None}}
    return LLAMA(Config(raw, c.model_type, nested=c.nested))


class HunyuanLatent(LatentAttention):
    """Hy 4's latent attention: sinks, and a gate on every element of the output."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        heads = c.size("num_attention_heads")
        yield from vector("sinks", heads, "mla", where)
        yield from linear("gate_proj", heads * c.size("v_head_dim"), c.size("hidden_size"), "mla", where)

    def indexer_tensors(self, c: Config, where: Where, hidden: int, rank: int) -> Iterator[Tensor]:
        if c.sequence("indexer_types") is None:  # the first layer and every fourth from the second on
            kinds = [
                "full" if index == 0 or (index - 1) % 4 == 0 else "shared"
                for index in range(c.size("num_hidden_layers"))
            ]
            c = Config({**c.raw, "indexer_types": kinds}, c.model_type, nested=c.nested)
        yield from super().indexer_tensors(c, where, hidden, rank)


def hunyuan_streams(c: Config, where: Where) -> Iterator[Tensor]:
    """Hy 4's hyper-connections: ``hc_mult`` residual streams, read and written, not mixed among themselves."""
    count, hidden = c.size("hc_mult", 4), c.size("hidden_size")
    for module in ("attn_hc", "ffn_hc"):
        yield from matrix(module, (2 * count, count * hidden), "other", where)
        yield from vector(module, 2 * count, "other", where)
        yield from vector(module, 2, "other", where)
    yield from matrix("hc_head", (count, count * hidden), "other")
    yield from vector("hc_head", count, "other")
    yield from vector("hc_head", 1, "other")


@dataclass(frozen=True)
class SoManyExperts(Experts):
    """Experts whose number is a layer's own."""

    count: int = 0

    def read(self, c: Config) -> Moe:
        return super().read(Config({**c.raw, self.experts: self.count}, c.model_type, nested=c.nested))


def gpt_oss_puzzle(c: Config) -> Body:
    """gpt-oss with experts of each block counted in ``block_configs``, and windows of several lengths."""
    blocks = c.sequence("block_configs")
    if blocks is None or len(blocks) != c.size("num_hidden_layers"):
        raise UnknownArchitecture("block_configs does not describe each of the num_hidden_layers")
    inner = [
        Config({**c.raw, **block} if isinstance(block, dict) else {}, c.model_type, nested=True) for block in blocks
    ]
    counts = [block.size("num_local_experts") for block in inner]
    windows = [None if block.get("sliding_window") is None else block.size("sliding_window") for block in inner]
    slots = tuple(
        Slot("sliding_attention" if window else "full_attention", "moe", window, ffn=str(count))
        for count, window in zip(counts, windows, strict=True)
    )
    feeds = {str(count): SoManyExperts(**vars(GPT_OSS_EXPERTS), count=count) for count in counts}
    made = replace(GPT_OSS, feed_forwards=feeds, plan=lambda _: slots)(c)
    if made.moe is not None:  # on average, which gives the active ones
        made.moe = replace(made.moe, num_experts=sum(counts) // len(counts))
    return made


@dataclass(frozen=True)
class Banks(Experts):
    """Intern-S2-Mobius: ``num_blocks`` banks of experts for all layers, each of which has a shared expert of its own."""

    def read(self, c: Config) -> Moe:
        layers = divide("num_hidden_layers", c.size("num_hidden_layers"), "num_blocks", c.size("num_blocks", 4))
        return replace(super().read(c), layers_per_bank=layers)

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        banks = where.layers[: c.size("num_blocks", 4)]
        for tensor in super().tensors(c, where):
            yield replace(tensor, layers=banks) if tensor.role in ("router", "expert") else tensor


FAMILIES: dict[str, Family] = {
    "interns2_mobius_text": replace(
        QWEN3_5,
        feed_forwards={
            "moe": Banks(
                "num_experts",
                shared=lambda c: c.size("shared_expert_intermediate_size"),
                shared_gate="shared_expert_gate",
            )
        },
        plan=lambda c: tuple(slot._replace(feed_forward="moe") for slot in delta_plan(c)),
    ),
    "gpt_oss_puzzle": gpt_oss_puzzle,
    "hy_v4": replace(
        DEEPSEEK, mixers={"mla": HunyuanLatent(indexer=True)}, plan=dense_first("mla", usual=1), extra=hunyuan_streams
    ),
    "llada": llada,
    "ernie4_5_vl_moe_text": replace(DENSE_BASE, feed_forwards={"dense": Mlp(), "moe": TwoKinds()}, plan=ernie_vl_plan),
    "glm4v_moe_text": replace(GLM4_MOE, mixers=full(bias="attention_bias")),
    "mistral4": DEEPSEEK,
    "exaone_moe": replace(
        DENSE_BASE,
        mixers=full(qk_norm="head"),
        feed_forwards={"dense": Mlp(), "moe": Experts("num_experts", shared=times("num_shared_experts"))},
        plan=windows_and_experts("sliding_window_pattern", 4),
    ),
    "cohere2_moe": replace(
        COHERE2,
        feed_forwards={
            "dense": Mlp(width="prefix_dense_intermediate_size"),
            "moe": Experts(
                "num_experts", width="intermediate_size", shared=times("num_shared_experts", "intermediate_size")
            ),
        },
        plan=windows_and_experts("sliding_window_pattern", 4, dense=0),
    ),
    "emo": replace(MIXTRAL, feed_forwards={"moe": Experts("num_experts")}),
    "glm4_moe_lite": DEEPSEEK,
    "step3p5": step,
    "arctic": replace(
        DENSE_BASE,
        feed_forwards={
            "moe": ArcticExperts(
                Experts(width="intermediate_size", gate="w1", up="w3", down="w2"),
                Mlp(gate="w1", up="w3", down="w2", width="hidden_size"),
            )
        },
        plan=all_experts,
        norms=("input_layernorm", "post_attention_layernorm", "residual_layernorm"),
    ),
}
