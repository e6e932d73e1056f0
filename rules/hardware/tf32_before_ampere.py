"""HWF002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import AMPERE, below, described, vendor

FRAMEWORKS = ("transformers", "trl", "llamafactory", "axolotl")


class Tf32BeforeAmpere(Rule):
    """TF32 is switched on for a GPU that has none.

    ``TrainingArguments`` raises "--tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7" where the GPU's
    compute capability is below 8.0, and on ROCm, whatever the GPU. Axolotl hands the key on.

    How sure: read in transformers 4.44 to 5.24. ``tf32: false`` is taken everywhere.
    """

    code = "HWF002"
    name = "tf32-before-ampere"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
    )
    catalogue = ("hw.tf32-pre-ampere",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            tf32: true
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
            tf32: false
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            fp16: true
            tf32: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="V100",
            at="tf32",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            bf16: true
            tf32: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="MI300X",
            at="tf32",
            count=1,
            note="transformers asks for CUDA",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        tf32 = job.tf32
        if tf32 is None or tf32.value is not True or not isinstance(tf32.origin, FileOrigin):
            return
        if job.value("framework") not in FRAMEWORKS:
            return
        amd = vendor(job) == "AMD"
        if not amd and not below(job, AMPERE):
            return
        why = "transformers takes tf32 on CUDA alone" if amd else "it has no TF32"
        yield self.finding(
            f"tf32 is on and the accelerator is {described(job)}: {why}, the trainer stops",
            tf32,
            (job.hardware.origin, "AMD" if amd else "before Ampere"),
            help="remove tf32",
            job=job,
        )
