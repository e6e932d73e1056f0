"""Decoders that look n-grams of tokens up in large tables: Qwen4-Exp (Qwen3.8-Flash-Next) and DeepSeek-V4.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

from cfglint.catalog.architecture import ImpossibleArchitecture, Tensor, UnknownArchitecture
from cfglint.catalog.families.config import Config, divide, whole
from cfglint.catalog.families.delta import streams
from cfglint.catalog.families.hybrid import QWEN3_5, delta_plan
from cfglint.catalog.families.moe import DEEPSEEK_V4, CompressedAttention
from cfglint.catalog.families.parts import Attention, Family, Slot, Where, linear, matrix, norm, vector

# --- Qwen4-Exp (transformers 5.24 modeling_qwen4_exp.py) -------------------------------------------------------------


class SparseAttention(Attention):
    """Gated attention to the tokens that an indexer with one key head chooses (QSA)."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        yield from super().tensors(c, where)
        width = c.size("indexer_head_dim")
        heads = c.size("indexer_n_heads") + c.size("indexer_kv_heads", 1)
        yield from linear("index_qk_proj", heads * width, c.size("hidden_size"), "attention", where)
        yield from norm("q_layernorm", width, where)
        yield from norm("k_layernorm", width, where)

    def facts(self, c: Config) -> dict[str, Any]:
        return {**super().facts(c), "index_elements": c.size("indexer_kv_heads", 1) * c.size("indexer_head_dim")}


def gated_residual(c: Config, where: Where, *, inject: bool) -> Iterator[Tensor]:
    """``hc_count`` residual streams, mixed through a low rank."""
    copies, rank = c.size("hc_count", 4), c.size("hc_lowrank", 320)
    wide = copies * c.size("hidden_size")
    yield from norm("hc_norm", wide, where)
    yield from linear("input_mix_weight_down", rank, wide, "other", where)
    yield from linear("input_mix_weight_up", wide, rank, "other", where)
    if inject:
        yield from linear("block_inject_weight", copies, wide, "other", where)


WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
MOST_TABLES = 4096
"""More tables than a model has heads and layers for; no more primes than these are sought."""


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, which these witnesses decide for every number below 2**64."""
    if number < 2 or any(number % prime == 0 for prime in WITNESSES):
        return number in WITNESSES
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    odd = (number - 1) >> twos
    return all(
        pow(witness, odd, number) == 1 or any(pow(witness, odd << step, number) == number - 1 for step in range(twos))
        for witness in WITNESSES
    )


def hashed_ngrams(c: Config) -> Iterator[Tensor]:
    """Per-layer embeddings of hashed n-grams: a table for every head, each of another prime size, in one matrix."""
    layers, depth = sorted(c.indexes("ple_layer_ids") or ()), c.size("num_hidden_layers")
    if not layers:
        return
    if not 1 <= layers[0] <= layers[-1] <= depth:
        raise ImpossibleArchitecture(f"ple_layer_ids names a layer that is none of the {depth}, counted from one")
    hidden, wide = c.size("hidden_size"), c.size("hc_count", 4) * c.size("hidden_size")
    heads = (c.size("ngram_size", 3) - 1) * c.size("heads_per_ngram", 8)
    if not 1 <= heads * len(layers) <= MOST_TABLES:
        raise ImpossibleArchitecture(f"ngram_size and heads_per_ngram make {heads} tables in each of ple_layer_ids")
    total = c.size("ple_embed_dim", hidden)
    width = divide("ple_embed_dim", total, "the heads of all n-grams", heads)
    padding = c.size("make_ngram_vocab_size_divisible_by", 128)
    sizes = filter(is_prime, count(c.size("ngram_vocab_size_base", 20_000_000)))
    for layer in layers:
        where = Where("decoder", (layer - 1,))
        rows = -(-sum(islice(sizes, heads)) // padding) * padding
        yield from matrix("ngram_embedding", (rows, width), "embedding", where)
        yield from linear("key_proj", wide, total, "other", where)
        yield from linear("value_proj", hidden, total, "other", where)
        for module in ("norm_key", "norm_query", "norm_conv"):
            yield from norm(module, wide, where)
        yield from matrix("conv1d", (wide, 1, c.size("ple_conv_kernel_size", 4)), "other", where)


def qwen4_extra(c: Config, where: Where) -> Iterator[Tensor]:
    for _ in ("attention", "mlp"):
        yield from gated_residual(c, where, inject=True)
    yield from gated_residual(c, Where(), inject=False)
    yield from hashed_ngrams(c)


def qwen4_plan(c: Config) -> tuple[Slot, ...]:
    """``full_attention`` of published configs is ``indexed_attention`` in transformers."""
    kinds = c.sequence("layer_types")
    if kinds is not None:
        named = ["full_attention" if kind == "indexed_attention" else kind for kind in kinds]
        c = Config({**c.raw, "layer_types": named}, c.model_type, nested=c.nested)
    return tuple(slot._replace(feed_forward="moe") for slot in delta_plan(c))


# --- DeepSeek-V4.1 (tensor headers of the checkpoint, mondegreens/apron) ----------------------------------------------


class SharingAttention(CompressedAttention):
    """DeepSeek-V4's latent attention of which some layers compress keys for the next, and some index them."""

    def compressor(self, c: Config, where: Where, hidden: int, width: int, rank: int) -> Iterator[Tensor]:
        heads, narrow = c.size("index_n_heads"), c.size("index_head_dim")
        if "source" in self.kind:
            yield from norm("compressor_norm", width, where)
            yield from linear("compressor_wkv", width, hidden, "mla", where)
            if self.kind != "source_1":  # a single token needs no weighing
                yield from linear("compressor_wgate", width, hidden, "mla", where)
            yield from norm("k_norm", narrow, where)
            yield from linear("wk", narrow, width, "mla", where)
        yield from linear("index_wq_b", heads * narrow, rank, "mla", where)
        yield from linear("weights_proj", heads, hidden, "mla", where)

    def facts(self, c: Config) -> dict[str, Any]:
        width = c.size("head_dim")
        facts = {"heads": c.size("num_attention_heads"), "kv_heads": 1, "head_dim": width, "kv_elements": width}
        if "source" in self.kind:
            rate = int(self.kind.rpartition("_")[2])
            facts.update(kv_compression=rate, index_elements=c.size("index_head_dim"))
        return facts


