"""HWF007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import ADA, BLACKWELL, below, described

CONSUMER_BLACKWELL = (12, 0)
"""Compute capability of RTX 50 and RTX PRO: Transformer Engine lists no MXFP8 for it."""


class Mxfp8Capability(Rule):
    """MXFP8 block scaling on a GPU without it.

    ``use_mxfp8_block_scaling`` scales blocks of 32 values, which the tensor cores of data-center Blackwell (compute capability
    10.0) do. Transformer Engine has no MXFP8 for Hopper or Ada, nor for compute capability 12.0 (RTX 50, RTX PRO).

    How sure: Transformer Engine's support matrix; Accelerate asks it when the run starts. The matrix grows with releases, so
    compute capability 12.0 is a warning.
    """

    code = "HWF007"
    name = "mxfp8-capability"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/transformer_engine.py",
        "https://github.com/NVIDIA/TransformerEngine/issues/1654",
    )
    catalogue = ("hw.fp8-recipe-capability",)
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: TE
              use_mxfp8_block_scaling: true
            """,
            gpu="B200-SXM",
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: TE
              use_mxfp8_block_scaling: true
            """,
            gpu="H100-SXM",
            at="use_mxfp8_block_scaling",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        candidates = job.hardware.candidates
        reading = job.reading("accelerate")
        if reading is None or not candidates or below(job, ADA):
            return  # without any FP8: fp8-capability's finding
        key = "use_mxfp8_block_scaling"
        route = ("fp8_config", key)
        if boolean(scalar(reading.at(*route))) is not True:
            return
        consumer = all(
            a.compute_capability is not None and a.compute_capability >= CONSUMER_BLACKWELL for a in candidates
        )
        if not below(job, BLACKWELL) and not consumer:
            return
        yield self.finding(
            f"MXFP8 needs compute capability 10.0, the accelerator is {described(job)}",
            reading.origin(*route),
            (job.hardware.origin, "no MXFP8"),
            help=f"remove {key}: per-tensor FP8 scaling runs here",
            severity="warning" if consumer else "error",
            confidence="medium" if consumer else "high",
            job=job,
        )
