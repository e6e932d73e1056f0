"""HWF010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import scalar
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class MsAmp(Rule):
    """MS-AMP as FP8 backend: deprecated, and refused with FSDP and ZeRO-3.

    Accelerate warns that MS-AMP will be removed. With FSDP it raises "`accelerate` + `MS-AMP` + `FSDP` is not supported at this
    time", with DeepSpeed ZeRO-3 "MS-AMP is not supported for ZeRO Stage 3".

    How sure: Accelerate 1.15. An error with FSDP or ZeRO-3, else a warning.
    """

    code = "HWF010"
    name = "ms-amp"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
    )
    catalogue = ("hw.msamp-deprecated", "hw.msamp-fsdp-zero3")
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: TE
            fsdp_config:
              fsdp_sharding_strategy: FULL_SHARD
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: MSAMP
              opt_level: O2
            fsdp_config:
              fsdp_sharding_strategy: FULL_SHARD
            """,
            at="backend",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: fp8
            num_machines: 1
            num_processes: 8
            fp8_config:
              backend: MSAMP
            """,
            at="backend",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("accelerate")
        if reading is None or job.value("compute_dtype") != "fp8":
            return
        backend = scalar(reading.at("fp8_config", "backend"))
        if not isinstance(backend, str) or backend.upper() not in ("MSAMP", "MS-AMP"):
            return
        fsdp = reading.context.get("distributed_type") == "FSDP"
        stage = job.zero_stage if reading.context.get("distributed_type") == "DEEPSPEED" else None
        zero3 = stage is not None and stage.value == 3
        if fsdp or zero3:
            other = "FSDP" if fsdp else "ZeRO-3"
            yield self.finding(
                f"Accelerate does not take MS-AMP with {other}",
                reading.origin("fp8_config", "backend"),
                (reading.origin("distributed_type") if fsdp else stage, other),
                help="use TE or AO as backend",
                job=job,
            )
        else:
            yield self.finding(
                "MS-AMP is deprecated in Accelerate and will be removed",
                reading.origin("fp8_config", "backend"),
                help="use TE or AO as backend",
                severity="warning",
                job=job,
            )
