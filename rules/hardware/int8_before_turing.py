"""HWF011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import below, described

INT8_TENSOR_CORES = (7, 5)
"""First compute capability bitsandbytes has fast 8-bit products for (its diagnostics say so)."""
OLDEST = (6, 0)
"""Oldest compute capability that bitsandbytes' wheels are built for (0.48 and later)."""


class Int8BeforeTuring(Rule):
    """8-bit loading with bitsandbytes on a GPU without int8 tensor cores.

    LLM.int8() multiplies in int8, which tensor cores do from Turing (compute capability 7.5) on. On Volta and Pascal
    bitsandbytes' own diagnostics announce a slow 8-bit product and advise 4-bit; below 6.0 its wheels have no kernels at all.

    How sure: bitsandbytes' source and hardware table (0.49). Slow is a warning; below 6.0 it is an error, for 4-bit loading
    too.
    """

    code = "HWF011"
    name = "int8-before-turing"
    family = "hardware"
    severity = "warning"
    evidence = (
        "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.49.2/README.md",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.49.2/bitsandbytes/diagnostics/cuda.py",
    )
    catalogue = ("hw.bnb-int8-turing", "hw.bnb-min-cc")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            load_in_8bit: true
            use_lora: true
            lora_r: 8
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            load_in_4bit: true
            use_lora: true
            lora_r: 8
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="V100",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            load_in_8bit: true
            use_lora: true
            lora_r: 8
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="V100",
            at="load_in_8bit",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        quantization = job.quantization
        if quantization is None or quantization.value not in ("int8", "nf4", "nf4-double", "fp4"):
            return
        if below(job, OLDEST):
            yield self.finding(
                f"bitsandbytes' wheels have no kernels below compute capability 6.0, the accelerator is {described(job)}",
                (quantization, f"{quantization.value} with bitsandbytes"),
                (job.hardware.origin, "too old"),
                help="load without quantization",
                severity="error",
                job=job,
            )
        elif quantization.value == "int8" and below(job, INT8_TENSOR_CORES):
            yield self.finding(
                f"8-bit products are slow on {described(job)}: int8 tensor cores came with 7.5",
                (quantization, "LLM.int8()"),
                (job.hardware.origin, "no int8 tensor cores"),
                help="load in 4 bit, or without quantization",
                job=job,
            )
