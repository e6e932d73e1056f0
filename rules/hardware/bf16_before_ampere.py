"""HWF001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import dtype, scalar
from cfglint.jobs.facts import DefaultOrigin, Fact, FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example

from ..precision.overflow_families import family_of
from ..schema.standing import FRAMEWORK_TITLES
from .capability import AMPERE, below, described

EMULATED_SINCE = "2.3"
"""torch 2.2.2 still answers False to ``is_bf16_supported()`` on a V100 (pytorch issue 124996); later releases emulate."""

COMPUTE_DTYPES = (
    ("bnb_4bit_compute_dtype",),
    ("bnb_4bit_compute_type",),
    ("quantization_config", "bnb_4bit_compute_dtype"),
    ("model_init_kwargs", "quantization_config", "bnb_4bit_compute_dtype"),
)
"""Where files say what 4-bit layers compute in."""


class Bf16BeforeAmpere(Rule):
    """bf16 on an NVIDIA GPU without bf16 hardware: refused by older torch, emulated and slow in newer.

    bf16 tensor cores came with Ampere (compute capability 8.0); V100, T4, RTX 20 and P100 have none. transformers asks torch
    and, up to torch 2.2, raises "Your setup doesn't support bf16/gpu. You need Ampere+ GPU with cuda>=11.0". Newer torch
    answers yes because it can emulate bf16 in fp32, so the run starts and is several times slower than fp16 on the same
    card. TRL (0.19 and later) and Axolotl switch bf16 on by themselves.

    How sure: compute capability decides. It is an error where torch is pinned below 2.3 and a warning otherwise: some
    choose emulation on purpose, for models that overflow fp16.
    """

    code = "HWF001"
    name = "bf16-before-ampere"
    family = "hardware"
    severity = "warning"
    evidence = (
        "https://github.com/pytorch/pytorch/issues/124996",
        "https://github.com/pytorch/pytorch/pull/148322",
        "https://github.com/MakazhanAlpamys/Soup/issues/387",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    catalogue = ("hw.bf16-pre-ampere", "trl.bf16-default-true", "hw.qlora-bf16-compute-turing")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="A10",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: our/data
            fp16: true
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
            gpu="V100",
            note="TRL leaves bf16 off where fp16 is on",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="V100",
            at="bf16",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
            gpu="T4",
            count=1,
            note="TRL switches bf16 on by itself",
        ),
        example(
            "qlora.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            fp16: true
            use_lora: true
            lora_r: 16
            load_in_4bit: true
            bnb_4bit_compute_dtype: bfloat16
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
            at="bnb_4bit_compute_dtype",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not below(job, AMPERE):
            return
        found = self._bf16(job)
        if found is None:
            return
        fact, where, words = found
        refused = fact is not None and always_below(context.version(job, "torch"), EMULATED_SINCE)
        effect = (
            f"torch before {EMULATED_SINCE} refuses it"
            if refused
            else "it is emulated in fp32, several times slower than fp16"
        )
        yield self.finding(
            f"{words}, and {described(job)} has no bf16: {effect}",
            where,
            (job.hardware.origin, "no bf16 before Ampere"),
            help=self._help(job),
            severity="error" if refused else "warning",
            job=job,
        )

    def _bf16(self, job: TrainingJob) -> tuple[Fact[str] | None, Where, str] | None:
        """What makes the run compute in bf16, in words."""
        compute, weights = job.compute_dtype, job.weight_dtype
        if compute is not None and compute.value == "bf16":
            if isinstance(compute.origin, DefaultOrigin):
                stated = next((r.origin("bf16") for r in job.readings if r.at("bf16") is not None), None)
                return (
                    compute,
                    stated,
                    f"{FRAMEWORK_TITLES.get(compute.origin.framework, compute.origin.framework)} switches bf16 on by itself",
                )
            return compute, compute, "bf16 is on"
        loaded = weights is not None and weights.value == "bf16" and isinstance(weights.origin, FileOrigin)
        if loaded and compute is not None and compute.value == "none":
            return None, weights, "the model is loaded in bf16"
        if job.value("quantization") in ("nf4", "nf4-double", "fp4"):
            for reading in job.readings:
                for route in COMPUTE_DTYPES:
                    if dtype(scalar(reading.at(*route))) == "bf16":
                        return None, reading.origin(*route), "4-bit layers compute in bf16"
        return None

    def _help(self, job: TrainingJob) -> str:
        match = family_of(job)
        if match is not None and match.family.level != "isolated":
            return f"{match.model_type} overflows fp16: train in fp32, or on Ampere or later"
        return "use fp16 (with loss scaling), or fp32"
