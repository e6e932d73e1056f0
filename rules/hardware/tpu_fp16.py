"""HWF015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import described, vendor

FRAMEWORKS = ("transformers", "trl", "llamafactory", "axolotl", "accelerate")


class TpuFp16(Rule):
    """fp16 mixed precision on a TPU, which has bf16 instead.

    Accelerate raises "fp16 mixed precision requires a device in …" on a TPU; its products are bf16.

    How sure: Accelerate 1.15 asks for the TPU by name. bf16 is always there.
    """

    code = "HWF015"
    name = "tpu-fp16"
    family = "hardware"
    severity = "error"
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",)
    catalogue = ("hw.tpu-fp16",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="TPU-v4",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="TPU-v4",
            at="fp16",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: TPU
            num_processes: 8
            mixed_precision: fp16
            """,
            at="mixed_precision",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute, accelerate = job.compute_dtype, job.reading("accelerate")
        if compute is None or compute.value != "fp16":
            return
        named = accelerate is not None and accelerate.context.get("distributed_type") == "TPU"
        if not named and (vendor(job) != "Google" or job.value("framework") not in FRAMEWORKS):
            return
        where = accelerate.origin("distributed_type") if named and accelerate is not None else job.hardware.origin
        yield self.finding(
            f"fp16 mixed precision is refused on {'a TPU' if named else described(job)}",
            compute,
            (where, "a TPU"),
            help="use bf16",
            job=job,
        )
