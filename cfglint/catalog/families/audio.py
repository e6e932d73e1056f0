"""Audio encoders of models that hear (Gemma 4, Phi-4 multimodal, MiMo-V2.5), and others beside that of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cfglint.catalog.architecture import Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, whole
from cfglint.catalog.families.parts import OUTSIDE, Attention, Mlp, Where, linear, matrix, norm, vector
from cfglint.catalog.families.series import as_audio, time_series
from cfglint.catalog.families.towers import primus

Ears = Callable[[Config, Config], Iterator[Tensor]]
"""Tensors of the encoder and of its way into the text model, from the audio and the text config."""


def gemma4(c: Config, text: Config) -> Iterator[Tensor]:
    hidden, out = c.size("hidden_size", 1024), c.size("output_proj_dims", 1536)
    kernel, layers = c.size("conv_kernel_size", 5), c.size("num_hidden_layers", 12)
    channels = c.sequence("subsampling_conv_channels") or (128, 32)
    yield from as_audio(conformer(hidden, c.size("num_attention_heads", 8), layers, kernel, channels))
    yield from as_audio(linear("output_proj", out, hidden, "audio", bias=True))
    yield from linear("embedding_projection", text.size("hidden_size"), out, "projector")


def gemma3n(c: Config, text: Config) -> Iterator[Tensor]:
    """Its tokens for sounds that the encoder does not give are embedded beside it."""
    hidden, heads = c.size("hidden_size", 1536), c.size("conf_num_attention_heads", 8)
    kernel, layers = c.size("conf_conv_kernel_size", 5), c.size("conf_num_hidden_layers", 12)
    channels = c.sequence("sscp_conv_channel_size") or (128, 32)
    yield from as_audio(conformer(hidden, heads, layers, kernel, channels))
    yield from embedder(c.size("vocab_size", 128), hidden, text)


def embedder(rows: int, width: int, text: Config) -> Iterator[Tensor]:
    """Gemma 3n's way from an encoder into the text, and a table of its own for tokens of that kind."""
    yield from matrix("embedding", (rows, width), "projector")
    for module in ("hard_embedding_norm", "soft_embedding_norm"):
        yield from norm(module, width, role="projector")
    yield from linear("embedding_projection", text.size("hidden_size"), width, "projector")


