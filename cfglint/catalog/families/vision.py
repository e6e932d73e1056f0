"""Vision-language models: a text model of its own family, a vision tower, a projector between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.architecture import Role, Tensor, UnknownArchitecture
from cfglint.catalog.families.audio import EARS
from cfglint.catalog.families.config import Config, Flag, class_defaults, whole
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Family,
    Mlp,
    Where,
    linear,
    matrix,
    norm,
    vector,
)


def side(c: Config, key: str) -> int:
    """An image or patch size: one number, or the two sides of a square."""
    value = c.get(key)
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if value is None:
        raise UnknownArchitecture(f"the vision config does not state {key}")
    return whole(key, value, at_least=1)


def patches(c: Config) -> int:
    """Patches of one square image."""
    return (side(c, "image_size") // side(c, "patch_size")) ** 2


@dataclass(frozen=True)
class Tower:
    """A vision transformer: patches to vectors, positions, layers."""

    attention: Attention
    mlp: Mlp
    norms: tuple[str, ...]
    norm_bias: bool = True
    depth: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    patch: str = "patch_embedding"
    patch_bias: bool = False
    patch_is_linear: bool = False
    channels: str = "num_channels"
    time: str = ""
    """Config key of the frames in one patch."""
    class_token: bool = False
    positions: Callable[[Config], int] | None = patches
    positions_module: str = "position_embedding"
    before: str = ""
    """Norm before the layers."""
    after: str = ""
    extra: Callable[[Config, Where], Iterator[Tensor]] | None = None

    def __call__(self, c: Config) -> Iterator[Tensor]:
        for tensor in self.parts(c):
            yield replace(tensor, role="vision")

    def parts(self, c: Config) -> Iterator[Tensor]:
        hidden, edge = c.size(self.hidden), side(c, "patch_size")
        channels = c.size(self.channels, 3)
        shape = (hidden, channels, *((c.size(self.time, 2),) if self.time else ()), edge, edge)
        if self.patch_is_linear:
            yield from linear(self.patch, hidden, channels * edge * edge, "vision")
        else:
            yield from matrix(self.patch, shape, "vision")
        if self.patch_bias:
            yield from vector(self.patch, hidden, "vision", bias=True)
        if self.class_token:
            yield from vector("class_embedding", hidden, "vision")
        if self.positions is not None:
            yield from matrix(self.positions_module, (self.positions(c) + self.class_token, hidden), "vision")
        for module in (self.before, self.after):
            if module:
                yield from norm(module, hidden, bias=self.norm_bias)
        where = Where("vision", tuple(range(c.size(self.depth))))
        yield from self.attention.tensors(c, where)
        yield from self.mlp.tensors(c, where)
        for module in self.norms:
            yield from norm(module, hidden, where, bias=self.norm_bias)
        if self.extra is not None:
            yield from self.extra(c, where)


def attention(
    q: str = "q_proj", k: str = "k_proj", v: str = "v_proj", o: str = "out_proj", **options: Any
) -> Attention:
    options = {"bias": True, "output_bias": True, **options}
    return Attention(q=q, k=k, v=v, o=o, kv_heads=options.pop("kv_heads", ""), role="vision", **options)


def fused(**options: Any) -> Attention:
    """``qkv`` and ``proj``, as the Qwen-VL towers name them."""
    options = {"bias": True, "output_bias": True, "heads": "num_heads", **options}
    return Attention(fused="qkv", o="proj", kv_heads="", role="vision", **options)


def plain(up: str = "fc1", down: str = "fc2", **options: Any) -> Mlp:
    return Mlp(gate="", up=up, down=down, bias=True, role="vision", **options)


GATED_MLP = Mlp(role="vision")
LAYER_NORMS = ("layer_norm1", "layer_norm2")

CLIP = Tower(attention(), plain(), LAYER_NORMS, class_token=True, before="pre_layrnorm", after="post_layernorm")


def siglip_head(c: Config, where: Where) -> Iterator[Tensor]:
    """SigLIP's attention pooling, where ``vision_use_head`` keeps it."""
    if not c.get("vision_use_head", True):
        return
    hidden = c.size("hidden_size")
    yield from matrix("probe", (1, 1, hidden), "vision")
    yield from matrix("in_proj", (3 * hidden, hidden), "vision")
    yield from vector("in_proj", 3 * hidden, "vision", bias=True)
    yield from linear("out_proj", hidden, hidden, "vision", bias=True)
    yield from norm("layernorm", hidden, bias=True)
    yield from linear("fc1", c.size("intermediate_size"), hidden, "vision", bias=True)
    yield from linear("fc2", hidden, c.size("intermediate_size"), "vision", bias=True)


