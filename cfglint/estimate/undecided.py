"""Training jobs of which no file says something that decides what they need.

How many GPUs share the model, what is trained, how the model is shared, whether a part of it is held elsewhere: each is
answered at its most favourable, and a verdict is given only where that answer does not change it. The figures shown stay
those of the plain reading, with their low end widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Final

from cfglint.estimate.open_arguments import ARGUMENTS, HIDDEN, hides_arguments
from cfglint.estimate.open_sharding import COUNT, either, lesser, named_file, perhaps_offloaded
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.training import estimate_training
from cfglint.jobs.job import TrainingJob, with_facts

NODE_COUNTS: Final = (1, 8, 128)
"""Nodes tried where no count is stated. More is not always less: FSDP 2 cuts fused experts along the first dimension only, so
that with more ranks than experts some hold nothing and all gather padding."""

PER_NODE: Final = 8

LEAST: Final[Mapping[str, Any]] = {
    "micro_batch_size": 1, "eval_micro_batch_size": 1, "gradient_checkpointing": "full", "optimizer": "sgd", "quantization": "nf4-double", "lora_rank": 1,
    "weight_dtype": "bf16", "compute_dtype": "bf16", "loss_kernel": "fused_linear", "attention": "flash2",
    "offload_optimizer": "cpu", "offload_parameters": "cpu", "activation_offloading": True,
}  # fmt: skip
"""Facts that may be stated as ``$VARIABLE``, with the value of each that needs least."""

SPLITS: Final = ("tensor_parallel_size", "pipeline_parallel_size", "expert_parallel_size", "context_parallel_size")
"""Sizes that take from every device what it holds; stated as ``$TP`` they decide the verdict."""


def estimate_undecided(job: TrainingJob) -> Estimate:
    """The estimate of ``job``, with a verdict only where what no file says cannot change it."""
    made = _trained(job)
    if job.sharding_open:
        made = either(made, _trained(_sharded(job)), job)
        named = named_file(job)
        if named is not None:
            both = with_facts(job, zero_stage=3, offload_optimizer="cpu", offload_parameters="cpu")
            perhaps_offloaded(made, _trained(both), named)
    if made.memory.verdict in ("oom", "likely-oom") and hides_arguments(job):
        made.memory.verdict = "unknown"
        made.memory.missing.append(ARGUMENTS)
        made.assumptions.insert(0, HIDDEN)
    return made


def _trained(job: TrainingJob) -> Estimate:
    """As many parameters trained as stated; none but adapters where that is stated as something not known here."""
    made = _least(job)
    if job.undecided("method"):
        adapters = _least(with_facts(job, method="lora"))
        _widen(made, adapters, "method")
        made.assumptions.insert(0, "what is trained is not known: shown with all parameters trained")
    for reading in job.readings:
        elsewhere = reading.context.get("held_elsewhere")
        if isinstance(elsewhere, tuple):
            key, words = elsewhere
            made.memory.missing.append(key)
            made.memory.verdict = "unknown"
            made.assumptions.insert(0, words)
    return made


def _least(job: TrainingJob) -> Estimate:
    """With the framework's defaults for what is stated as something not known here, widened to the least that may be meant."""
    made = _split(job)
    idle = () if job.value("evaluates") is True else ("eval_micro_batch_size",)
    hidden = [name for name in LEAST if job.undecided(name) and name not in idle]
    if not hidden:
        return made
    least = {name: LEAST[name] for name in hidden}
    if "quantization" in least and job.value("method") in (None, "full"):
        least["method"] = "qlora"
    favourable = _split(with_facts(job, **least))
    for name in hidden:
        _widen(made, favourable, name)
    return made


def _split(job: TrainingJob) -> Estimate:
    """Unsplit along the parallel sizes that are stated as something not known here; they may split all there is over all GPUs."""
    made = _counted(job)
    hidden = [name for name in SPLITS if job.undecided(name)]
    if not hidden:
        return made
    memory = made.memory
    most = job.hardware.world_size or PER_NODE * NODE_COUNTS[-1]
    memory.allocated, memory.reserved, memory.used = (
        Interval(held.low / most, held.expected, held.high) if held is not None else None
        for held in (memory.allocated, memory.reserved, memory.used)
    )
    memory.floor = memory.floor / most if memory.floor is not None else None
    memory.missing += [name for name in hidden if name not in memory.missing]
    if memory.verdict != "fits":
        memory.verdict = "unknown"
    made.assumptions.insert(0, f"{', '.join(hidden)} not known: shown as 1")
    return made


def _counted(job: TrainingJob) -> Estimate:
    """On the GPUs stated; on any number of them where sharding is stated and the number is not."""
    made = estimate_training(job)
    if COUNT in made.memory.missing:
        for nodes in (job.hardware.nodes,) if job.hardware.nodes else NODE_COUNTS:
            many = copy(job)
            many.hardware = replace(job.hardware, gpus_per_node=job.hardware.gpus_per_node or PER_NODE, nodes=nodes)
            _widen(made, estimate_training(many), COUNT)
        made.assumptions.insert(0, "no file says how many GPUs share the model: shown on the fewest")
    return made


def _sharded(job: TrainingJob) -> TrainingJob:
    return with_facts(job, zero_stage=3)


def _widen(made: Estimate, least: Estimate, fact: str) -> None:
    """``made`` with its intervals widened down to ``least``; no verdict where the two differ."""
    memory, other = made.memory, least.memory
    memory.allocated = _lower(memory.allocated, other.allocated)
    memory.reserved = _lower(memory.reserved, other.reserved)
    memory.used = _lower(memory.used, other.used)
    memory.floor = lesser(memory.floor, other.floor)
    if fact not in memory.missing:
        memory.missing.append(fact)
    if memory.verdict != other.verdict:
        memory.verdict = "unknown"


def _lower(shown: Interval | None, least: Interval | None) -> Interval | None:
    if shown is None or least is None:
        return shown
    return Interval(min(shown.low, least.low), shown.expected, shown.high)
