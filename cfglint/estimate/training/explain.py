"""Components of an estimate in words: name, bytes, the working, and the facts it rests on with their origins."""

from __future__ import annotations

from cfglint.estimate.result import Component, Input
from cfglint.estimate.training.formats import format_of
from cfglint.estimate.training.parameters import Parameters
from cfglint.estimate.training.phases import Peak
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.states import (
    States,
    expert_padding,
    outer_dtype,
    partition_share,
    trainable_dtype,
    trained_bytes,
    unquantized_dtype,
)
from cfglint.estimate.training.tape import DTYPE_BYTES

_FACTS = {
    "weights": ("weight_dtype", "quantization", "reference", "fsdp", "zero_stage", "tensor_parallel_size"),
    "masters": ("master_weights", "zero_stage"),
    "optimizer": ("optimizer", "zero_stage", "fsdp", "offload_optimizer"),
    "gradients": ("method", "gradient_accumulation_steps", "zero_stage", "fsdp"),
    "activations": (
        "micro_batch_size",
        "sequence_length",
        "gradient_checkpointing",
        "attention",
        "compute_dtype",
        "lora_targets",
    ),
    "logits": ("loss_kernel", "micro_batch_size", "sequence_length"),
    "workspace": ("optimizer", "optimizer_foreach"),
    "gathered": ("fsdp", "zero_stage"),
    "casts": ("compute_dtype", "weight_dtype"),
    "embedding_gradient": ("method",),
    "reduce": ("fsdp", "zero_stage"),
}
_BATCH = ("eval_micro_batch_size", "eval_sequence_length", "sequence_length")
_EVALUATED = {
    "activations": (*_BATCH, "evaluates", "attention", "compute_dtype"),
    "logits": (*_BATCH, "evaluates", "eval_loss_kernel"),
    "masks": _BATCH,
    "cache": (*_BATCH, "use_cache"),
}
"""The same where the peak is in evaluation."""
_NAMES = {
    "casts": "autocast weight cache",
    "logits": "logits and loss",
    "workspace": "optimizer workspace",
    "gathered": "gathered parameters",
    "embedding_gradient": "embedding gradient",
    "reduce": "gradient reduction",
    "masters": "master weights",
    "optimizer": "optimizer states",
    "masks": "masks and shared biases",
    "buckets": "reduction buckets",
    "placeholders": "gradient placeholders",
    "cache": "keys and values kept",
}


def billions(count: float) -> str:
    return f"{count / 1e9:.2f} B" if count >= 1e8 else f"{count / 1e6:.2f} M"


