"""PRC014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from .stated_precision import TRAINERS, deepspeed_sections

SET_BY_ACCELERATE_SINCE = "1.14"
"""First Accelerate release that sets fp32 communication on ROCm where the DeepSpeed file says nothing."""


class RocmBf16Communication(Rule):
    """bf16 gradients are reduced in bf16 on AMD GPUs under DeepSpeed.

    bf16 has no loss scaler to notice an overflow. Accelerate's authors saw DeepSpeed on ROCm turn weights to NaN silently
    and reduce gradients in fp32 there since 1.14, unless the DeepSpeed file says otherwise.

    How sure: Accelerate's source states it. It is a warning of medium confidence: not every run is hit. With Accelerate 1.14
    or later and nothing stated there is nothing to say; without transformers or Accelerate, DeepSpeed's own default is the
    training type.
    """

    code = "PRC014"
    name = "rocm-bf16-communication"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
    )
    catalogue = ("ds.rocm-bf16-comm",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "communication_data_type": "fp32"
            }
            """,
            gpu="MI300X",
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true}
            }
            """,
            gpu="H100-SXM",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "communication_data_type": "bf16"
            }
            """,
            gpu="MI300X",
            at="communication_data_type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        candidates = job.hardware.candidates
        compute = job.compute_dtype
        if not candidates or any(a.vendor != "AMD" for a in candidates) or compute is None or compute.value != "bf16":
            return
        for reading in job.readings:
            for section in deepspeed_sections(reading):
                if not self._harmed(job, reading, section, context):
                    continue
                stated = scalar(reading.at(*section, "communication_data_type"))
                how = f"communication_data_type is {stated!s}" if stated else "communication_data_type is not set"
                where = (*section, "communication_data_type") if stated else (*section, "bf16")
                yield self.finding(
                    f"gradients are reduced in bf16 on {job.hardware.name} ({how}): seen to turn weights to NaN on ROCm",
                    reading.origin(*where),
                    (compute, "bf16 training"),
                    help='set communication_data_type to "fp32"',
                    job=job,
                )
                return

    def _harmed(self, job: TrainingJob, reading: Reading, section: Route, context: Context) -> bool:
        stated = scalar(reading.at(*section, "communication_data_type"))
        if isinstance(stated, str):
            return stated.lower() in ("bf16", "bfp16")
        if job.partial and stated is None:
            return False  # what reads the file is not in sight
        by_accelerate = any(r.dialect in (*TRAINERS, "axolotl", "accelerate") for r in job.readings)
        return stated is None and not (
            by_accelerate and always_at_least(context.version(job, "accelerate"), SET_BY_ACCELERATE_SINCE) is not False
        )
