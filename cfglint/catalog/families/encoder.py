"""Encoders. Their only stack is the main one, so tensors and layers stand where a decoder's would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from cfglint.catalog.architecture import Tensor
from cfglint.catalog.families.config import Config, whole
from cfglint.catalog.families.parts import (
    Attention,
    Body,
    Decoder,
    Family,
    Mlp,
    Slot,
    Where,
    architecture_name,
    labels,
    linear,
    matrix,
    norm,
    vector,
)


@dataclass(frozen=True)
class Encoder(Decoder):
    """A decoder's parts with the heads of an encoder. Without ``architectures`` it is taken for a masked language model."""

    pooler: bool = True
    """The bare model ends in a dense layer over the first token."""
    pooler_module: str = "dense"
    transform: tuple[str, str] = ("dense", "LayerNorm")
    transform_bias: bool = True
    classifier: Literal["pooled", "two"] = "pooled"
    """What a classifier stands on: the pooler, or a dense layer of its own (``classifier.dense``, ``pre_classifier``)."""
    head_modules: tuple[str, str] = ("dense", "out_proj")

    def add_head(self, c: Config, body: Body, vocabulary: int, embedded: int) -> None:
        body.tied = True
        body.tensors += self.head_tensors(c, vocabulary, embedded)

    def head_tensors(self, c: Config, vocabulary: int, embedded: int) -> Iterator[Tensor]:
        hidden, name = c.size("hidden_size"), architecture_name(c)
        if name.endswith("ForSequenceClassification"):
            dense, out = self.head_modules if self.classifier == "two" else ("dense", "classifier")
            yield from linear(dense, hidden, hidden, "other", bias=True)
            yield from linear(out, labels(c), hidden, "other", bias=True)
        elif name.endswith(("ForTokenClassification", "ForQuestionAnswering")):
            yield from linear("classifier", labels(c), hidden, "other", bias=True)
        elif name.endswith("ForPreTraining") and c.model_type == "electra":
            yield from linear("dense", hidden, hidden, "other", bias=True)
            yield from linear("dense_prediction", 1, hidden, "other", bias=True)
        elif name.endswith("Model"):
            if self.pooler:
                yield from linear(self.pooler_module, hidden, hidden, "other", bias=True)
        else:
            dense, layer_norm = self.transform
            yield from linear(dense, embedded, hidden, "lm_head", bias=self.transform_bias)
            yield from norm(layer_norm, embedded, bias=self.transform_bias)
            yield from vector("decoder", vocabulary, "lm_head", bias=True)


def token_types(c: Config, where: Where) -> Iterator[Tensor]:
    count, width = c.count("type_vocab_size"), c.size("embedding_size", c.size("hidden_size"))
    if count:
        yield from matrix("token_type_embeddings", (count, width), "embedding")


def projected(c: Config, where: Where) -> Iterator[Tensor]:
    """ELECTRA embeds in fewer dimensions than it computes in."""
    yield from token_types(c, where)
    hidden, width = c.size("hidden_size"), c.size("embedding_size", c.size("hidden_size"))
    if hidden != width:
        yield from linear("embeddings_project", hidden, width, "other", bias=True)


def relative_positions(c: Config, where: Where) -> Iterator[Tensor]:
    """DeBERTa-v2's relative positions, shared by all layers, and their norm."""
    yield from token_types(c, where)
    hidden = c.size("hidden_size")
    if c.flag("relative_attention"):
        buckets = c.get("position_buckets", -1)
        stated = c.get("max_relative_positions", -1)
        reach = stated if isinstance(stated, int) and stated > 0 else c.size("max_position_embeddings")
        span = buckets if isinstance(buckets, int) and buckets > 0 else reach
        yield from matrix("rel_embeddings", (2 * span, hidden), "position_embedding")
    if "layer_norm" in str(c.get("norm_rel_ebd", "none")):
        yield from norm("LayerNorm", hidden, bias=True)


