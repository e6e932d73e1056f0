"""Families whose blocks differ in experts, or that look n-grams of tokens up in tables."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from cfglint.catalog.architecture import Architecture, UnknownArchitecture, architecture_from_config
from cfglint.catalog.families.ngrams import is_prime
from cfglint.catalog.models import find_model, models

QWEN, DEEPSEEK, PUZZLE = "Qwen/Qwen3.8-Flash-Next", "deepseek-ai/DeepSeek-V4.1-Flash", "nvidia/gpt-oss-puzzle-88B"


def config_of(name: str, **changes: Any) -> dict[str, Any]:
    """A catalogue model's config with changes in the part that describes the text model."""
    model = find_model(name)
    assert model is not None
    config = copy.deepcopy(dict(model.config))
    text = config.get("text_config", config)
    text.update(changes)
    return config


def read(name: str, **changes: Any) -> Architecture:
    return architecture_from_config(config_of(name, **changes))


def shapes(architecture: Architecture, module: str) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in architecture.tensors if tensor.module == module]


def test_primes() -> None:
    by_division = [number for number in range(2, 3000) if all(number % divisor for divisor in range(2, number))]
    assert [number for number in range(-3, 3000) if is_prime(number)] == by_division
    assert is_prime(2**31 - 1) and not is_prime(3_215_031_751)  # the latter passes for 2, 3, 5 and 7


def test_each_head_of_an_ngram_has_a_table_of_another_prime_size() -> None:
    sizes = {"ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 10, "ple_embed_dim": 64}
    made = read(QWEN, ple_layer_ids=[2, 5], make_ngram_vocab_size_divisible_by=16, **sizes)
    # 11 + 13 + 17 + 19 = 60 and 23 + 29 + 31 + 37 = 120, to the next multiple of 16
    assert shapes(made, "ngram_embedding") == [(64, 16), (128, 16)]
    assert [tensor.layers for tensor in made.tensors if tensor.module == "ngram_embedding"] == [(1,), (4,)]
    none = read(QWEN, ple_layer_ids=[])
    assert shapes(none, "ngram_embedding") == []


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (QWEN, {"ple_layer_ids": [0]}, "ple_layer_ids names a layer that is none of the 48"),
        (QWEN, {"ple_layer_ids": [49]}, "ple_layer_ids names a layer that is none of the 48"),
        (QWEN, {"ngram_size": 1}, "make 0 tables"),
        (QWEN, {"heads_per_ngram": 10**6}, "make 2000000 tables"),
        (QWEN, {"ple_embed_dim": 1001}, "ple_embed_dim 1001 does not divide"),
        (DEEPSEEK, {"engram_layer_ids": [40], "engram_num_embeddings": [5]}, "engram_layer_ids names layer 40 of 40"),
        (DEEPSEEK, {"engram_layer_ids": [1]}, "engram_num_embeddings does not state a size"),
        (DEEPSEEK, {"engram_max_ngram_size": 1}, "a single token"),
        (DEEPSEEK, {"compress_ratios": [1]}, "compress_ratios does not name each"),
        (DEEPSEEK, {"compress_ratios": [3] * 40}, "compress_ratios has 3 for a source of keys"),
        (PUZZLE, {"block_configs": []}, "block_configs does not describe each"),
        (PUZZLE, {"block_configs": [{"num_local_experts": 0}] * 36}, "num_local_experts is 0"),
        (PUZZLE, {"block_configs": [{"num_local_experts": 8, "sliding_window": "x"}] * 36}, "sliding_window is 'x'"),
    ],
)
def test_what_does_not_fit_is_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownArchitecture, match=message):
        read(name, **changes)


def test_tables_are_looked_up_not_multiplied() -> None:
    """Of an n-gram table a token reads some rows; the active parameters leave it out, as they do the embedding."""
    for name, module in ((QWEN, "ngram_embedding"), (DEEPSEEK, "embed")):
        made = read(name)
        tables = [tensor for tensor in made.tensors if tensor.module == module]
        assert tables and {tensor.role for tensor in tables} == {"embedding"}
        assert made.active_parameters is not None and made.total_parameters is not None
        assert made.active_parameters < made.total_parameters - sum(tensor.parameters for tensor in tables)


def test_layers_of_deepseek_v4_1_that_keep_compressed_keys() -> None:
    made = read(DEEPSEEK)
    sources = [layer for layer in made.layers if layer.window is None]
    assert len(made.layers) == 40 and len(sources) == 4
    assert {layer.window for layer in made.layers} == {None, 128}


def test_blocks_with_experts_of_their_own() -> None:
    blocks = [{"num_local_experts": 8, "sliding_window": 128}, {"num_local_experts": 4, "sliding_window": None}]
    made = read(PUZZLE, num_hidden_layers=2, block_configs=blocks)
    one = 3 * 2880 * 2880 + 3 * 2880  # with biases
    routed = sum(tensor.parameters for tensor in made.tensors if tensor.role == "expert")
    router = sum(tensor.parameters for tensor in made.tensors if tensor.role == "router")
    assert (routed, router) == (12 * one, 12 * (2880 + 1))
    assert [layer.window for layer in made.layers] == [128, None]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each mapping and list inside with each of its keys."""
    if isinstance(value, (dict, list)):
        keys = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1} & set(range(len(value))))
        for key in keys:
            yield value, key
            yield from places(value[key])


ODD: tuple[Any, ...] = (None, 0, "x", [], [[]], {}, 2**50, 7.5, -1)
PUBLISHED = {model.model_type: model for model in models() if not model.counted}


@pytest.mark.parametrize("model_type", sorted(PUBLISHED))
def test_odd_values_inside_parts_and_lists_are_named(model_type: str) -> None:
    config = copy.deepcopy(dict(PUBLISHED[model_type].config))
    for number, (holder, key) in enumerate(places(config)):
        kept = holder[key]
        for odd in ODD[number % 3 :: 3]:
            holder[key] = odd
            try:
                architecture_from_config(config)
            except UnknownArchitecture as error:
                assert str(error)
        holder[key] = kept
