"""MaxText's YAML, its command with overrides, and Primus experiments in its words.

A run's file names the one it starts from in ``base_config``; presets of models state dimensions. ``weight_dtype`` is what parameters
are stored in, ``dtype`` what is computed in. Memory under JAX is another matter than under PyTorch: the estimate treats the
framework as one it does not know.

Names: MaxText main of 2026-08 (``src/maxtext/configs/base.yml``, ``pyconfig.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.catalog.presets import preset
from cfglint.dialects import primus
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import is_override, nested
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, evidence, integer, text, word
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Origin, Reading
from cfglint.source.node import Document, Mapping, Scalar, Span

_DIMENSIONS: Final = (
    "base_emb_dim", "base_num_decoder_layers", "base_num_query_heads", "base_num_kv_heads", "base_mlp_dim", "decoder_block",
)  # fmt: skip
_RUN: Final = (
    "per_device_batch_size", "max_target_length", "ici_fsdp_parallelism", "ici_tensor_parallelism", "dcn_data_parallelism",
    "remat_policy", "logical_axis_rules", "data_sharding", "steps", "hardware", "use_sft", "use_dpo", "attention",
    "sharding_strategy", "mesh_axes", "enable_jax_profiler", "ici_data_parallelism", "scan_layers", "base_output_directory",
)  # fmt: skip
_REMAT: Final = {"full": "full", "none": "none", "save_nothing": "full"}
_OPTIMIZERS: Final = {"adamw": "adamw_torch_fused", "adam_pax": "adamw_torch_fused", "sgd": "sgd", "muon": "muon"}


def _state_model(facts: ResolvingReader) -> None:
    name = text(facts.value("model_name"))
    if name is None or name == "default":
        return
    facts.state("model_id", UNKNOWN if is_unknown(name) else preset("maxtext", name.lower()) or name, "model_name")


def _state_parallel(facts: ResolvingReader) -> None:
    """Degrees within a slice or host (``ici``) times those between them (``dcn``); -1 takes what is left."""
    for fact, axis in (
        ("tensor_parallel_size", "tensor"), ("context_parallel_size", "context"), ("expert_parallel_size", "expert"),
        ("pipeline_parallel_size", "pipeline"),
    ):  # fmt: skip
        keys = [f"{place}_{axis}_parallelism" for place in ("ici", "dcn")]
        degrees = [integer(facts.value(key)) for key in keys]
        if all(degree is None for degree in degrees):
            continue
        origins: tuple[Origin, ...] = tuple(facts.origin(key) for key in keys if facts.given(key))
        if any(degree is not None and degree < 1 for degree in degrees):
            facts.reading.facts.state(fact, UNKNOWN, origins[0])
            continue
        inner, outer = (degree or 1 for degree in degrees)
        how = f"{keys[0]} {inner} × {keys[1]} {outer}"
        facts.reading.facts.state(fact, inner * outer, origins[0] if outer == 1 else DerivedOrigin(how, origins))


def _state_sharding(facts: ResolvingReader) -> None:
    """Parameters, gradients and states are sharded along the ``fsdp`` axis, which takes every device of a slice unless told."""
    sizes = [integer(facts.value(f"{place}_fsdp_parallelism")) for place in ("ici", "dcn")]
    if facts.given("ici_fsdp_parallelism"):
        on = any(size is not None and size not in (0, 1) for size in sizes)
        facts.state("fsdp", "full_shard" if on else "none", "ici_fsdp_parallelism")
    else:
        facts.default("fsdp", "full_shard", "maxtext", "", "ici_fsdp_parallelism is -1")


def read_maxtext(reading: Reading, facts: ResolvingReader) -> None:
    """State what a run's keys say."""
    _state_model(facts)
    facts.integer("micro_batch_size", "per_device_batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    facts.integer("sequence_length", "max_target_length", low=1)
    facts.integer("max_steps", "steps", low=1)
    facts.number("learning_rate", "learning_rate", low=0)
    facts.number("max_grad_norm", "gradient_clipping_threshold", low=0)
    facts.number("weight_decay", "adam_weight_decay", low=0)
    facts.dtype("weight_dtype", "weight_dtype")
    facts.dtype("compute_dtype", "dtype")
    name = text(facts.value("opt_type"))
    if name in _OPTIMIZERS:
        facts.state("optimizer", _OPTIMIZERS[name], "opt_type")
    policy = word(facts.node("remat_policy"))
    if policy is not None:
        facts.state("gradient_checkpointing", _REMAT.get(policy, "selective"), "remat_policy")
    facts.boolean("packing", "packing")
    if (text(facts.value("quantization")) or "").startswith(("fp8", "nanoo_fp8", "te_")):
        facts.state("fp8_linear", True, "quantization")
    if facts.on("use_dpo"):
        facts.state("method", "dpo", "use_dpo")
    elif facts.on("use_sft"):
        facts.state("method", "full", "use_sft")
    _state_parallel(facts)
    _state_sharding(facts)


_TRAINERS: Final = ("train", "sft", "dpo", "rl")
_OTHERS: Final = ("decode", "inference", "conversion", "convert", "checkpointing", "benchmark", "standalone_")
"""Programs of MaxText that share its settings and train nothing."""


class MaxText(Dialect):
    name = "maxtext"
    title = "MaxText"
    summary = "MaxText's YAML, its command with overrides, and Primus experiments in its words"
    markers = frozenset({"base_emb_dim", "base_num_decoder_layers", "ici_fsdp_parallelism", "per_device_batch_size"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        module = primus.module_of(root, "maxtext")
        if module is not None:
            return Recognition(92, f"modules.{module}.framework")
        base = root.get("base_config")
        found = evidence(root, (*_DIMENSIONS, *_RUN), most=8)
        builds = isinstance(base, Scalar) and isinstance(base.value, str) and base.value.endswith((".yml", ".yaml"))
        if builds and (found or len(root) <= 4):
            return Recognition(84, because(["base_config", *found[:2]]))
        if len(evidence(root, _DIMENSIONS)) >= 3:
            return Recognition(84, because(found[:3]))
        own = [key for key in root.index if key.startswith(("ici_", "dcn_")) and key.endswith("_parallelism")]
        return Recognition(80, because(own[:3])) if len(own) >= 2 else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        module = primus.module_of(root, "maxtext")
        reading = Reading("maxtext", document, root, framework="maxtext")
        reading.facts.state("framework", "maxtext", reading.origin())
        facts = ResolvingReader(reading)
        if module is not None:
            reading.context["layout"] = "primus"
            primus.refer_to_bases(reading, root)
            primus.state_preset(facts.under("modules", module))
            facts = facts.under("modules", module, "overrides")
        elif not _is_run(root):
            # a model's preset, the base of all runs, or a server: nothing is trained with it alone
            reading.role = "part"
            reading.context["trains"] = False
        read_maxtext(reading, facts)
        if reading.role == "run" and not reading.facts.stated("method"):
            facts.default("method", "pretrain", "maxtext")
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``python3 -m maxtext.trainers.pre_train.train base.yml a=b …`` and the scripts of older releases."""
        name = started.name.lower() if started.module else started.word.text.lower().replace("/", ".")
        if "maxtext." not in name or not started.arguments:
            return
        trains = any(part in name for part in _TRAINERS) and not any(part in name for part in _OTHERS)
        if not trains and not any(is_override(word) for word in started.arguments):
            return
        words = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        tree = nested([w for w in started.arguments if is_override(w)], span)
        reading = Reading("maxtext", launch.document, tree, why="maxtext with overrides", framework="maxtext")
        reading.context["standalone"] = True
        reading.facts.state("framework", "maxtext", reading.origin())
        facts = ResolvingReader(reading)
        read_maxtext(reading, facts)
        if not trains:
            reading.role = "part"
            reading.context["trains"] = False
        elif not reading.facts.stated("method"):
            facts.default("method", "full" if "sft" in name else "pretrain", "maxtext")
        yield reading


def _is_run(root: Mapping) -> bool:
    return "base_config" in root and ("steps" in root or "per_device_batch_size" in root) and len(root) < 200


DIALECT = MaxText()
