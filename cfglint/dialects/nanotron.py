"""nanotron's YAML, as its config dataclasses write it.

Names: nanotron main of 2026 (``src/nanotron/config/config.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.values import because, boolean, evidence, integer, text
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, plain

_SECTIONS: Final = (
    "parallelism",
    "tokens",
    "optimizer",
    "model",
    "checkpoints",
    "general",
    "data_stages",
    "logging",
    "profiler",
)
_TOKENS: Final = ("micro_batch_size", "sequence_length", "batch_accumulation_per_replica", "train_steps")


def _state_model(facts: ResolvingReader) -> None:
    model = facts.under("model")
    if model.dtype("weight_dtype", "dtype") is not None:
        model.state("compute_dtype", "none", "dtype")
    config = plain(model.mapping("model_config"))
    if not isinstance(config, dict):
        return
    layers, hidden = (
        integer(model.value("model_config", "num_hidden_layers")),
        integer(model.value("model_config", "hidden_size")),
    )
    other = any(
        key for key in config if key.startswith(("moe_", "is_mamba", "is_llamoe")) or key in ("ssm_cfg", "qkv_clip")
    )
    if not layers or not hidden or other or "num_attention_heads" not in config:
        return
    kind = "qwen2" if config.get("is_qwen2_config") else "llama"
    fields: dict[str, Any] = {key: value for key, value in config.items() if not isinstance(value, (dict, list))}
    name = f"{layers} layers of {hidden}"
    facts.reading.context["model_config"] = {**fields, "model_type": kind, "_name_or_path": name}
    model.state("model_id", name, "model_config", "num_hidden_layers")


class Nanotron(Dialect):
    name = "nanotron"
    title = "nanotron"
    summary = "nanotron's YAML"
    markers = frozenset({"batch_accumulation_per_replica", "parallelism", "tokens", "data_stages"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        tokens, parallelism = root.get("tokens"), root.get("parallelism")
        found = evidence(root, _SECTIONS, most=len(_SECTIONS))
        if not isinstance(tokens, Mapping) or not isinstance(parallelism, Mapping) or len(found) < 4:
            return None
        if evidence(tokens, _TOKENS) and evidence(parallelism, ("dp", "tp", "pp")):
            return Recognition(86, because(found[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading("nanotron", document, root, framework="nanotron")
        facts = ResolvingReader(reading)
        reading.facts.state("framework", "nanotron", reading.origin())
        tokens, parallelism, optimizer = facts.under("tokens"), facts.under("parallelism"), facts.under("optimizer")
        tokens.integer("micro_batch_size", "micro_batch_size", low=1)
        tokens.integer("gradient_accumulation_steps", "batch_accumulation_per_replica", low=1)
        tokens.integer("sequence_length", "sequence_length", low=1)
        tokens.integer("max_steps", "train_steps", low=1)
        for fact, key in (
            ("data_parallel_size", "dp"), ("tensor_parallel_size", "tp"), ("pipeline_parallel_size", "pp"),
            ("context_parallel_size", "context_parallel_size"), ("expert_parallel_size", "expert_parallel_size"),
        ):  # fmt: skip
            parallelism.integer(fact, key, low=1)
        if (on := boolean(parallelism.value("recompute_layer"))) is not None:
            parallelism.state("gradient_checkpointing", "full" if on else "none", "recompute_layer")
        optimizer.integer("zero_stage", "zero_stage", low=0)
        optimizer.number("weight_decay", "weight_decay", low=0)
        optimizer.number("max_grad_norm", "clip_grad", low=0)
        optimizer.number("learning_rate", ("learning_rate_scheduler", "learning_rate"), low=0)
        optimizer.integer("warmup_steps", ("learning_rate_scheduler", "lr_warmup_steps"), low=0)
        if (on := boolean(optimizer.value("accumulate_grad_in_fp32"))) is not None:
            optimizer.state("master_weights", on, "accumulate_grad_in_fp32")
        name = text(optimizer.value("optimizer_factory", "name"))
        fused = optimizer.on("optimizer_factory", "torch_adam_is_fused") or optimizer.on("torch_adam_is_fused")
        if name is not None and name.lower() in ("adamw", "adam"):
            optimizer.state("optimizer", "adamw_torch_fused" if fused else "adamw_torch", "optimizer_factory", "name")
        _state_model(facts)
        facts.default("method", "pretrain", "nanotron")
        yield reading


DIALECT = Nanotron()