def conformer(hidden: int, heads: int, layers: int, kernel: int, channels: Sequence[int]) -> Iterator[Tensor]:
    """Gemma's conformer over 128 mel bins, halved twice before it."""
    first, second = (whole("the convolutions' channels", item, at_least=1) for item in channels)
    yield from matrix("conv", (first, 1, 3, 3), "audio")
    yield from norm("norm", first)
    yield from matrix("conv", (second, first, 3, 3), "audio")
    yield from norm("norm", second)
    yield from linear("input_proj_linear", hidden, second * 32, "audio")
    where = Where("audio", tuple(range(layers)))
    for _ in range(2):
        yield from linear("ffw_layer_1", 4 * hidden, hidden, "audio", where)
        yield from linear("ffw_layer_2", hidden, 4 * hidden, "audio", where)
        yield from norm("pre_layer_norm", hidden, where)
        yield from norm("post_layer_norm", hidden, where)
    yield from vector("per_dim_scale", hidden // heads, "audio", where)
    for module in ("q_proj", "k_proj", "v_proj", "post", "relative_k_proj"):
        yield from linear(module, hidden, hidden, "audio", where)
    yield from linear("linear_start", 2 * hidden, hidden, "audio", where)
    yield from linear("linear_end", hidden, hidden, "audio", where)
    yield from matrix("depthwise_conv1d", (hidden, 1, kernel), "audio", where)
    for module in ("pre_layer_norm", "conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out"):
        yield from norm(module, hidden, where)


def gemma4_unified(c: Config, text: Config) -> Iterator[Tensor]:
    """Frames go straight into the text's width."""
    yield from linear("embedding_projection", text.size("hidden_size"), c.size("audio_embed_dim", 640), "projector")


def phi4mm(c: Config, text: Config) -> Iterator[Tensor]:
    """Phi-4 multimodal's conformer, with one way into the text for speech and one for speech beside images."""
    yield from as_audio(phi4mm_encoder(c))
    hidden, out = c.size("hidden_size", 1024), text.size("hidden_size")
    for kind in ("speech", "vision_speech"):
        yield from linear(f"up_proj_for_{kind}", out, hidden, "projector", bias=True)
        yield from linear(f"down_proj_for_{kind}", out, out, "projector", bias=True)


def phi4mm_encoder(c: Config) -> Iterator[Tensor]:
    hidden, width, kernel = c.size("hidden_size", 1024), c.size("intermediate_size", 1536), c.size("kernel_size", 3)
    where = Where("audio", tuple(range(c.size("num_blocks", 24))))

    def convolved(module: str, out: int, inner: int, size: tuple[int, ...], at: Where = OUTSIDE) -> Iterator[Tensor]:
        yield from matrix(module, (out, inner, *size), "audio", at)
        yield from vector(module, out, "audio", at, bias=True)

    yield from convolved("conv", hidden, 1, (3, 3))
    for _ in range(2):  # depthwise, then pointwise
        yield from convolved("conv", hidden, 1, (3, 3))
        yield from convolved("conv", hidden, hidden, (1, 1))
    yield from linear("out", hidden, 10 * hidden, "audio", bias=True)  # 80 mel bins, halved three times
    yield from matrix(
        "bias_values", (2 * c.size("bias_max_distance", 1000), c.size("num_attention_heads", 16)), "audio"
    )
    for _ in range(2):
        yield from linear("gate_up_proj", 2 * width, hidden, "audio", where, bias=True)
        yield from linear("down_proj", hidden, width, "audio", where, bias=True)
    for module in ("q_proj", "k_proj", "v_proj", "o_proj"):
        yield from linear(module, hidden, hidden, "audio", where, bias=True)
    for _ in range(5):  # before both MLPs, attention and convolution, and at the end
        yield from norm("layer_norm", hidden, where, bias=True)
    yield from vector("glu", hidden, "audio", where)
    yield from vector("glu", hidden, "audio", where)
    yield from convolved("glu", 2 * hidden, hidden, (1,), where)
    yield from convolved("dw_conv", hidden, 1, (kernel,), where)
    yield from convolved("pw_conv", hidden, hidden, (1,), where)
    yield from convolved("ext_pw_conv_1d", hidden, hidden, (1,), where)


def codebooks(c: Config) -> list[int]:
    """Rows of the embedding of each codec channel: one number for all, or one per channel as ``1025-1025-129-…``."""
    channels = c.size("audio_channels", 8)
    stated = c.get("speech_vocab_size")
    parts = str(stated).split("-") if stated is not None else []
    if not parts or not all(part.isdigit() for part in parts):
        raise UnknownArchitecture(f"speech_vocab_size is {stated!r}, expected the rows of each audio channel")
    rows = [int(part) for part in parts]
    return rows * channels if len(rows) == 1 else rows


def mimo(c: Config, text: Config) -> Iterator[Tensor]:
    """A small Qwen 2 over groups of codec frames (vLLM's mimo_audio.py)."""
    hidden = c.size("input_local_dim", 1024)
    inner = Config(
        {
            "hidden_size": hidden,
            "num_attention_heads": c.size("input_local_attn_heads", 64),
            "intermediate_size": c.size("input_local_intermediate_size", 4096),
        },
        "qwen2",
    )
    where = Where("audio", tuple(range(c.size("input_local_layers", 6))))

    def encoder() -> Iterator[Tensor]:
        yield from Attention(bias=True, kv_heads="").tensors(inner, where)
        yield from Mlp().tensors(inner, where)
        yield from norm("input_layernorm", hidden, where)
        yield from norm("post_attention_layernorm", hidden, where)
        if c.flag("add_post_norm"):
            yield from norm("norm", hidden)
        for rows in codebooks(c):
            yield from matrix("speech_embeddings", (rows, hidden), "audio")

    yield from as_audio(encoder())
    grouped, out = hidden * c.size("group_size", 4), c.size("out_hidden_size", text.size("hidden_size"))
    if c.size("projection_layers", 1) == 1:
        yield from linear("projection", out, grouped, "projector")
    else:
        yield from linear("0", 4 * grouped, grouped, "projector")
        yield from linear("2", out, 4 * grouped, "projector")


EARS: Mapping[str, Ears] = {
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "gemma4_unified": gemma4_unified,
    "mimo_v2": mimo,
    "phi4mm": phi4mm,
    "intern_s2_preview": time_series,
    "qwen3_5": primus,
}
"""By the ``model_type`` of the whole model."""
