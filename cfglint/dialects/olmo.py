"""OLMo's YAML (the trainer of OLMo 1 and 2), which shares names with Composer's.

Weights are fp32 under autocast; FSDP's ``precision: mixed`` or ``pure`` gathers them in bf16. A gated MLP's ``mlp_hidden_size`` counts
both halves.

Names: OLMo 0.6 (``olmo/config.py``, ``scripts/train.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import nest_flags
from cfglint.dialects.values import because, evidence, integer, number, text, without_defaults, word
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Scalar, Span

_SHAPE: Final = (
    "save_interval_unsharded", "save_num_unsharded_checkpoints_to_keep", "device_train_microbatch_size", "evaluators",
    "softmax_auxiliary_loss", "max_grad_norm_ratio", "save_num_checkpoints_to_keep", "global_train_batch_size", "max_duration",
)  # fmt: skip
_MODEL: Final = ("d_model", "n_heads", "n_layers", "mlp_ratio", "mlp_hidden_size")
_LAYERS: Final = re.compile(r"one_in_\w+|two_in_\w+|three_in_\w+|fine_grained")


def _model_config(model: ResolvingReader) -> dict[str, Any] | None:
    layers, hidden, heads = (integer(model.value(key)) for key in ("n_layers", "d_model", "n_heads"))
    rows = integer(model.value("embedding_size")) or integer(model.value("vocab_size"))
    if not layers or not hidden or not heads or not rows or min(layers, hidden, heads, rows) < 1:
        return None
    gated = (text(model.value("activation_type")) or "swiglu") == "swiglu"
    wide = integer(model.value("mlp_hidden_size")) or hidden * (integer(model.value("mlp_ratio")) or 4)
    if not gated or model.on("multi_query_attention") or model.on("alibi") or model.on("include_bias"):
        return None
    after = model.on("norm_after") and model.on("attention_layer_norm")
    plain_norm = not model.on("layer_norm_with_affine") and not model.on("attention_layer_norm")
    if not after and not plain_norm:
        return None
    return {
        "model_type": "olmo2" if after else "olmo", "num_hidden_layers": layers, "hidden_size": hidden,
        "num_attention_heads": heads, "num_key_value_heads": integer(model.value("n_kv_heads")) or heads,
        "intermediate_size": wide // 2, "vocab_size": rows, "tie_word_embeddings": model.on("weight_tying"),
        "max_position_embeddings": integer(model.value("max_sequence_length")) or 2048,
        "_name_or_path": f"{layers} layers of {hidden}",
    }  # fmt: skip


def _state_run(facts: ResolvingReader) -> None:
    facts.integer("micro_batch_size", "device_train_microbatch_size", low=1)
    facts.integer("global_batch_size", "global_train_batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "device_train_grad_accum", low=1)
    facts.integer("sequence_length", ("model", "max_sequence_length"), low=1)
    length = facts.value("max_duration")
    if isinstance(length, str) and length.endswith("ep") and (epochs := number(length[:-2])) is not None:
        facts.state("epochs", epochs, "max_duration")
    elif not isinstance(length, str):
        facts.integer("max_steps", "max_duration", low=1)
    kind = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "none"}.get(str(facts.value("precision")))
    if kind is not None:
        facts.state("compute_dtype", kind, "precision")
        facts.state("weight_dtype", "fp32", "precision")
    optimizer = facts.under("optimizer")
    name = text(optimizer.value("name"))
    if name is not None:
        optimizer.state("optimizer", {"adamw": "adamw_torch", "lionw": "lion"}.get(name, name), "name")
    optimizer.number("learning_rate", "learning_rate", low=0)
    optimizer.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", "max_grad_norm", low=0)
    facts.integer("warmup_steps", ("scheduler", "t_warmup"), low=0)
    if facts.on("fused_loss"):
        facts.state("loss_kernel", "triton", "fused_loss")
    if facts.on("model", "flash_attention"):
        facts.state("attention", "flash2", "model", "flash_attention")
    if facts.given("compile") or isinstance(facts.node("compile"), Mapping):
        facts.state("compile", True, "compile")
    mode = word(facts.node("activation_checkpointing"))
    if mode == "whole_layer":
        facts.state("gradient_checkpointing", "full", "activation_checkpointing")
    elif mode is not None and _LAYERS.fullmatch(mode):
        facts.state("gradient_checkpointing", "selective", "activation_checkpointing")
    strategy = text(facts.value("distributed_strategy"))
    if strategy == "ddp":
        facts.state("fsdp", "none", "distributed_strategy")
    elif facts.mapping("fsdp") is not None:
        kind = (text(facts.value("fsdp", "sharding_strategy")) or "FULL_SHARD").lower()
        if kind in ("full_shard", "shard_grad_op", "hybrid_shard", "no_shard"):
            facts.state("fsdp", kind, "fsdp")
            facts.state("fsdp_version", 1, "fsdp")


class Olmo(Dialect):
    name = "olmo"
    title = "OLMo"
    summary = "OLMo's YAML, and its training script with overrides"
    markers = frozenset({"save_interval_unsharded", "device_train_microbatch_size", "max_grad_norm_ratio"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        model = root.get("model")
        found = evidence(root, _SHAPE, most=len(_SHAPE))
        named = isinstance(model, Mapping) and isinstance(model.get("name"), Scalar)
        if len(found) >= 4 and isinstance(model, Mapping) and not named and len(evidence(model, _MODEL)) >= 3:
            return Recognition(88, because(found[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = _read(Reading("olmo", document, root, framework="olmo"))
        facts = ResolvingReader(reading)
        if not reading.facts.stated("gradient_checkpointing"):
            facts.default("gradient_checkpointing", "none", "olmo")
        facts.default("method", "pretrain", "olmo")
        facts.default("packing", True, "olmo", "", "pretraining data is a stream of tokens")
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``scripts/train.py CONFIG.yaml --model.n_layers=16``."""
        words = started.arguments
        if not started.script or not words or not words[0].text.endswith((".yaml", ".yml")):
            return
        flags = read_flags(words[1:]).mapping
        if (
            len(
                {entry.name.split(".")[0] for entry in flags.entries} & set(_SHAPE) | set(_OVERRIDES) & set(flags.index)
            )
            < 1
        ):
            return
        root = nest_flags(flags, Span(started.word.span.start, words[-1].span.end))
        reading = _read(
            Reading("olmo", launch.document, root, role="arguments", why="train.py with overrides", framework="olmo")
        )
        reading.facts = without_defaults(reading.facts)
        yield reading


_OVERRIDES: Final = (
    "fsdp.precision", "fsdp.sharding_strategy", "fsdp.wrapping_strategy", "save_overwrite", "activation_checkpointing",
    "model.flash_attention", "model.max_sequence_length", "sharded_checkpointer", "fused_loss", "save_num_checkpoints_to_keep",
    "optimizer.learning_rate", "scheduler.t_warmup",
)  # fmt: skip


def _read(reading: Reading) -> Reading:
    facts = ResolvingReader(reading)
    reading.facts.state("framework", "olmo", reading.origin())
    config = _model_config(facts.under("model"))
    if config is not None:
        reading.context["model_config"] = config
        facts.state("model_id", config["_name_or_path"], "model", "n_layers")
    _state_run(facts)
    return reading


DIALECT = Olmo()
