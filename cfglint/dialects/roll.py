"""ROLL's YAML: a Hydra config whose clusters (``actor_train``, ``actor_infer``, ``reference``) each have a strategy and devices.

What is trained is ``actor_train``; its strategy names the engine (Megatron, DeepSpeed, FSDP 2). DeepSpeed's settings are files of ROLL
that ``defaults`` brings in under names such as ``deepspeed_zero3``.

Names: ROLL main of 2026-08 (``roll/configs``, ``examples/config``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects import hydra, megatron_core
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.composition import ComposedReading
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, dtype, evidence, integer, text
from cfglint.jobs.facts import DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Scalar, Span
from cfglint.source.whole_number import whole_number

_CLUSTERS: Final = ("actor_train", "actor_infer", "reference", "critic", "student_train", "teacher")
_SHAPE: Final = ("rollout_batch_size", "pretrain", "exp_name", "num_gpus_per_node", "adv_estimator", "system_envs")
_RANGE: Final = re.compile(r"list\(range\((\d+)\s*,\s*(\d+)\)\)")
_DEEPSPEED: Final = re.compile(r"\$\{deepspeed_zero(\d?)(_cpuoffload|_offload)?\w*\}")


def _trained(root: Mapping) -> str | None:
    return next(
        (key for key in ("actor_train", "student_train", "student") if isinstance(root.get(key), Mapping)), None
    )


def _state_devices(facts: ResolvingReader, cluster: ResolvingReader) -> None:
    """``device_mapping: list(range(0,16))`` over nodes of ``num_gpus_per_node``."""
    match = _RANGE.fullmatch((text(cluster.value("device_mapping")) or "").strip())
    each = integer(facts.value("num_gpus_per_node"))
    if match is None:
        if each is not None:
            facts.integer("gpus_per_node", "num_gpus_per_node", low=1)
        return
    first, end = whole_number(match.group(1)), whole_number(match.group(2))
    count = end - first if first is not None and end is not None else 0
    if count < 1 or (each and count > each and count % each):
        return
    origin = cluster.origin("device_mapping")
    nodes = count // each if each and count > each else 1
    facts.reading.facts.state("gpus_per_node", count // nodes, origin)
    facts.reading.facts.state("nodes", nodes, origin)


def _state_strategy(cluster: ResolvingReader) -> None:
    strategy = cluster.under("strategy_args")
    name = text(strategy.value("strategy_name")) or ""
    settings = strategy.under("strategy_config")
    if name.startswith("megatron"):
        cluster.reading.framework = "megatron"
        strategy.state("framework", "megatron", "strategy_name")
        megatron_core.state_parallel(settings)
        megatron_core.state_memory(settings)
        return
    if name.startswith("deepspeed"):
        node = cluster.reading.at(*cluster.prefix, "strategy_args", "strategy_config")
        match = _DEEPSPEED.fullmatch(str(node.value)) if isinstance(node, Scalar) else None
        cluster.reading.context["deepspeed"] = "roll"
        if match is not None:
            strategy.state("zero_stage", int(match.group(1) or 0), "strategy_config")
            offloads = bool(match.group(2))
            strategy.state("offload_optimizer", "cpu" if offloads else "none", "strategy_config")
            offloads = offloads and match.group(1) == "3"
            strategy.state("offload_parameters", "cpu" if offloads else "none", "strategy_config")
        else:
            settings.integer("zero_stage", ("zero_optimization", "stage"), low=0)
    elif name.startswith("fsdp2"):
        strategy.state("fsdp", "full_shard", "strategy_name")
        strategy.state("fsdp_version", 2, "strategy_name")
        strategy.boolean("reduces_each_micro_step", ("strategy_config", "reduce_scatter_during_grad_accumulation"))
    cluster.reading.facts.state("framework", "roll", cluster.reading.origin())


def _state_method(facts: ResolvingReader, cluster: ResolvingReader) -> None:
    estimator = text(facts.value("adv_estimator"))
    rank = integer(cluster.value("model_args", "lora_rank"))
    adapter = "+lora" if rank is not None and rank > 0 else ""
    if adapter:
        cluster.integer("lora_rank", ("model_args", "lora_rank"), low=1)
        cluster.number("lora_alpha", ("model_args", "lora_alpha"), low=0)
        cluster.names("lora_targets", ("model_args", "lora_target"))
    if estimator is not None and not is_unknown(estimator):
        facts.state("method", ("ppo" if estimator == "gae" else "grpo") + adapter, "adv_estimator")
    elif facts.given("pref_loss") or facts.given("chosen_key"):
        facts.state("method", "dpo" + adapter, "pref_loss" if facts.given("pref_loss") else "chosen_key")


class Roll(Dialect):
    name = "roll"
    title = "ROLL"
    summary = "ROLL's YAML, and the commands that name it"
    markers = frozenset({"actor_train", "actor_infer", "rollout_batch_size", "strategy_args", "device_mapping"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        clusters = [key for key in evidence(root, _CLUSTERS, most=6) if isinstance(root.get(key), Mapping)]
        own = [key for key in clusters if _is_cluster(root.get(key))]
        if own and (len(clusters) >= 2 or evidence(root, _SHAPE)):
            return Recognition(86, because([*own[:2], *evidence(root, _SHAPE, 1)]))
        found = evidence(root, _SHAPE, most=6)
        if clusters and len(found) >= 2:
            return Recognition(80, because([*clusters[:1], *found[:2]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading("roll", document, root, framework="roll")
        _read(reading, root)
        hydra.attach(reading, lambda found: _composed(reading, found))
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``start_rlvr_pipeline.py --config_path DIR --config_name NAME``: all settings stand in that config."""
        flags = [word.text.partition("=")[0] for word in started.arguments]
        if started.script and _PIPELINE.fullmatch(basename(started.name)) and "--config_name" in flags:
            words = [started.word, *started.arguments]
            span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
            reading = Reading("roll", launch.document, Mapping(span), role="arguments", why=basename(started.name))
            reading.framework = "roll"
            yield reading


