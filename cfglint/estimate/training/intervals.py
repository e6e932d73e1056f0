"""Intervals: from the measured residuals of the regime and from what had to be assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cfglint.estimate.result import Interval
from cfglint.estimate.training.plan import HELPED, LORA_KERNELS, RL_METHODS, Plan
from cfglint.estimate.training.supervised import MOST_METRICS

FITTED_RESIDUALS: Final = {
    # fms-main, fms-liger, fitcheck-t4, cift-4080 on one GPU, and the oracle
    "modeling": (0.95, 1.08),
    # fitcheck-t4 and torch-preflight-t4 with eager attention, whose CUDA kernels hold more than the derivation, never less:
    # all of 45 rows; what they may hold more is added to the high end
    "eager": (0.98, 1.08),
    # fms-main and fms-liger on 2 and 4 GPUs
    "sharded": (0.93, 1.06),
    # liger-hf-examples with Liger's kernels in the blocks: 6 rows, up to 12 % under; what is missing was not found
    "liger": (0.93, 1.14),
    # litgpt-config-hub: all of 32 rows, from 0.98 to 1.02
    "litgpt": (0.96, 1.05),
    # torchtune-ladder as its README reads, 9 of 9
    "other": (0.92, 1.115),
    # simumax-b200
    "megatron": (0.9, 1.08),
    # no allocated figures; reserved figures of torchao spread by a third under one nominal setting
    "selective": (0.65, 1.15),
    # no rows of high confidence
    "unmeasured": (0.8, 1.25),
}
"""Low and high factors around the derived peak; each holds at least 93 of 100 of the rows named."""

LOOSE_HIGH: Final = 0.05
"""Each assumed fact widens the high end by this share; the low end is computed with favourable values."""

SHORT_SAMPLE: Final = 1024
"""Tokens that the longest of unpacked samples may have in practice (litgpt-config-hub, fms-pf: a third of the limit)."""
SHORT_DEFAULT: Final = 256
"""The same where no file states a limit (fms-mp: 280 tokens a sample under TRL's 1,024)."""


SHORT_BATCH: Final = 1024
"""Tokens of a batch up to which Unsloth makes whole logits (``models/llama.py``: ``bsz * q_len <= 1024``)."""


def residual_regime(plan: Plan) -> str:
    """The group of measured rows that speaks for this plan."""
    if plan.checkpointing == "selective":
        return "selective"
    if plan.profile.name == "megatron":
        return "megatron"
    if plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel * plan.expert_parallel > 1:
        return "unmeasured"
    if not plan.profile.modeling:
        return "litgpt" if plan.profile.name == "litgpt" else "other"
    if plan.profile.mlp_kernel == "in_place" and not plan.sharding.startswith("zero"):
        return "liger"
    if plan.sharding in ("none", "ddp"):
        return "eager" if plan.attention == "eager" else "modeling"
    return "sharded" if plan.sharding.startswith("fsdp") else "unmeasured"


def allocated_interval(expected: float, least: float, floor: float, plan: Plan) -> Interval:
    """The peak with its interval. ``least``: the peak of the favourable plan; ``floor``: bytes of the states alone."""
    low, high = FITTED_RESIDUALS[residual_regime(plan)]
    bottom = max(min(floor, least), min(expected, least) * low)
    return Interval(min(bottom, expected), expected, expected * (high + LOOSE_HIGH * len(plan.loose)))


def earlier(plan: Plan) -> Plan | None:
    """What may take more: the plan under earlier releases, where which one runs is not known, or a batch that makes logits."""
    if plan.short_whole and not plan.packs and plan.micro_batch and plan.sequence:
        shorter = min(plan.sequence, SHORT_BATCH // plan.micro_batch)
        return replace(plan, sequence=shorter, loss_kernel="triton") if shorter else None
    if plan.earlier_kernel:
        return replace(plan, loss_kernel=plan.earlier_kernel, scoring=None, metrics=MOST_METRICS)
    return replace(plan, scoring=plan.earlier_scoring) if plan.earlier_scoring is not None else None


def favourable(plan: Plan) -> Plan | None:
    """The plan with what was assumed set to what takes least; None where nothing was assumed.

    A verdict may rest on what the files say, not on what we had to assume.
    """
    changes: dict[str, object] = {}
    loose = plan.loose
    if "micro_batch_size" in loose or plan.objective in RL_METHODS:
        changes["micro_batch"] = 1
    if plan.may_use_lora_kernels:
        changes["lora_kernels"] = LORA_KERNELS
    if plan.keeps_packed_inputs is None:
        changes["keeps_packed_inputs"] = False
    keeps = plan.profile.holds_wide_logits or plan.keeps_packed_inputs is not False
    if not plan.packs and plan.profile.hold_logits and keeps:
        changes["carries"] = False  # the batch before may have been a short one
    if "images" in loose:
        changes["images"] = False
    if plan.objective in HELPED:
        changes["small_helpers"] = True
    short = SHORT_DEFAULT if "sequence_length" in loose else SHORT_SAMPLE
    if plan.evaluation_sequence is not None and plan.profile.pads_dynamically and not plan.pretrains:
        # samples to evaluate on may be unpacked where those to train on are packed
        changes["evaluation_sequence"] = min(short, plan.evaluation_sequence)
    if plan.sequence is not None and plan.sequence > short and ("sequence_length" in loose or not plan.packs):
        changes["sequence"] = short
    if "gradient_checkpointing" in loose:
        changes["checkpointing"] = "full"
    if "attention" in loose:
        changes["attention"] = "flash2"
    if "reduces_each_micro_step" in loose:
        changes["whole_gradients"] = ""
    if "weight_dtype" in loose and plan.weight_dtype == "fp32":
        changes["weight_dtype"] = "bf16"
    if "framework" in loose or "optimizer" in loose:
        changes["optimizer"] = "sgd"
    if "framework" in loose or (plan.profile.may_fuse_backward and not plan.adapter and not plan.in_backward):
        changes["in_backward"] = True
    if "framework" in loose:
        changes["loss_kernel"] = "fused_linear"
    elif "loss_kernel" in loose:
        changes["loss_kernel"] = "compiled"
    return replace(plan, **changes) if changes else None  # type: ignore[arg-type]
