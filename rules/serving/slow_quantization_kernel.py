"""SRV029."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..hardware.capability import AMPERE
from ..precision.quantization_dtype import MARLIN
from .server import all_below, before, checkpoint_method, runs_vllm, since, text, version

READ = ("0.6.6", "0.18.2")
"""Releases whose source was read: 0.6.6, 0.8.5, 0.10.2, 0.12.0 and 0.18.1 pin the plain kernel; 0.25.1 has one method for both."""


class SlowQuantizationKernel(Rule):
    """``quantization: awq`` or ``gptq`` pins the slow kernel where vLLM would take the Marlin one.

    Up to 0.18 the argument is taken at its word: "Detected that the model can run with awq_marlin, however you specified
    quantization=awq explicitly, so forcing awq". Left out, vLLM reads the method from the checkpoint and takes Marlin on
    Ampere and later, which is several times faster at larger batches and takes bfloat16 as well.

    How sure: the same in five releases from 0.6.6 to 0.18.1; 0.25.1 has one method for both. Marlin takes 4-bit checkpoints
    with the usual group sizes; the plain kernel may also be meant as a way round a fault: information. Silent for GPUs before
    Ampere.
    """

    code = "SRV029"
    name = "slow-quantization-kernel"
    family = "serving"
    severity = "info"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/model_executor/layers/quantization/awq_marlin.py",
        "https://github.com/vllm-project/vllm/issues/13462",
    )
    catalogue = ("quant-flag-redundant-slow",)
    good = (
        example(
            {"serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ", "requirements.txt": "vllm==0.10.2"},
            gpu="A100-80GB",
            gpus=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --quantization awq --dtype half",
            gpu="T4",
            gpus=1,
            note="before Ampere Marlin is not taken",
        ),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --quantization awq",
                "requirements.txt": "vllm==0.33.0",
            },
            gpu="A100-80GB",
            gpus=1,
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --quantization awq",
                "requirements.txt": "vllm==0.10.2",
            },
            gpu="A100-80GB",
            gpus=1,
            at="quantization",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = text(job, "quantization")
        method = asked.value.lower() if asked is not None else ""
        if asked is None or method not in MARLIN or not runs_vllm(job):
            return
        if job.hardware.candidates and any(
            c.compute_capability is None or c.compute_capability < AMPERE for c in job.hardware.candidates
        ):
            return
        stated = version(job) is not None
        if stated and not (since(job, READ[0]) and before(job, READ[1])):
            return
        own, _ = checkpoint_method(job)
        if own != method or (not stated and (not job.hardware.candidates or all_below(job, AMPERE))):
            return
        yield self.finding(
            f"quantization: {method} pins the plain kernel, and {MARLIN[method]} is faster"
            + ("" if stated else " (vLLM up to 0.18; the version is not stated here)"),
            asked,
            (job.gpu, job.hardware.name),
            help=f"leave quantization out: vLLM takes {MARLIN[method]} by itself",
            job=job,
        )
