"""Vision towers: patches to vectors, positions, layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cfglint.catalog.architecture import Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, divide, whole
from cfglint.catalog.families.parts import (
    Attention,
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
    inner = Config({**usual, **stated}, c.model_type, nested=True)
    if inner.raw.get("norm_type") == "rmsnorm":  # Kimi K3: no biases, heads of their own size
        width = divide(
            "qkv_hidden_size",
            inner.size("qkv_hidden_size"),
            "vt_num_attention_heads",
            inner.size("num_attention_heads"),
        )
        inner = Config({**inner.raw, "head_dim": width}, c.model_type, nested=True)
        bare = attention(o="wo", bias="attn_bias", output_bias="attn_bias")
        tower = replace(
            tower,
            attention=bare,
            mlp=replace(tower.mlp, bias="linear_bias"),
            norm_bias=False,
            patch_bias=inner.flag("patch_embed_proj_bias"),
        )
    yield from tower(inner)


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

NAVIT = replace(SIGLIP, extra=None)
"""SigLIP over images of any shape; ``image_size`` is that of the grid of positions."""

MOLMO_TOWER = Tower(
    attention("wq", "wk", "wv", "wo"),
    plain("w1", "w2"),
    ("attention_norm", "ffn_norm"),
    patch_is_linear=True,
    class_token=True,
    before="pre_ln",
)
MOLMO2_TOWER = replace(
    SIGLIP,
    attention=attention(o="o_proj"),
    patch_is_linear=True,
    positions=lambda c: c.size("image_num_pos", 729),
    after="",
    extra=None,
)
EVA2_CLIP = Tower(
    Attention(fused="query_key_value", o="dense", bias=True, output_bias=True, kv_heads="", role="vision"),
    plain(),
    ("input_layernorm", "post_attention_layernorm"),
    patch="proj",
    patch_bias=True,
    class_token=True,
)


def window_merger(c: Config, where: Where) -> Iterator[Tensor]:
    """MiniCPM-V 4.6: inside the tower, attention within windows of four patches, which are then joined."""
    hidden = c.size("hidden_size")
    inner = Config({"hidden_size": hidden, "num_attention_heads": c.size("num_attention_heads")}, "", nested=True)
    for tensor in attention().tensors(inner, Where("vision", (0,))):
        yield replace(tensor, stack="", layers=())
    yield from norm("layer_norm1", hidden, bias=True)
    yield from norm("pre_norm", 4 * hidden, bias=True)
    yield from linear("linear_1", 4 * c.size("intermediate_size"), 4 * hidden, "vision", bias=True)
    yield from linear("linear_2", hidden, 4 * c.size("intermediate_size"), "vision", bias=True)


MINICPM_TOWER = replace(NAVIT, extra=window_merger)
YOUTU_TOWER = replace(SIGLIP2, positions=None, extra=None)
"""SigLIP 2 with rotary positions."""


def step_extra(c: Config, where: Where) -> Iterator[Tensor]:
    """Step 3.7: both branches scaled; two convolutions halve the sides after the layers."""
    hidden = c.size("hidden_size")
    yield from vector("lambda_1", hidden, "vision", where)
    yield from vector("lambda_2", hidden, "vision", where)
    for module, out, inner in (("downsampler1", 2 * hidden, hidden), ("downsampler2", 4 * hidden, 2 * hidden)):
        yield from matrix(module, (out, inner, 3, 3), "vision")
        yield from vector(module, out, "vision", bias=True)


HUNYUAN_TOWER = Tower(
    attention(o="o_proj"),
    plain(),
    LAYER_NORMS,
    patch_bias=True,
    positions=lambda c: (c.size("max_image_size", 2048) // side(c, "patch_size")) ** 2 + 1,
)


HYVIT2 = replace(HUNYUAN_TOWER, positions=lambda c: (c.size("max_image_size", 2048) // side(c, "patch_size")) ** 2)


def fast_vit(c: Config) -> Iterator[Tensor]:
    """FastViTHD (FastVLM, arXiv 2412.13303): three stages of convolutions, two of attention, branches folded into one convolution each."""
    widths = [whole("embed_dims", item, at_least=1) for item in c.sequence("embed_dims") or (96, 192, 384, 768, 1536)]
    depths = [whole("layers", item, at_least=1) for item in c.sequence("layers") or (2, 12, 24, 4, 2)]
    convolved = c.size("convolution_stages", 3)

    def folded(module: str, out: int, inner: int, kernel: int, count: int = 1) -> Iterator[Tensor]:
        yield from matrix(module, (out, inner, kernel, kernel), "vision", count=count)
        yield from vector(module, out, "vision", count=count, bias=True)

    def parts() -> Iterator[Tensor]:
        first = widths[0]
        yield from folded("stem", first, 3, 3)
        yield from folded("stem", first, 1, 3)
        yield from folded("stem", first, first, 1)
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            if stage:
                yield from folded("downsample", width, 1, 7)
                yield from folded("downsample", width, width, 1)
            yield from matrix("conv", (width, 1, 7, 7), "vision", count=depth)
            yield from folded("fc1", 4 * width, width, 1, depth)
            yield from folded("fc2", width, 4 * width, 1, depth)
            yield from vector("bn", width, "vision", count=depth)
            yield from vector("bn", width, "vision", count=depth, bias=True)
            yield from vector("layer_scale", width, "vision", count=depth)
            if stage < convolved:
                yield from folded("token_mixer", width, 1, 3, depth)
                continue
            yield from folded("pos_emb", width, 1, 7)
            yield from vector("norm", width, "vision", count=depth)
            yield from vector("norm", width, "vision", count=depth, bias=True)
            yield from matrix("qkv", (3 * width, width), "vision", count=depth)
            yield from matrix("proj", (width, width), "vision", count=depth)
            yield from vector("proj", width, "vision", count=depth, bias=True)
            yield from vector("layer_scale", width, "vision", count=depth)
        last = 2 * widths[-1]
        yield from folded("se", last // 16, last, 1)
        yield from folded("se", last, last // 16, 1)
        yield from folded("final_conv", last, 1, 3)
        yield from matrix("head", (last, c.size("projection_dim", 768)), "vision")

    yield from parts()


MAGE_TOWER = Tower(
    attention(o="proj"), plain(), LAYER_NORMS, patch="patch_embedding", positions=None, before="layernorm_pre"
)

MOBILENET_V5: tuple[tuple[str, int, int, int, int], ...] = (
    # module, out, in, kernel, how often; convolutions with one channel in are depthwise
    ("conv_stem", 64, 3, 3, 1),
    ("conv_exp", 256, 64, 3, 1),
    ("conv_pwl", 128, 256, 1, 1),
    ("conv_exp", 512, 128, 3, 2),
    ("conv_pwl", 128, 512, 1, 2),
    ("dw_start", 128, 1, 3, 1),
    ("pw_exp", 768, 128, 1, 1),
    ("dw_mid", 768, 1, 5, 1),
    ("pw_proj", 256, 768, 1, 1),
    ("dw_start", 256, 1, 5, 2),
    ("dw_start", 256, 1, 3, 2),
    ("pw_exp", 1024, 256, 1, 4),
    ("pw_proj", 256, 1024, 1, 4),
    ("dw_start", 256, 1, 5, 1),
    ("pw_exp", 1536, 256, 1, 1),
    ("dw_mid", 1536, 1, 5, 1),
    ("pw_proj", 640, 1536, 1, 1),
    ("dw_start", 640, 1, 5, 7),
    ("pw_exp", 2560, 640, 1, 7),
    ("pw_proj", 640, 2560, 1, 7),
    ("pw_exp", 640, 640, 1, 1),
    ("pw_proj", 640, 640, 1, 1),
    ("key.down_conv", 640, 1, 3, 14),
    ("value.down_conv", 640, 1, 3, 14),
    ("pw_exp", 1280, 640, 1, 14),
    ("pw_proj", 640, 1280, 1, 14),
    ("dw_start", 640, 1, 5, 1),
    ("pw_exp", 3840, 640, 1, 1),
    ("dw_mid", 3840, 1, 5, 1),
    ("pw_proj", 1280, 3840, 1, 1),
    ("pw_exp", 2560, 1280, 1, 19),
    ("pw_proj", 1280, 2560, 1, 19),
    ("msfa.pw_exp", 3840, 1920, 1, 1),
    ("msfa.pw_proj", 2048, 3840, 1, 1),
)
"""Convolutions of MobileNet-V5's 300M encoder, each with a norm over what it puts out (timm 1.0.31 mobilenetv5_300m_enc)."""
MOBILENET_ATTENTION = ((640, 12, 64, 14), (1280, 16, 96, 19))
"""Its attention blocks: width, query heads, head size (one key-value head), how often."""