_PIPELINE: Final = re.compile(r"start_\w*pipeline\w*\.py")


def _composed(alone: Reading, found: hydra.Composed) -> Reading:
    """The config over the files its defaults list names."""
    reading = ComposedReading("roll", alone.document, found.root, why=alone.why, framework="roll")
    reading.context["owners"] = found.owners
    _read(reading, found.root)
    return reading


def _read(reading: Reading, root: Mapping) -> None:
    facts = ResolvingReader(reading)
    trained = _trained(root)
    if trained is None:
        reading.role = "part"
        reading.context["trains"] = False
        reading.facts.state("framework", "roll", reading.origin())
        return
    cluster = facts.under(trained)
    _state_strategy(cluster)
    if facts.text("model_id", "pretrain", (trained, "model_args", "model_name_or_path")) and facts.given("pretrain"):
        facts.reference("model", "pretrain", base="cwd")
    training = cluster.under("training_args")
    training.integer("micro_batch_size", "per_device_train_batch_size", low=1)
    training.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    training.number("learning_rate", "learning_rate", low=0)
    training.number("weight_decay", "weight_decay", low=0)
    training.integer("warmup_steps", "warmup_steps", low=0)
    facts.integer("max_steps", "max_steps", low=1)
    facts.number("max_grad_norm", "max_grad_norm", low=0)
    kind = dtype(cluster.value("model_args", "dtype"))
    if kind is not None:
        cluster.state("compute_dtype", kind, "model_args", "dtype")
        cluster.state("weight_dtype", kind, "model_args", "dtype")
    off = boolean(cluster.value("model_args", "disable_gradient_checkpointing"))
    if off is not None:
        cluster.state(
            "gradient_checkpointing", "none" if off else "full", "model_args", "disable_gradient_checkpointing"
        )
    cluster.attention("attention", ("model_args", "attn_implementation"))
    lengths = [integer(facts.value(key)) for key in ("prompt_length", "response_length")]
    if lengths[0] and lengths[1] and min(lengths[0], lengths[1]) > 0:
        how = f"prompt_length {lengths[0]} + response_length {lengths[1]}"
        inputs = (facts.origin("prompt_length"), facts.origin("response_length"))
        reading.facts.state("sequence_length", lengths[0] + lengths[1], DerivedOrigin(how, inputs))
    facts.integer("sequence_length", "sequence_length", low=1)
    _state_devices(facts, cluster)
    _state_method(facts, cluster)
    _state_rollout(facts)


def _state_rollout(facts: ResolvingReader) -> None:
    """The engine where it is placed on the trainer's devices: each is moved to the host while the other works.

    A worker offloads its states after each of its steps (``is_offload_states`` in ``roll/pipeline/base_worker.py``).
    """
    engine = facts.under("actor_infer")
    places = [text(facts.value(cluster, "device_mapping")) for cluster in ("actor_train", "actor_infer")]
    if places[0] is None or places[0] != places[1]:
        return
    keys = ("gpu_memory_utilization", "mem_fraction_static")
    routes = [("strategy_args", "strategy_config", key) for key in keys]
    if engine.number("rollout_gpu_memory_utilization", *routes, low=0) is None:
        return
    for fact in ("rollout_sleeps", "trainer_sleeps"):
        facts.state(fact, True, "actor_infer", "device_mapping")


def _is_cluster(node: object) -> bool:
    return isinstance(node, Mapping) and len(evidence(node, ("strategy_args", "device_mapping", "model_args"))) >= 2


DIALECT = Roll()