SIGLIP = Tower(attention(), plain(), LAYER_NORMS, patch_bias=True, after="post_layernorm", extra=siglip_head)
IDEFICS3 = replace(SIGLIP, extra=None)
PIXTRAL = Tower(
    attention(o="o_proj", bias=False, output_bias=False),
    GATED_MLP,
    ("attention_norm", "ffn_norm"),
    norm_bias=False,
    patch="patch_conv",
    positions=None,
    before="ln_pre",
)


def layer_scales(c: Config, where: Where) -> Iterator[Tensor]:
    """InternViT scales both residual branches; its largest size also norms queries and keys."""
    hidden = c.size("hidden_size")
    yield from vector("lambda_1", hidden, "vision", where)
    yield from vector("lambda_2", hidden, "vision", where)
    if c.flag("use_qk_norm"):
        yield from norm("q_norm", hidden, where)
        yield from norm("k_norm", hidden, where)
    if c.flag("use_mean_pooling", True):
        return
    yield from norm("layernorm", hidden, bias=True)


INTERN_VIT = Tower(
    attention(o="projection_layer", bias="attention_bias"),
    plain(),
    ("layernorm_before", "layernorm_after"),
    patch="projection",
    patch_bias=True,
    class_token=True,
    extra=layer_scales,
)


class InternNorms(Tower):
    """InternViT-6B has RMS norms, InternViT-300M layer norms (``norm_type``)."""

    def parts(self, c: Config) -> Iterator[Tensor]:
        return replace(INTERN_VIT, norm_bias=c.get("norm_type", "layer_norm") != "rms_norm").parts(c)


def qwen_merger(c: Config, out: int, *, deep: int = 0) -> Iterator[Tensor]:
    """Qwen3-VL joins ``spatial_merge_size`` squared patches; ``deep`` mergers feed the first text layers."""
    hidden = c.size("hidden_size")
    joined = hidden * c.size("spatial_merge_size", 2) ** 2
    for normed, count in ((hidden, 1), (joined, deep)):
        if not count:
            continue
        yield Tensor("norm", (normed,), "projector", count)
        yield Tensor("norm", (normed,), "projector", count, bias=True)
        for module, shape in (("linear_fc1", (joined, joined)), ("linear_fc2", (out, joined))):
            yield Tensor(module, shape, "projector", count, linear=True)
            yield Tensor(module, shape[:1], "projector", count, bias=True)


QWEN3_TOWER = Tower(
    fused(),
    plain("linear_fc1", "linear_fc2"),
    ("norm1", "norm2"),
    depth="depth",
    patch="proj",
    patch_bias=True,
    channels="in_channels",
    time="temporal_patch_size",
    positions=lambda c: c.size("num_position_embeddings", 2304),
    positions_module="pos_embed",
)
QWEN2_TOWER = Tower(
    fused(hidden="embed_dim"),
    plain(hidden="embed_dim", width="", times_hidden=4),
    ("norm1", "norm2"),
    depth="depth",
    hidden="embed_dim",
    patch="proj",
    channels="in_channels",
    time="temporal_patch_size",
    positions=None,
)
QWEN2_5_TOWER = Tower(
    fused(),
    Mlp(bias=True, role="vision"),
    ("norm1", "norm2"),
    norm_bias=False,
    depth="depth",
    patch="proj",
    channels="in_channels",
    time="temporal_patch_size",
    positions=None,
)


def glm4v_extra(c: Config, where: Where) -> Iterator[Tensor]:
    yield from norm("post_conv_layernorm", c.size("hidden_size"))
    yield from norm("post_layernorm", c.size("hidden_size"))


GLM4V_TOWER = replace(
    QWEN2_5_TOWER,
    attention=fused(bias="attention_bias", output_bias=False),
    mlp=Mlp(role="vision", width="out_hidden_size"),
    patch_bias=True,
    positions=patches,
    extra=glm4v_extra,
)


