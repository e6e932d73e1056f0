"""HWF013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below, in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import described, vendor

NEEDED = {"fp16": "2.5", "bf16": "2.6"}
"""First torch release Accelerate takes each type with on MPS."""


class MpsPrecision(Rule):
    """Mixed precision on Apple silicon with a torch that is too old for it.

    Accelerate raises "fp16 mixed precision with MPS device requires a Pytorch >= 2.5.0", and for bf16 >= 2.6.0.

    How sure: Accelerate 1.15. Reported only where a torch below that is pinned.
    """

    code = "HWF013"
    name = "mps-precision"
    family = "hardware"
    severity = "error"
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",)
    catalogue = ("hw.mps-fp16-torch",)
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                bf16: true
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
                "requirements.txt": """
                torch>=2.6
                """,
            },
            gpu="Apple-M3-Max",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                bf16: true
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
                "requirements.txt": """
                torch==2.4.1
                """,
            },
            gpu="Apple-M3-Max",
            at="bf16",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute = job.compute_dtype
        if vendor(job) != "Apple" or compute is None or compute.value not in NEEDED:
            return
        needed = NEEDED[compute.value]
        stated = context.version(job, "torch")
        if always_below(stated, needed):
            yield self.finding(
                f"{compute.value} mixed precision on {described(job)} needs torch {needed}, the job has torch {in_words(stated)}",
                compute,
                (job.hardware.origin, "Apple silicon"),
                help=f"take torch {needed} or later, or train in fp32",
                job=job,
            )
