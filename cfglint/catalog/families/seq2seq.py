"""Encoder-decoder models: T5, BART, Whisper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cfglint.catalog.architecture import Layer, Tensor
from cfglint.catalog.families.config import Config
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Family,
    Heads,
    Mlp,
    Stack,
    Where,
    architecture_name,
    linear,
    matrix,
    norm,
    read_heads,
    vector,
)


def stack_of(
    stack: Stack, count: int, heads: Heads, width: int, *, cross: bool = False
) -> tuple[Where, tuple[Layer, ...]]:
    layers = tuple(
        Layer(
            index, "full_attention", "dense", width, heads.heads, heads.kv_heads, heads.head_dim, cross_attention=cross
        )
        for index in range(count)
    )
    return Where(stack, tuple(range(count))), layers


@dataclass(frozen=True)
class T5:
    """T5 (arXiv 1910.10683) and its v1.1, mT5, UMT5 and ByT5 kin: RMSNorm, no biases, relative position buckets.

    ``tie_word_embeddings: false`` counts a head of its own, as the checkpoints store it; transformers 5 ties it all the same.
    """

    buckets_everywhere: bool = False
    """UMT5 has the position buckets in every layer, the others in the first."""

    def __call__(self, c: Config) -> Body:
        hidden, vocabulary, width = c.size("hidden_size"), c.size("vocab_size"), c.size("d_ff")
        heads = read_heads(c, head_dim="d_kv")
        gated = str(c.get("feed_forward_proj", "relu")).startswith("gated-")
        encoder, encoder_layers = stack_of("encoder", c.size("num_hidden_layers"), heads, width)
        count = c.size("num_decoder_layers", c.size("num_hidden_layers"))
        decoder, layers = stack_of("decoder", count, heads, width, cross=True)
        body = Body(
            text=c, layers=layers, encoder_layers=encoder_layers, heads=heads, intermediate_size=width, gated=gated,
            tied=c.flag("tie_word_embeddings", True),
        )  # fmt: skip
        body.tensors += matrix("shared", (vocabulary, hidden), "embedding")
        for where, norms, attentions in ((encoder, 2, 1), (decoder, 3, 2)):
            for _ in range(attentions):
                body.tensors += Attention("q", "k", "v", "o", head_dim="d_kv").tensors(c, where)
            first = where if self.buckets_everywhere else Where(where.stack, where.layers[:1])
            buckets = (c.size("relative_attention_num_buckets", 32), heads.heads)
            body.tensors += matrix("relative_attention_bias", buckets, "position_embedding", first)
            mlp = Mlp("wi_0" if gated else "", "wi_1" if gated else "wi", "wo", width="d_ff")
            body.tensors += mlp.tensors(c, where)
            for _ in range(norms):
                body.tensors += norm("layer_norm", hidden, where)
            body.tensors += norm("final_layer_norm", hidden)
        if not body.tied and not architecture_name(c).endswith("Model"):
            body.tensors += linear("lm_head", vocabulary, hidden, "lm_head")
        return body


@dataclass(frozen=True)
class Bart:
    """BART (arXiv 1910.13461) and Whisper (arXiv 2212.04356), which listens through two convolutions."""

    audio: bool = False

    def __call__(self, c: Config) -> Body:
        hidden, vocabulary = c.size("hidden_size"), c.size("vocab_size")
        body = Body(text=c, norm="layernorm", tied=True, gated=False)
        body.tensors += matrix("embed_tokens" if self.audio else "shared", (vocabulary, hidden), "embedding")
        if self.audio:
            body.tensors += self.ears(c, hidden)
        body.encoder_layers = self.side(c, body, "encoder")
        body.layers = self.side(c, body, "decoder")
        last = body.layers[0]
        body.heads = Heads(last.heads, last.kv_heads, last.head_dim)
        body.intermediate_size = last.intermediate_size
        return body

    def ears(self, c: Config, hidden: int) -> Iterator[Tensor]:
        for module, channels in (("conv1", c.size("num_mel_bins", 80)), ("conv2", hidden)):
            yield from matrix(module, (hidden, channels, 3), "audio")
            yield from vector(module, hidden, "audio", bias=True)

    def positions(self, c: Config, side: str) -> int:
        if not self.audio:
            return c.size("max_position_embeddings") + 2
        return c.size("max_source_positions", 1500) if side == "encoder" else c.size("max_target_positions", 448)

    def side(self, c: Config, body: Body, side: Any) -> tuple[Layer, ...]:
        hidden = c.size("hidden_size")
        heads = read_heads(c, f"{side}_attention_heads", "", "")
        mlp = Mlp("", "fc1", "fc2", width=f"{side}_ffn_dim", bias=True)
        decoder = side == "decoder"
        where, layers = stack_of(side, c.size(f"{side}_layers"), heads, mlp.read(c), cross=decoder)
        attention = Attention(
            o="out_proj", bias=True, k_bias=not self.audio, output_bias=True,
            heads=f"{side}_attention_heads", kv_heads="", head_dim="",
        )  # fmt: skip
        body.tensors += matrix("embed_positions", (self.positions(c, side), hidden), "position_embedding")
        for _ in range(2 if decoder else 1):
            body.tensors += attention.tensors(c, where)
        body.tensors += mlp.tensors(c, where)
        names = ["self_attn_layer_norm", "final_layer_norm"] + (["encoder_attn_layer_norm"] if decoder else [])
        for name in names:
            body.tensors += norm(name, hidden, where, bias=True)
        body.tensors += norm("layer_norm" if self.audio else "layernorm_embedding", hidden, bias=True)
        return layers


FAMILIES: dict[str, Family] = {
    "t5": T5(),
    "mt5": T5(),
    "umt5": T5(buckets_everywhere=True),
    "bart": Bart(),
    "whisper": Bart(audio=True),
}