SHARING = ("sliding_attention", "index", "source_1", "source_2")


def sharing_plan(c: Config) -> tuple[Slot, ...]:
    """Every layer has a window; the sources' compressed keys and the indexers' choices serve the layers that follow."""
    depth, window = c.size("num_hidden_layers"), c.size("sliding_window")
    ratios = c.sequence("compress_ratios")
    sources, indexers = (set(c.indexes(f"{what}_source_layer_ids") or ()) for what in ("kv", "index"))
    if ratios is None or len(ratios) < depth:
        raise UnknownArchitecture("compress_ratios does not name each of the num_hidden_layers")
    slots = []
    for index in range(depth):
        if index in sources:
            part = f"source_{whole('compress_ratios', ratios[index], at_least=1)}"
            if part not in SHARING:
                raise UnknownArchitecture(
                    f"compress_ratios has {ratios[index]!r} for a source of keys, which is not known"
                )
            slots.append(Slot("full_attention", "moe", part=part))
        else:
            part = "index" if index in indexers else "sliding_attention"
            slots.append(Slot("sliding_attention", "moe", window, part=part))
    return tuple(slots)


def engrams(c: Config, where: Where) -> Iterator[Tensor]:
    """Engram: tables of hashed n-grams, from two tokens to ``engram_max_ngram_size``, and their way into the streams."""
    yield from streams(c, where)
    layers, rows = c.sequence("engram_layer_ids") or (), c.sequence("engram_num_embeddings") or ()
    if len(layers) != len(rows):
        raise UnknownArchitecture("engram_num_embeddings does not state a size for each of engram_layer_ids")
    if not layers:
        return
    hidden, copies, width = c.size("hidden_size"), c.size("hc_mult"), c.size("engram_head_dim")
    lengths, depth = c.size("engram_max_ngram_size") - 1, c.size("num_hidden_layers")
    if not lengths:
        raise ImpossibleArchitecture("engram_max_ngram_size is 1, a single token")
    inner = lengths * c.size("engram_n_heads") * width
    for layer, size in zip(layers, rows, strict=True):
        index = whole("engram_layer_ids", layer, at_least=0)
        if index >= depth:
            raise ImpossibleArchitecture(f"engram_layer_ids names layer {index} of {depth}")
        at = Where("decoder", (index,))
        yield from matrix("embed", (whole("engram_num_embeddings", size, at_least=1), width), "embedding", at)
        yield from vector("q_weight", copies * hidden, "other", at)
        yield from vector("k_weight", copies * hidden, "other", at)
        yield from linear("wkv", (copies + 1) * hidden, inner, "other", at)


FAMILIES: dict[str, Family] = {
    "qwen4_exp_text": replace(
        QWEN3_5,
        mixers={
            **QWEN3_5.mixers,
            "full_attention": SparseAttention(
                bias="attention_bias", output_bias="attention_bias", qk_norm="head", gated=True
            ),
        },
        plan=qwen4_plan,
        norms=(),
        final_norm="",
        extra=qwen4_extra,
    ),
    "deepseek_v41_text": replace(
        DEEPSEEK_V4, mixers={kind: SharingAttention(kind) for kind in SHARING}, plan=sharing_plan, extra=engrams
    ),
}