def components_of(plan: Plan, parameters: Parameters, states: States, peak: Peak) -> list[Component]:
    """What is alive at the peak, largest parts of the run first; they add up to the peak."""
    shard = f" / {plan.shard_degree} ranks" if plan.shard_degree > 1 else ""
    trainable = parameters.adapter + parameters.saved_modules if plan.adapter else parameters.base - parameters.frozen
    rows: list[tuple[str, float, str]] = []
    if shard and plan.expert_parallel > 1 and parameters.routed:
        shard += f" (experts / {plan.expert_shard_degree})"
    split = shard if plan.shards_weights else ""
    if expert_padding(plan, parameters) > 1:
        shard += " (fused experts cut one by one, fullest rank)"
        split = shard
    if plan.quantization:
        format_ = format_of(plan)
        packed = parameters.linear + parameters.packed_head
        outer = parameters.embedding + parameters.head - parameters.packed_head + parameters.outside
        inside = parameters.base - packed - outer
        kept = {unquantized_dtype(plan): inside}
        kept[outer_dtype(plan)] = kept.get(outer_dtype(plan), 0.0) + outer
        rest = "".join(f" + {billions(count)} × {DTYPE_BYTES[dtype]:g} bytes" for dtype, count in kept.items())
        weights = f"({billions(packed)} × {format_.bytes_per_parameter:.3f} bytes ({plan.quantization}){rest}){split}"
    else:
        dtype = plan.weight_dtype if plan.adapter else trainable_dtype(plan)
        cast = f" ({dtype}, to which what is trained is cast)" if dtype != plan.weight_dtype else ""
        weights = f"{billions(parameters.base)} × {DTYPE_BYTES[dtype]:g} bytes{cast}{split}"
    if plan.adapter:
        weights += f" + adapters {billions(trainable)} × {trained_bytes(plan, parameters):.3g} bytes"
    if plan.frozen_copies:
        beside = "the reference" if plan.reference == "model" else "models that are not trained"
        weights += f", and {beside}: {plan.frozen_copies} of the same size"
    if plan.offload_parameters in ("cpu", "nvme") and not states.weights:
        weights += f", all on {'NVMe' if plan.offload_parameters == 'nvme' else 'the host'}"
    rows.append(("weights", states.weights, weights))
    if states.masters:
        rows.append(("masters", states.masters, f"{billions(trainable)} × {states.master_bytes:g} bytes{shard}"))
    if states.optimizer:
        per = states.optimizer / max(1.0, trainable * partition_share(plan, parameters))
        rows.append(
            ("optimizer", states.optimizer, f"{billions(trainable)} × {per:.2f} bytes{shard} ({plan.optimizer})")
        )
    pairs = "" if plan.rows == plan.micro_batch else " pair" if plan.micro_batch == 1 else " pairs"
    batch = f"{plan.micro_batch}{pairs} × {plan.local_sequence} tokens"
    layers = len(plan.architecture.layers) if plan.architecture else 0
    for name, size in peak.parts.items():
        if size <= 0:
            continue
        if name == "gradients":
            split = shard if plan.shards_gradients else ""
            each = f"{states.gradient_bytes:.3g} bytes{split}"
            if plan.whole_gradients and size > states.gradients:
                each = f"{size / trainable:.0f} bytes, whole until the last micro-step"
            rows.append((name, size, f"{billions(trainable)} × {each}"))
        elif name == "activations":
            how = {"none": "kept", "full": "block inputs, one block recomputed"}.get(
                plan.checkpointing, plan.checkpointing
            )
            how = "one block at a time, nothing kept" if plan.evaluating else how
            rows.append((name, size, f"{batch} × {layers} layers ({how}; {plan.attention})"))
        elif name == "logits":
            vocabulary = plan.architecture.vocab_size if plan.architecture else 0
            kernel = plan.loss_kernel if plan.scoring is None else plan.scoring.described
            if plan.scores_sequences:
                kernel, vocabulary = "one score a token", 1
            rows.append((name, size, f"{batch} × {vocabulary} vocabulary ({kernel})"))
        elif name == "masks":
            rows.append((name, size, f"{batch}, one for all layers ({plan.attention})"))
        else:
            rows.append((name, size, f"at the peak, in {peak.at}"))
    known = sum(size for _, size, _ in rows)
    if peak.total - known > 1:
        if plan.profile.fuses_weight_gradients:
            rows.append(
                ("placeholders", peak.total - known, "one weight of each shape, which autograd gets as its gradient")
            )
        else:
            rows.append(("buckets", peak.total - known, f"held through the step ({plan.sharding})"))
    return [
        Component(
            _NAMES.get(name, name),
            size,
            formula,
            tuple(plan.inputs[fact] for fact in _facts(name, plan) if fact in plan.inputs),
            _facts(name, plan),
        )
        for name, size, formula in rows
    ]


def _facts(name: str, plan: Plan) -> tuple[str, ...]:
    if not plan.evaluating:
        return _FACTS.get(name, ())
    facts = _EVALUATED.get(name, _FACTS.get(name, ()))
    # training's own length counts only where evaluation has none
    return tuple(fact for fact in facts if fact != "sequence_length" or "eval_sequence_length" not in plan.inputs)


__all__ = ["Input", "billions", "components_of"]
