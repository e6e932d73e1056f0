"""What a job says of its adapters and quantization."""

from __future__ import annotations

from typing import Any, Final

from cfglint.dialects.values import boolean, texts
from cfglint.jobs.facts import DefaultOrigin, Fact, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.source.node import Node, Scalar, Sequence

BITSANDBYTES_4BIT: Final = frozenset({"nf4", "nf4-double", "fp4"})

DEQUANTIZED: Final = frozenset({"mxfp4", "fp8"})
"""Methods whose weights LLaMA-Factory turns back into bf16 on loading."""

TRAINERS: Final = ("axolotl", "llamafactory", "trl", "hf-training-args")
"""Dialects of trainers that build on transformers and PEFT; others have module names and defaults of their own."""


def hugging_face(job: TrainingJob) -> bool:
    """Whether the job's trainer builds on transformers and PEFT."""
    reading = job.reading(*TRAINERS)
    return reading is not None and reading.context.get("layout") != "v1"


def on(reading: Reading, *route: str | int) -> bool:
    """Whether a switch is stated on."""
    return boolean(reading.value(*route)) is True


def given(reading: Reading, *route: str | int) -> bool:
    """Whether a key has a value that is not null, false, empty text or an empty list."""
    node: Node | None = reading.at(*route)
    if isinstance(node, Scalar):
        return node.value not in (None, False, "") and str(node.value).lower() not in ("none", "null")
    if isinstance(node, Sequence):
        return bool(node.items)
    return node is not None and len(node.entries) > 0


def names(reading: Reading, *route: str | int) -> list[str]:
    return texts(reading.at(*route)) or []


def stored_quantization(job: TrainingJob) -> tuple[str, bool]:
    """How the checkpoint is quantized (``gptq``, ``awq`` …; empty: not, or not known) and whether its config says so.

    A name alone (``…-AWQ``) is no config: it is believed for the methods that such endings name.
    """
    architecture, model = job.architecture, job.model
    stored: Any = architecture.quantization if architecture is not None else None
    method = str(stored.get("quant_method") or "").lower() if stored else ""
    if method:
        return method, True
    words = (model.format or "").lower() if model is not None else ""
    return next((name for name in ("gptq", "awq") if words.startswith(name)), ""), False


def fsdp_fact(job: TrainingJob) -> Fact[Any] | None:
    """The statement that shards the job with FSDP; None where it does not."""
    fact = job.fsdp
    return fact if fact is not None and fact.value not in (None, "none", "no_shard") else None


def fsdp_1(job: TrainingJob) -> bool | None:
    """Whether it is FSDP 1 that shards the job; None where a release that is not stated decides."""
    version = job.fsdp_version
    if version is None or job.undecided("fsdp_version"):
        return None
    if isinstance(version.origin, DefaultOrigin) and job.versions.get(version.origin.framework) is None:
        return None
    return bool(version.value == 1)


def zero_3(job: TrainingJob) -> Fact[Any] | None:
    fact = job.zero_stage
    return fact if fact is not None and fact.value == 3 else None


def trainer_reading(job: TrainingJob, *dialects: str) -> Reading | None:
    """The job's own settings file of one of these dialects, the rewritten LLaMA-Factory layout left out."""
    reading = job.reading(*dialects)
    return None if reading is None or reading.context.get("layout") == "v1" else reading