def mobilenet(c: Config) -> Iterator[Tensor]:
    named = c.get("architecture", "mobilenetv5_300m_enc")
    if named != "mobilenetv5_300m_enc":
        raise UnknownArchitecture(f"the vision config names {named!r}, expected mobilenetv5_300m_enc")
    yield from vector("conv_stem", 64, "vision", bias=True)
    for module, out, inner, kernel, count in MOBILENET_V5:
        yield from matrix(module, (out, inner, kernel, kernel), "vision", count=count)
        yield from vector("bn", out, "vision", count=count)
    for width, heads, size, count in MOBILENET_ATTENTION:
        yield from matrix("query.proj", (heads * size, width, 1, 1), "vision", count=count)
        yield from matrix("key.proj", (size, width, 1, 1), "vision", count=count)
        yield from matrix("value.proj", (size, width, 1, 1), "vision", count=count)
        yield from matrix("output.proj", (width, heads * size, 1, 1), "vision", count=count)
        yield from vector("norm", width, "vision", count=count)
        yield from vector("layer_scale", width, "vision", count=count)
    for width, count in ((256, 5), (640, 23), (1280, 20)):  # of the other blocks
        yield from vector("layer_scale", width, "vision", count=count)
    yield from vector("msfa.norm", 2048, "vision")


