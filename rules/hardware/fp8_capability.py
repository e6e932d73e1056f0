"""HWF006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import ADA, HOPPER, below, described, lacks, vendor


class Fp8Capability(Rule):
    """FP8 training on an accelerator without FP8.

    FP8 tensor cores came with Ada and Hopper (compute capability 8.9 and 9.0) and with AMD's MI300. Before them Transformer
    Engine raises "Device compute capability 8.9 or higher required for FP8 execution", torch's scaled products refuse in
    the same words, and Axolotl, which asks for 9.0, raises "fp8 requested, but fp8 is not supported on this GPU".

    How sure: compute capability decides; Axolotl's own bound is read from its source.
    """

    code = "HWF006"
    name = "fp8-capability"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/NVIDIA/TransformerEngine/issues/1159",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",
        "https://github.com/kijai/ComfyUI-HunyuanVideoWrapper/issues/98",
    )
    catalogue = ("hw.fp8-te-capability", "hw.fp8-recipe-capability")
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
            """,
            gpu="H100-SXM",
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: 'NO'
            mixed_precision: fp8
            num_machines: 1
            num_processes: 1
            fp8_config:
              backend: TE
              fp8_format: E4M3
            """,
            gpu="RTX3090",
            at="mixed_precision",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            fp8: true
            torch_compile: true
            """,
            gpu="L40S",
            at="fp8",
            count=1,
            note="Axolotl asks for Hopper",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        fact = self._fp8(job)
        if fact is None:
            return
        axolotl = job.value("framework") == "axolotl"
        needed = HOPPER if axolotl else ADA
        amd = vendor(job) == "AMD" and lacks(job, "fp8")
        if not below(job, needed) and not amd:
            return
        bound = "an MI300 or later" if amd else f"compute capability {needed[0]}.{needed[1]}"
        yield self.finding(
            f"FP8 needs {bound}{' with Axolotl' if axolotl and not amd else ''}, the accelerator is {described(job)}",
            fact,
            (job.hardware.origin, "no FP8" if not axolotl else "not taken for FP8"),
            help="use bf16",
            job=job,
        )

    def _fp8(self, job: TrainingJob) -> Fact[str] | Fact[bool] | None:
        compute, linear = job.compute_dtype, job.fp8_linear
        if compute is not None and compute.value == "fp8":
            return compute
        return linear if linear is not None and linear.value is True else None
