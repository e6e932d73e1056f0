"""What several rules of this family ask of a job: where fp16 is on, whether it trains at all, its DeepSpeed settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import boolean, dtype, scalar
from cfglint.jobs.facts import DefaultOrigin, DerivedOrigin, Fact, Reading, beyond_counting
from cfglint.jobs.job import TrainingJob
from cfglint.lint import fixes
from cfglint.lint.context import Context
from cfglint.lint.finding import Fix
from cfglint.source.node import Mapping, Route

TRAINERS = ("hf-training-args", "trl", "llamafactory")
"""Dialects that take transformers' ``fp16`` and ``bf16``."""


def fp16_fact(job: TrainingJob) -> Fact[str] | None:
    """The statement that the matrix products run in fp16: the engine's or autocast's type, or fp16 weights without autocast."""
    compute = job.compute_dtype
    if compute is None:
        return None
    if compute.value == "fp16":
        return compute
    weights = job.weight_dtype
    if compute.value == "none" and weights is not None and weights.value == "fp16":
        said = [fact for fact in job.statements("weight_dtype") if not isinstance(fact.origin, DerivedOrigin)]
        by_default = bool(said) and isinstance(said[0].origin, DefaultOrigin)
        return None if by_default or _four_bit_compute(job) not in (None, "fp16") else weights
    return None


def _four_bit_compute(job: TrainingJob) -> str | None:
    """What bitsandbytes' 4-bit layers compute in, where it is stated; the weights' own dtype is not theirs."""
    for reading in job.readings:
        for place in ((), ("quantization_config",), ("model_init_kwargs", "quantization_config")):
            if on(reading, *place, "load_in_4bit"):
                stated = dtype(scalar(reading.at(*place, "bnb_4bit_compute_dtype")))
                return stated if isinstance(stated, str) else None
    return None


def both_half_types(job: TrainingJob) -> bool:
    """True where fp16 and bf16 are both switched on: another rule's finding."""
    return any(on(reading, "fp16") and on(reading, "bf16") for reading in job.readings if reading.dialect in TRAINERS)


def on(reading: Reading, *route: str | int) -> bool:
    return boolean(scalar(reading.at(*route))) is True


def off(reading: Reading, *route: str | int) -> bool:
    return boolean(scalar(reading.at(*route))) is False


def inference_only(job: TrainingJob) -> bool:
    """True where the arguments start evaluation or prediction and no training."""
    for reading in job.readings:
        if reading.dialect not in TRAINERS:
            continue
        if off(reading, "do_train"):
            return True
        asked = on(reading, "do_eval") or on(reading, "do_predict")
        if (
            asked
            and reading.dialect != "trl"
            and not _given(reading, "do_train")
            and not _given(reading, "learning_rate")
        ):
            return True
    return False


def _given(reading: Reading, key: str) -> bool:
    return reading.at(key) is not None


def uses_deepspeed(job: TrainingJob) -> bool:
    return (
        job.reading("deepspeed") is not None
        or any("deepspeed" in reading.context for reading in job.readings)
        or any(reference.role == "deepspeed" for reading in job.readings for reference in reading.references)
    )


def uses_fsdp(job: TrainingJob) -> bool:
    return job.fsdp is not None and job.fsdp.value not in ("none", "no_shard")


def deepspeed_sections(reading: Reading) -> Iterator[Route]:
    """Routes of DeepSpeed's own settings in a reading: the whole file, or the mapping a trainer's file holds."""
    if reading.dialect == "deepspeed":
        yield ()
        return
    if reading.dialect == "accelerate":
        return
    for key in ("deepspeed", "deepspeed_config"):
        if isinstance(reading.at(key), Mapping):
            yield (key,)


def number_at(reading: Reading, *route: str | int) -> int | float | None:
    """The number at a route; None for text, booleans, numbers beyond counting and what is not there."""
    value: Any = scalar(reading.at(*route))
    if not isinstance(value, (int, float)) or isinstance(value, bool) or beyond_counting(value):
        return None
    return value


def supports(job: TrainingJob, feature: str) -> bool | None:
    """Whether the job's accelerator has ``bf16``, ``tf32`` …; None where it is not known or its variants differ."""
    candidates = job.hardware.candidates
    answers = {accelerator.supports.get(feature) for accelerator in candidates}
    return answers.pop() if len(answers) == 1 else None


def bf16_instead(job: TrainingJob) -> tuple[Fix, ...]:
    """``fp16: true`` to ``bf16: true`` where the accelerator has bf16: a change of format, so not a safe fix."""
    if supports(job, "bf16") is not True:
        return ()
    for reading in job.readings:
        if reading.dialect in TRAINERS and on(reading, "fp16") and reading.document.file.format in ("yaml", "json"):
            edit = fixes.rename_key(reading, ("fp16",), "bf16")
            if edit is not None:
                return (Fix("train in bf16", (edit,), safe=False),)
    return ()


def runs_in_fp16(reading: Reading, route: Route, context: Context) -> bool:
    """Whether DeepSpeed's ``fp16.enabled`` at ``route`` is on, or ``auto`` in a job that computes in fp16."""
    if on(reading, *route):
        return True
    if not is_unknown(scalar(reading.at(*route))):
        return False
    return any(
        isinstance(job, TrainingJob) and job.compute_dtype is not None and job.compute_dtype.value == "fp16"
        for job in context.jobs_of(reading)
    )


def hidden_nan(job: TrainingJob) -> tuple[str, ...]:
    """A note on the log: transformers replaces NaN losses in it, unless the arguments say otherwise."""
    readings = [r for r in job.readings if r.dialect in TRAINERS]
    if not readings or any(r.at("logging_nan_inf_filter") is not None for r in readings):
        return ()
    return ("the log hides NaN losses, it shows 0.0: logging_nan_inf_filter: false shows them",)
