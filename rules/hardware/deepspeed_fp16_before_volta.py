"""HWF014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..precision.stated_precision import uses_deepspeed
from .capability import below, described

VOLTA = (7, 0)


class DeepspeedFp16BeforeVolta(Rule):
    """DeepSpeed refuses fp16 on GPUs before Volta.

    On P100, P40 and GTX 10 the engine raises "Type fp16 is not supported on your device". With the environment variable
    DS_ALLOW_DEPRECATED_FP16=1 it runs on compute capability 6.x, without tensor cores.

    How sure: read in DeepSpeed's CUDA accelerator. Nothing is said where the launch line sets the variable.
    """

    code = "HWF014"
    name = "deepspeed-fp16-before-volta"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/accelerator/cuda_accelerator.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
    )
    catalogue = ("hw.ds-fp16-pascal",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true}
            }
            """,
            gpu="V100",
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 4,
                  "zero_optimization": {"stage": 2},
                  "fp16": {"enabled": true}
                }
                """,
                "run.sh": """
                export DS_ALLOW_DEPRECATED_FP16=1
                deepspeed --num_gpus 2 train.py --deepspeed ds.json --model_name_or_path facebook/opt-350m \\
                  --per_device_train_batch_size 4 --num_train_epochs 1 --output_dir out --learning_rate 1e-5
                """,
            },
            gpu="P100",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true}
            }
            """,
            gpu="P100",
            at="enabled",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute = job.compute_dtype
        if compute is None or compute.value != "fp16" or not uses_deepspeed(job) or not below(job, VOLTA):
            return
        if any("DS_ALLOW_DEPRECATED_FP16" in reading.document.file.text for reading in job.readings):
            return
        yield self.finding(
            f"DeepSpeed refuses fp16 below compute capability 7.0, the accelerator is {described(job)}",
            compute,
            (job.hardware.origin, "before Volta"),
            help="train in fp32, or set DS_ALLOW_DEPRECATED_FP16=1 (slow: no tensor cores)",
            job=job,
        )