def mllama_tower(c: Config) -> Iterator[Tensor]:
    """Llama 3.2's tower: tiles with embeddings of their own, local layers, then gated global ones."""
    hidden, tiles = c.size("hidden_size"), c.size("max_num_tiles", 4)
    ratios = c.sequence("supported_aspect_ratios")
    rows = (len(ratios) if ratios else tiles * 2) + 1  # one row for padding; four tiles make eight aspect ratios
    count = patches(c) + 1
    tower = Tower(
        Attention(heads="attention_heads", kv_heads="", head_dim="", role="vision"),
        plain(),
        ("input_layernorm", "post_attention_layernorm"),
        class_token=True,
        before="layernorm_pre",
        after="layernorm_post",
    )
    yield from tower(c)
    for tensor in tower.parts(c):
        if tensor.stack:  # the global transformer repeats the layers
            yield replace(tensor, role="vision", layers=tuple(range(c.size("num_global_layers", 8))))
    yield Tensor("global_transformer", (1,), "vision", 2 * c.size("num_global_layers", 8))
    yield Tensor("gated_positional_embedding", (1,), "vision")
    yield Tensor("tile_embedding", (rows, tiles * count * hidden), "vision")
    for module in ("pre_tile_positional_embedding", "post_tile_positional_embedding"):
        yield Tensor(module, (1,), "vision")
        yield Tensor(module, (rows, tiles * hidden), "vision")


def llama4_tower(c: Config) -> Iterator[Tensor]:
    tower = Tower(
        attention(o="o_proj"),
        plain(),
        ("input_layernorm", "post_attention_layernorm"),
        patch="linear",
        patch_is_linear=True,
        class_token=True,
        before="layernorm_pre",
        after="layernorm_post",
    )
    yield from tower(c)
    inner, out = c.size("projector_input_dim", 4096), c.size("projector_output_dim", 4096)
    yield from linear("fc1", inner, c.size("intermediate_size"), "projector")
    yield from linear("fc2", out, inner, "projector")


def gemma4_tower(c: Config) -> Iterator[Tensor]:
    hidden, edge = c.size("hidden_size"), side(c, "patch_size")
    yield from matrix("position_embedding_table", (2, c.size("position_embedding_size", 10240), hidden), "vision")
    yield from linear("input_proj", hidden, 3 * edge * edge, "vision")
    where = Where("vision", tuple(range(c.size("num_hidden_layers"))))
    names = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    heads = Attention(kv_heads="", qk_norm="head", role="vision")
    parts = [*heads.tensors(c, where), *GATED_MLP.tensors(c, where)]
    for module in names:
        parts += norm(module, hidden, where)
    for tensor in parts:
        yield replace(tensor, role="vision")


def square(c: Config) -> int:
    """Positions of MoonViT's grid."""
    return c.size("init_pos_emb_height", 64) * c.size("init_pos_emb_width", 64)


def moonvit(c: Config) -> Iterator[Tensor]:
    """Kimi's tower; newer configs put ``vt_`` before its keys."""
    names = {"num_hidden_layers": 27, "hidden_size": 1152, "num_attention_heads": 16, "intermediate_size": 4304}
    usual = {"patch_size": 14, **names}
    stated = {key.removeprefix("vt_"): value for key, value in c.raw.items()}
    tower = Tower(
        attention(o="wo"),
        plain("fc0", "fc1"),
        ("norm0", "norm1"),
        patch="proj",
        patch_bias=True,
        positions=square,
        positions_module="pos_emb",
        after="final_layernorm",
    )
    yield from tower(Config({**usual, **stated}, c.model_type, nested=True))


def window_sinks(c: Config, where: Where) -> Iterator[Tensor]:
    """MiMo's window layers have a sink per head; ``fullatt_block_indexes`` names the others."""
    if not c.flag("use_sink"):
        return
    full = c.indexes("fullatt_block_indexes") or frozenset()
    windows = tuple(index for index in where.layers if index not in full)
    yield from vector("sinks", c.size("num_heads"), "vision", Where(where.stack, windows))


MIMO_TOWER = Tower(
    Attention(
        fused="qkv",
        o="proj",
        bias=True,
        output_bias=True,
        heads="num_heads",
        head_dim="qk_channels",
        role="vision",
    ),
    Mlp(bias=True, role="vision"),
    ("norm1", "norm2"),
    norm_bias=False,
    depth="depth",
    patch="proj",
    channels="in_channels",
    time="temporal_patch_size",
    positions=None,
    extra=window_sinks,
)

SIGLIP2 = replace(SIGLIP, patch_is_linear=True, positions=lambda c: c.size("num_patches", 256))

MINIMAX_TOWER = Tower(
    attention(), plain(), LAYER_NORMS, patch="proj", time="temporal_patch_size", positions=None, before="pre_layrnorm"
)