STEP_TOWER = Tower(
    attention(), plain(), ("layernorm_before", "layernorm_after"), before="pre_layernorm", extra=step_extra
)
GLM5_TOWER = replace(
    QWEN2_5_TOWER,
    attention=fused(qk_norm="head"),
    patch_bias=True,
    after="post_layernorm",
)
PENGUIN_TOWER = Tower(
    Attention(qk_norm="head", role="vision"),
    GATED_MLP,
    ("input_layernorm", "post_attention_layernorm"),
    norm_bias=False,
    patch_bias=True,
    positions=None,
    after="norm",
)
"""Qwen3-0.6B's layers over patches."""
EXAONE_TOWER = replace(
    QWEN2_5_TOWER,
    attention=Attention(fused="qkv", o="proj", bias=True, output_bias=True, heads="num_heads", role="vision"),
)
ERNIE_TOWER = Tower(
    fused(),
    plain(),
    ("norm1", "norm2"),
    depth="depth",
    patch="proj",
    patch_is_linear=True,
    channels="in_channels",
    positions=None,
    after="ln",
)

MINIMAX_TOWER = Tower(
    attention(), plain(), LAYER_NORMS, patch="proj", time="temporal_patch_size", positions=None, before="pre_layrnorm"
)

DEEPSEEK_TOWER = Tower(
    Attention(fused="wqkv", o="wo", kv_heads="", bias=True, output_bias=True, role="vision"),
    Mlp(fused="w1", down="w2", role="vision"),
    ("norm1", "norm2"),
    norm_bias=False,
    patch="proj",
    patch_bias=True,
    positions=None,
    after="norm",
)


def primus(c: Config, text: Config) -> Iterator[Tensor]:
    """NV-Reason-CT's tower for volumes (Primus of dynamic-network-architectures, with EVA's blocks) and its merger."""
    for tensor in volumes(c, c.size("out_hidden_size", text.size("hidden_size"))):
        yield replace(tensor, role="vision")


def volumes(c: Config, out: int) -> Iterator[Tensor]:
    hidden, width, edge = c.size("hidden_size"), c.size("intermediate_size"), side(c, "patch_size")
    yield from matrix("proj", (hidden, c.size("num_channels", 1), edge, edge, edge), "vision")
    yield from vector("proj", hidden, "vision", bias=True)
    where = Where("vision", tuple(range(c.size("num_hidden_layers"))))
    for module in ("q_proj", "k_proj", "v_proj", "proj"):
        yield from linear(module, hidden, hidden, "vision", where, bias=module != "k_proj")
    for module in ("fc1_g", "fc1_x"):
        yield from linear(module, width, hidden, "vision", where, bias=True)
    yield from linear("fc2", hidden, width, "vision", where, bias=True)
    for module, size in (("norm1", hidden), ("norm2", hidden), ("norm", hidden), ("norm", width)):
        yield from norm(module, size, where, bias=True)
    for module in ("gamma_1", "gamma_2"):
        yield from vector(module, hidden, "vision", where)
    for module in ("norm", "norm"):  # after the blocks, and the merger's
        yield from norm(module, hidden, bias=True)
    yield from linear("linear_fc1", hidden, hidden, "vision", bias=True)
    yield from linear("linear_fc2", out, hidden, "vision", bias=True)


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
    "siglip_navit": NAVIT,
    "hunyuan_vl_vision": HUNYUAN_TOWER,
    "fast_vit": fast_vit,
    "gemma3n_vision": mobilenet,
    "hyvit2": HYVIT2,
    "mage_vl_vision": MAGE_TOWER,
    "minicpmv4_6_vision": MINICPM_TOWER,
    "youtu_vl_vision": YOUTU_TOWER,
    "step3p7_vision": STEP_TOWER,
    "glm5_next_vision": GLM5_TOWER,
    "kimi_k3_vision": moonvit,
    "cohere_compass_vision": QWEN3_TOWER,
    "bailing_moe_v3_vl_vision": QWEN3_TOWER,
    "molmo_vision": MOLMO_TOWER,
    "molmo2_vision": MOLMO2_TOWER,
    "eva2_clip": EVA2_CLIP,
    "penguin_vision": PENGUIN_TOWER,
    "exaone4_5_vision": EXAONE_TOWER,
    "ernie4_5_vl_moe_vision": ERNIE_TOWER,
    "glm4v_moe_vision": GLM4V_TOWER,
    "qwen4_exp_vision": QWEN3_TOWER,
    "deepseek_v41_vision": DEEPSEEK_TOWER,
}
