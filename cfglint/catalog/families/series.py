"""Intern-S2's time series: an encoder that reads them, and a forecaster that goes on with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cfglint.catalog.architecture import Tensor
from cfglint.catalog.families.config import Config
from cfglint.catalog.families.parts import OUTSIDE, Where, linear, matrix, norm, vector

FORECASTER = 1280
"""Width of the forecaster, which its config class fixes."""


def as_audio(tensors: Iterator[Tensor]) -> Iterator[Tensor]:
    for tensor in tensors:
        yield replace(tensor, role="audio")


def attention(width: int, where: Where = OUTSIDE) -> Iterator[Tensor]:
    """``nn.MultiheadAttention``."""
    yield from matrix("in_proj", (3 * width, width), "audio", where)
    yield from vector("in_proj", 3 * width, "audio", where, bias=True)
    yield from linear("out_proj", width, width, "audio", where, bias=True)


def encoder_layer(width: int, inner: int) -> Iterator[Tensor]:
    """``nn.TransformerEncoderLayer``."""
    yield from attention(width)
    yield from linear("linear1", inner, width, "audio", bias=True)
    yield from linear("linear2", width, inner, "audio", bias=True)
    yield from norm("norm1", width, bias=True)
    yield from norm("norm2", width, bias=True)


def queries(count: int, width: int) -> Iterator[Tensor]:
    """Learned queries that BERT's layers, six of them, let attend to each patch."""
    yield from matrix("query_token_list", (1, count, width), "audio")
    for module, rows in (("word_embeddings", 1), ("position_embeddings", count), ("token_type_embeddings", 2)):
        yield from matrix(module, (rows, width), "audio")
    yield from norm("LayerNorm", width, bias=True)
    where = Where("audio", tuple(range(6)))
    for _ in ("attention", "crossattention"):
        for module in ("query", "key", "value", "dense"):
            yield from linear(module, width, width, "audio", where, bias=True)
        yield from norm("LayerNorm", width, where, bias=True)
    yield from linear("dense", 4 * width, width, "audio", where, bias=True)
    yield from linear("dense", width, 4 * width, "audio", where, bias=True)
    yield from norm("LayerNorm", width, where, bias=True)
    yield from linear("dense", width, width, "audio", bias=True)
    yield from linear("0", 4 * width, width, "audio", bias=True)
    yield from linear("2", width, 4 * width, "audio", bias=True)


def time_series(c: Config, text: Config) -> Iterator[Tensor]:
    """Intern-S2's encoder of time series: a small transformer over patches, then Whisper's layers."""
    yield from as_audio(time_series_encoder(c))
    inner, out = c.size("ts_hidden_dim", 1024), c.size("out_hidden_size", text.size("hidden_size"))
    yield from norm("layer_norm", inner, bias=True, role="projector")
    yield from linear("linear_1", out, inner, "projector", bias=True)
    yield from linear("linear_2", out, out, "projector", bias=True)


def time_series_encoder(c: Config) -> Iterator[Tensor]:
    hidden, width = c.size("d_model", 768), c.size("encoder_ffn_dim", 3072)
    bins, patch = c.size("num_mel_bins", 80), c.size("subsampling_hidden_dim", 128)
    queried = c.get("subsampling_num_query") is not None
    taps = patch - 2 if queried else patch  # mean and deviation stand beside them
    yield from matrix("conv", (taps, 1, 5), "audio")
    yield from vector("conv", taps, "audio", bias=True)
    if queried:
        yield from queries(c.size("subsampling_num_query"), patch)
        yield from linear("fuze_proj", c.size("ts_adapt_in_dim", 256), patch, "audio", bias=True)
    yield from encoder_layer(patch, 2048)  # nn.TransformerEncoderLayer's default width
    yield from linear("adapt_in", bins, c.size("ts_adapt_in_dim", 256), "audio", bias=True)
    for module, inner in (("conv1", bins), ("conv2", hidden)):
        yield from matrix(module, (hidden, inner, 3), "audio")
        yield from vector(module, hidden, "audio", bias=True)
    yield from matrix("embed_positions", (c.size("max_source_positions", 1500), hidden), "audio")
    where = Where("audio", tuple(range(c.size("encoder_layers", 17))))
    for module in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield from linear(module, hidden, hidden, "audio", where, bias=module != "k_proj")
    yield from linear("fc1", width, hidden, "audio", where, bias=True)
    yield from linear("fc2", hidden, width, "audio", where, bias=True)
    yield from norm("self_attn_layer_norm", hidden, where, bias=True)
    yield from norm("final_layer_norm", hidden, where, bias=True)
    yield from norm("layer_norm", hidden, bias=True)
    yield from linear("adapt_out", c.size("ts_adapt_out_dim", 1024), hidden, "audio", bias=True)


def forecaster(c: Config, text: Config) -> Iterator[Tensor]:
    """TimesFM's shape (20 layers 1,280 wide) with cross attention to what two Q-formers make of series and text."""
    yield from as_audio(forecaster_parts(c, c.size("d_llm", text.size("hidden_size"))))


def forecaster_parts(c: Config, language: int) -> Iterator[Tensor]:
    width = FORECASTER
    for inner in (c.size("d_ts_encoder", 1024), language):
        yield from q_former(c, inner)
    if c.get("use_horizon_head", True):
        yield from linear("horizon_input_proj", width, language, "audio", bias=True)
        yield from norm("horizon_input_ln", width, bias=True)
        yield from encoder_layer(width, 4 * width)
        yield from norm("0", width, bias=True)
        yield from linear("1", width, width, "audio", bias=True)
        yield from linear("3", 1, width, "audio", bias=True)
    for patch, out, bias in ((64, width, True), (width, width, False), (width, 10 * 1024, False)):
        yield from linear("hidden_layer", width, patch, "audio", bias=bias)
        yield from linear("output_layer", out, width, "audio", bias=bias)
        yield from linear("residual_layer", out, patch, "audio", bias=bias)
    where = Where("audio", tuple(range(20)))
    for module in ("pre_attn_ln", "post_attn_ln", "cross_attn_ln", "pre_ff_ln", "post_ff_ln"):
        yield from norm(module, width, where)
    yield from linear("qkv_proj", 3 * width, width, "audio", where)
    for module in ("out", "q_proj", "k_proj", "v_proj", "out", "ff0", "ff1"):
        yield from linear(module, width, width, "audio", where)
    for _ in ("attn", "cross_attn"):
        for module in ("query_ln", "key_ln", "per_dim_scale"):
            yield from norm(module, width // 16, where)
    if c.get("use_cross_attn_gate", True):
        yield from vector("cross_attn_gate", 1, "audio", where)


def q_former(c: Config, inner: int) -> Iterator[Tensor]:
    width, where = FORECASTER, Where("audio", tuple(range(c.size("qformer_num_layers", 2))))
    yield from linear("input_proj", width, inner, "audio", bias=True)
    yield from norm("input_ln", width, bias=True)
    yield from matrix("query_tokens", (1, c.size("qformer_num_query_tokens", 32), width), "audio")
    for module in ("self_attn_ln", "cross_attn_ln_q", "cross_attn_ln_kv", "ffn_ln"):
        yield from norm(module, width, where, bias=True)
    for _ in ("self_attn", "cross_attn"):
        yield from attention(width, where)
    yield from linear("0", 4 * width, width, "audio", where, bias=True)
    yield from linear("3", width, 4 * width, "audio", where, bias=True)
    yield from norm("output_ln", width, bias=True)