TOWERS: Mapping[str, Callable[[Config], Iterator[Tensor]]] = {
    "clip_vision_model": CLIP,
    "siglip_vision_model": SIGLIP,
    "idefics3_vision": IDEFICS3,
    "smolvlm_vision": IDEFICS3,
    "pixtral": PIXTRAL,
    "internvl_vision": InternNorms(INTERN_VIT.attention, INTERN_VIT.mlp, INTERN_VIT.norms),
    "qwen2_vl_vision": QWEN2_TOWER,
    "qwen2_5_vl_vision": QWEN2_5_TOWER,
    "qwen3_vl_vision": QWEN3_TOWER,
    "qwen3_vl_moe_vision": QWEN3_TOWER,
    "qwen3_5_vision": QWEN3_TOWER,
    "qwen3_5_moe_vision": QWEN3_TOWER,
    "glm4v_vision": GLM4V_TOWER,
    "mllama_vision_model": mllama_tower,
    "llama4_vision_model": llama4_tower,
    "gemma4_vision": gemma4_tower,
    "minimax_m3_vl_vision": MINIMAX_TOWER,
    "moonvit": moonvit,
    "kimi_k25_vision": moonvit,
    "siglip2_vision_model": SIGLIP2,
    "mimovl": MIMO_TOWER,
}

UNSTATED = object()

Projector = Callable[[Config, Config, Config], Iterator[Tensor]]
"""Tensors between vision and text, from the outer, the vision and the text config."""
PROJECTOR: Role = "projector"


def seen(outer: Config, vision: Config) -> int:
    """Width of what the projector sees: one vision layer's output, or several side by side."""
    chosen = outer.get("vision_feature_layer")
    return vision.size("hidden_size") * (len(chosen) if isinstance(chosen, (list, tuple)) and chosen else 1)


def two_layers(outer: Config, width: int, text: Config, bias: Flag = True) -> Iterator[Tensor]:
    hidden, biased = text.size("hidden_size"), outer.flag(bias, True)
    yield from linear("linear_1", hidden, width, PROJECTOR, bias=biased)
    yield from linear("linear_2", hidden, hidden, PROJECTOR, bias=biased)


