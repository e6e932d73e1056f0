"""HWF105."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, before, checkpoint_method, runs_vllm, text
from .capability import ADA

MARLIN_SINCE = "0.6"
"""Sampled releases before it (0.4.3) refuse FP8 below Ada: quantization-capability's finding."""


class Fp8WeightsOnly(Rule):
    """FP8 weights on a GPU without FP8 arithmetic: memory is saved, speed is not.

    Below compute capability 8.9 vLLM unpacks FP8 weights and multiplies in 16 bits (Marlin), with the warning "Your GPU does
    not have native support for FP8 computation … Weight-only FP8 compression will be used". INT8 (W8A8) and 4-bit
    checkpoints run faster on Ampere.

    How sure: which method is used is stated; on which GPU, too. It may well be wanted for the memory: information.
    """

    code = "HWF105"
    name = "fp8-weights-only"
    family = "hardware"
    severity = "info"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/features/quantization/fp8/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/fp8.py",
    )
    catalogue = ("quant-fp8-pre-ada-weight-only",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8", gpu="L4", gpus=1),
        example("serve.sh", "vllm serve nvidia/DeepSeek-R1-FP4 -tp 8", gpu="A100-80GB", gpus=8, note="another format"),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8",
            gpu="A100-80GB",
            gpus=1,
            at="quantization",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = text(job, "quantization")
        method = asked.value.lower() if asked is not None else checkpoint_method(job)[0]
        if method != "fp8" or not runs_vllm(job) or not all_below(job, ADA) or before(job, MARLIN_SINCE):
            return
        yield self.finding(
            f"{job.hardware.name} has no FP8 arithmetic: weights are kept in FP8 and multiplied in 16 bits",
            asked or job.model_id,
            (job.gpu, job.hardware.name),
            help="for speed, an INT8 (W8A8) or 4-bit checkpoint",
            job=job,
        )