@dataclass(frozen=True)
class SharedLayers:
    """ALBERT: every layer is the same one, so its tensors stand outside the stack."""

    encoder: Encoder

    def __call__(self, c: Config) -> Body:
        body = replace(self.encoder, extra=None)(c)
        hidden, embedded = c.size("hidden_size"), c.size("embedding_size")
        groups = c.size("num_hidden_groups", 1) * c.size("inner_group_num", 1)
        body.tensors = [
            replace(tensor, layers=(), stack="", count=tensor.count * groups) if tensor.stack else tensor
            for tensor in body.tensors
        ]
        body.tensors += token_types(c, Where())
        body.tensors += linear("embedding_hidden_mapping_in", hidden, embedded, "other", bias=True)
        return body


def modernbert_plan(c: Config) -> tuple[Slot, ...]:
    """Every third layer full, windows of ``local_attention`` tokens in the rest."""
    every = c.size("global_attn_every_n_layers", 3)
    window = whole("local_attention", c.get("local_attention", 128), at_least=1)
    local = Slot("sliding_attention", window=window)
    return tuple(local if index % every else Slot("full_attention") for index in range(c.size("num_hidden_layers")))


def attention_norms(c: Config, where: Where) -> Iterator[Tensor]:
    """ModernBERT's first layer has no norm before its attention."""
    yield from norm("attn_norm", c.size("hidden_size"), Where(where.stack, where.layers[1:]), bias=c.flag("norm_bias"))


def self_attention(q: str = "query", k: str = "key", v: str = "value", o: str = "dense") -> dict[str, Attention]:
    return {"full_attention": Attention(q=q, k=k, v=v, o=o, bias=True, output_bias=True)}


POSITIONS: Callable[[Config], bool] = lambda c: c.flag("position_biased_input", True)  # noqa: E731

BERT = Encoder(
    mixers=self_attention(),
    feed_forwards={"dense": Mlp(gate="", up="dense", down="dense", bias=True)},
    norms=("LayerNorm", "LayerNorm"),
    norm="layernorm",
    norm_bias=True,
    embedding="word_embeddings",
    embedding_size="embedding_size",
    positions="position_embeddings",
    embedding_norm="LayerNorm",
    final_norm="",
    extra=token_types,
)
ROBERTA = replace(BERT, classifier="two", transform=("dense", "layer_norm"))

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": replace(
        BERT,
        mixers=self_attention("q_lin", "k_lin", "v_lin", "out_lin"),
        feed_forwards={"dense": Mlp(gate="", up="lin1", down="lin2", bias=True, width="hidden_dim")},
        norms=("sa_layer_norm", "output_layer_norm"),
        extra=None,
        pooler=False,
        transform=("vocab_transform", "vocab_layer_norm"),
        classifier="two",
        head_modules=("pre_classifier", "classifier"),
    ),
    "nomic_bert": replace(
        BERT,
        mixers={"full_attention": Attention()},
        feed_forwards={"dense": Mlp()},
        norms=("post_attention_layernorm", "post_mlp_layernorm"),
        positions="",
        pooler=False,
    ),
    "electra": replace(BERT, extra=projected, pooler=False, classifier="two"),
    "albert": SharedLayers(
        replace(
            BERT,
            feed_forwards={"dense": Mlp(gate="", up="ffn", down="ffn_output", bias=True)},
            norms=("LayerNorm", "full_layer_layer_norm"),
            pooler_module="pooler",
        )
    ),
    "deberta-v2": replace(
        BERT,
        mixers=self_attention("query_proj", "key_proj", "value_proj"),
        positions_if=POSITIONS,
        extra=relative_positions,
        pooler=False,
    ),
    "modernbert": replace(
        BERT,
        mixers={"full_attention": Attention(fused="Wqkv", o="Wo", bias="attention_bias", output_bias="attention_bias")},
        feed_forwards={"dense": Mlp(fused="Wi", down="Wo", bias="mlp_bias")},
        plan=modernbert_plan,
        norms=("mlp_norm",),
        norm_bias="norm_bias",
        embedding="tok_embeddings",
        positions="",
        embedding_norm="norm",
        final_norm="final_norm",
        extra=attention_norms,
        pooler=False,
        transform=("dense", "norm"),
        transform_bias=False,
        classifier="two",
        head_modules=("dense", "classifier"),
    ),
}