def llava(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from two_layers(outer, seen(outer, vision), text, "multimodal_projector_bias")


def llava_next(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from llava(outer, vision, text)
    yield from vector("image_newline", text.size("hidden_size"), PROJECTOR)


def gemma3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width = vision.size("hidden_size")
    yield from matrix("mm_input_projection_weight", (width, text.size("hidden_size")), PROJECTOR)
    yield from vector("mm_soft_emb_norm", width, PROJECTOR)


def paligemma(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    # PaliGemmaConfig sets vision_config.projection_dim from its own; both are the text width in what is published.
    width = outer.raw.get("projection_dim") or vision.raw.get("projection_dim") or text.size("hidden_size")
    yield from linear(
        "linear", whole("projection_dim", width, at_least=1), vision.size("hidden_size"), PROJECTOR, bias=True
    )


def idefics3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    shuffled = vision.size("hidden_size") * outer.size("scale_factor", 2) ** 2
    yield from linear("proj", text.size("hidden_size"), shuffled, PROJECTOR)


def internvl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    ratio = outer.get("downsample_ratio", 0.5)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
        raise UnknownArchitecture(f"downsample_ratio is {ratio!r}, expected a number up to 1")
    width = vision.size("hidden_size") * int(1 / ratio) ** 2
    yield Tensor("layer_norm", (width,), PROJECTOR)
    yield Tensor("layer_norm", (width,), PROJECTOR, bias=True)
    yield from two_layers(outer, width, text)


def mistral3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width, merge = seen(outer, vision), outer.size("spatial_merge_size", 2)
    inner = vision.size("hidden_size")
    yield Tensor("norm", (inner,), PROJECTOR)
    yield from linear("merging_layer", inner, inner * merge * merge, PROJECTOR)
    yield from two_layers(outer, width, text, "multimodal_projector_bias")


def qwen2_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    old = "embed_dim" in vision.raw or vision.model_type == "qwen2_vl_vision"
    width = vision.size("embed_dim") if old else vision.size("hidden_size")
    out = vision.size("hidden_size") if old else vision.size("out_hidden_size")
    joined = width * vision.size("spatial_merge_size", 2) ** 2
    yield Tensor("ln_q", (width,), PROJECTOR)
    if old:
        yield Tensor("ln_q", (width,), PROJECTOR, bias=True)
    yield from linear("0", joined, joined, PROJECTOR, bias=True)
    yield from linear("2", out, joined, PROJECTOR, bias=True)


def qwen3_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    deep = vision.sequence("deepstack_visual_indexes")
    yield from qwen_merger(vision, vision.size("out_hidden_size"), deep=3 if deep is None else len(deep))


def qwen3_5(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from qwen_merger(vision, vision.size("out_hidden_size"))


def glm4v(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    hidden, out, width = vision.size("hidden_size"), vision.size("out_hidden_size"), vision.size("intermediate_size")
    merge = vision.size("spatial_merge_size", 2)
    yield from linear("proj", out, out, PROJECTOR)
    yield Tensor("post_projection_norm", (out,), PROJECTOR)
    yield Tensor("post_projection_norm", (out,), PROJECTOR, bias=True)
    yield from linear("gate_proj", width, out, PROJECTOR)
    yield from linear("up_proj", width, out, PROJECTOR)
    yield from linear("down_proj", out, width, PROJECTOR)
    yield from matrix("downsample", (out, hidden, merge, merge), PROJECTOR)
    yield from vector("downsample", out, PROJECTOR, bias=True)


def mllama(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear(
        "multi_modal_projector", text.size("hidden_size"), vision.size("vision_output_dim"), PROJECTOR, bias=True
    )


def llama4(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear("linear_1", text.size("hidden_size"), vision.size("vision_output_dim"), PROJECTOR)


def gemma4(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear("embedding_projection", text.size("hidden_size"), vision.size("hidden_size"), PROJECTOR)


def kimi_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """A norm, then two layers over ``merge_kernel_size`` joined patches."""
    width = vision.size("hidden_size", vision.size("vt_hidden_size", 1152))
    sides = vision.sequence("merge_kernel_size") or (2, 2)
    joined = width
    for edge in sides:
        joined *= whole("merge_kernel_size", edge, at_least=1)
    yield Tensor("pre_norm", (width,), PROJECTOR)
    yield Tensor("pre_norm", (width,), PROJECTOR, bias=True)
    yield from linear("linear_1", joined, joined, PROJECTOR, bias=True)
    yield from linear("linear_2", text.size("hidden_size"), joined, PROJECTOR, bias=True)


def lfm2_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = vision.size("hidden_size") * outer.size("downsample_factor", 2) ** 2
    hidden, width = text.size("hidden_size"), outer.size("projector_hidden_size", 2560)
    bias = outer.flag("projector_bias", True)
    if outer.flag("projector_use_layernorm", True):
        yield Tensor("layer_norm", (joined,), PROJECTOR)
        yield Tensor("layer_norm", (joined,), PROJECTOR, bias=True)
    yield from linear("linear_1", width, joined, PROJECTOR, bias=bias)
    yield from linear("linear_2", hidden, width, PROJECTOR, bias=bias)


def mimo(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width = vision.size("hidden_size")
    joined = width * vision.size("spatial_merge_size", 2) ** 2
    yield Tensor("ln_q", (width,), PROJECTOR)
    yield from linear("0", joined, joined, PROJECTOR)
    yield from linear("2", vision.size("out_hidden_size"), joined, PROJECTOR)


def minimax_m3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    hidden = text.size("hidden_size")
    width = outer.size("projector_hidden_size", hidden)
    joined = hidden * vision.size("spatial_merge_size", 2) ** 2
    yield from linear("linear_1", width, vision.size("hidden_size"), PROJECTOR, bias=True)
    yield from linear("linear_2", hidden, width, PROJECTOR, bias=True)
    yield from linear("merge_linear_1", width, joined, PROJECTOR, bias=True)
    yield from linear("merge_linear_2", hidden, width, PROJECTOR, bias=True)


@dataclass(frozen=True)
class VisionLanguage:
    """A text model with eyes. Older configs keep the text part's keys at the top."""

    text: str
    """``model_type`` of the text part where it does not state one."""
    vision: str
    projector: Projector
    ears: str = "audio_config"
    """Config key of the audio part."""

    def __call__(self, c: Config) -> Body:
        from cfglint.catalog.families import family

        text = self.text_part(c)
        describe = family(text.model_type)
        if describe is None or isinstance(describe, VisionLanguage):
            raise UnknownArchitecture(f"text_config has model_type {text.model_type!r}, whose family is not known")
        body = describe(text)
        stated = c.raw.get("vision_config", UNSTATED)
        if stated is None:  # the text model alone
            return body
        if isinstance(c.raw.get(self.ears), Mapping):
            ears = EARS.get(c.model_type)
            if ears is None:
                body.missing = "the audio part"
            else:
                body.tensors += ears(c.part(self.ears, ""), text)
        if stated is UNSTATED:
            body.missing = "the vision part, which the config does not state"
            return body
        vision = c.part("vision_config", self.vision)
        name = TOWER_NAMES.get(vision.model_type, vision.model_type)
        vision = Config(vision.raw, name, nested=True)
        tower = TOWERS.get(name)
        if tower is None:
            body.missing = f"the vision part (model_type {name})"
            return body
        body.tensors += tower(vision)
        body.tensors += self.projector(c, vision, text)
        return body

    def text_part(self, c: Config) -> Config:
        """The text config with the head's facts, which belong to the whole model."""
        inner = next((key for key in ("text_config", "llm_config") if isinstance(c.raw.get(key), Mapping)), None)
        if inner is None and c.raw.get("hidden_size") is not None:
            part = Config(c.raw, self.text)
        else:
            part = c.part(inner or "text_config", self.text)
        tied = c.raw.get("tie_word_embeddings")
        if tied is None:
            tied = part.raw.get("tie_word_embeddings")
        if tied is None:
            tied = class_defaults().get(c.model_type, {}).get("defaults", {}).get("tie_word_embeddings", False)
        raw = {**part.raw, "tie_word_embeddings": tied, "architectures": c.raw.get("architectures")}
        return Config(raw, part.model_type, nested=part.nested)


TOWER_NAMES = {
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_vl_moe": "qwen3_vl_moe_vision",
    "qwen3_5": "qwen3_5_vision",
    "qwen3_5_moe": "qwen3_5_moe_vision",
    "glm4v": "glm4v_vision",
    "idefics3": "idefics3_vision",
    "smolvlm": "smolvlm_vision",
}
"""Published vision configs that carry the whole model's ``model_type``."""


FAMILIES: dict[str, Family] = {
    "llava": VisionLanguage("llama", "clip_vision_model", llava),
    "llava_next": VisionLanguage("llama", "clip_vision_model", llava_next),
    "llava_onevision": VisionLanguage("qwen2", "siglip_vision_model", llava_next),
    "gemma3": VisionLanguage("gemma3_text", "siglip_vision_model", gemma3),
    "gemma4": VisionLanguage("gemma4_text", "gemma4_vision", gemma4),
    "paligemma": VisionLanguage("gemma", "siglip_vision_model", paligemma),
    "idefics3": VisionLanguage("llama", "idefics3_vision", idefics3),
    "smolvlm": VisionLanguage("llama", "smolvlm_vision", idefics3),
    "internvl": VisionLanguage("qwen2", "internvl_vision", internvl),
    "internvl_chat": VisionLanguage("internlm2", "internvl_vision", internvl),
    "kimi_vl": VisionLanguage("deepseek_v3", "moonvit", kimi_vl),
    "kimi_k25": VisionLanguage("deepseek_v3", "kimi_k25_vision", kimi_vl),
    "mimo_v2": VisionLanguage("mimo_v2_flash", "mimovl", mimo),
    "lfm2_vl": VisionLanguage("lfm2", "siglip2_vision_model", lfm2_vl),
    "mistral3": VisionLanguage("mistral", "pixtral", mistral3),
    "qwen2_vl": VisionLanguage("qwen2_vl_text", "qwen2_vl_vision", qwen2_vl),
    "qwen2_5_vl": VisionLanguage("qwen2_5_vl_text", "qwen2_5_vl_vision", qwen2_vl),
    "qwen3_vl": VisionLanguage("qwen3_vl_text", "qwen3_vl_vision", qwen3_vl),
    "qwen3_vl_moe": VisionLanguage("qwen3_vl_moe_text", "qwen3_vl_moe_vision", qwen3_vl),
    "qwen3_5": VisionLanguage("qwen3_5_text", "qwen3_5_vision", qwen3_5),
    "qwen3_5_moe": VisionLanguage("qwen3_5_moe_text", "qwen3_5_moe_vision", qwen3_5),
    "glm4v": VisionLanguage("glm4v_text", "glm4v_vision", glm4v),
    "mllama": VisionLanguage("mllama_text_model", "mllama_vision_model", mllama),
    "llama4": VisionLanguage("llama4_text", "llama4_vision_model", llama4),
    "minimax_m3_vl": VisionLanguage("minimax_m3_vl_text", "minimax_m3_vl_vision", minimax_m3),
}
