"""HWF102."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example

from ..serving.server import (
    NEWEST_SAMPLED,
    all_below,
    checkpoint_method,
    exact_version,
    runs_vllm,
    since,
    text,
    version,
)

if TYPE_CHECKING:
    from cfglint.catalog.engines import QuantizationNeeds

NAMES = {"awq": "auto_awq", "awq_marlin": "auto_awq", "gptq": "auto_gptq", "gptq_marlin": "auto_gptq"}
"""Old names and what they stand for from 0.25 on."""


class QuantizationCapability(Rule):
    """The quantization method needs a newer GPU than the server has.

    vLLM compares the device's compute capability with the method's minimum: "The quantization method fp8 is not supported
    for the current GPU. Minimum capability: 75. Current capability: 70". AWQ kernels need Turing, mxfp4 Ampere.

    How sure: minimums were read from eight releases up to 0.33.0. Every accelerator that the name can mean must be below.
    With the release stated (or one before it that needs no more) it is an error. Without one it is an error only where the
    newest release read refuses as well, and information where an earlier one does. Where only the model's name says the
    method it is a warning. Forks lower some minimums.
    """

    code = "HWF102"
    name = "quantization-capability"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/vllm.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/auto_awq.py",
    )
    catalogue = ("quant-min-capability", "quant-modelopt-fp8-ampere")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8", gpu="A100-80GB", gpus=1),
        example("serve.sh", "vllm serve our/llama-awq --quantization awq --dtype half", gpu="T4", gpus=1),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve our/llama-awq --quantization awq --dtype half",
            gpu="V100-16GB",
            gpus=1,
            at="quantization",
            count=1,
        ),
        example("serve.sh", "vllm serve openai/gpt-oss-20b", gpu="T4", gpus=1, at="model"),
        example(
            {"serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8", "requirements.txt": "vllm==0.4.3"},
            gpu="A100-80GB",
            gpus=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or not job.hardware.candidates:
            return
        from cfglint.catalog.engines import quantization_needs

        asked = text(job, "quantization")
        own, certain = checkpoint_method(job)
        method = asked.value.lower() if asked is not None else own
        if method is None:
            return
        sure = asked is not None or certain
        release = exact_version(job)
        if release is None and version(job) is not None and not since(job, NEWEST_SAMPLED):
            return
        needs = quantization_needs(method, release)
        if needs is None or needs.capability is None:
            needs = quantization_needs(NAMES.get(method, method), release)
        level: Severity = "error" if sure else "warning"
        if release is None and (needs is None or needs.capability is None or not all_below(job, needs.capability)):
            needs, level = _of_earlier(job, method), "info"
        if needs is None or needs.capability is None or not all_below(job, needs.capability):
            return
        major, minor = needs.capability
        has = max(a.compute_capability for a in job.hardware.candidates if a.compute_capability is not None)
        yield self.finding(
            f"{method} needs compute capability {major}.{minor} in vLLM {needs.version}, {job.hardware.name} has {has[0]}.{has[1]}",
            asked or job.model_id,
            (job.gpu, job.hardware.name),
            help="a checkpoint in another format, or a newer GPU",
            severity=level,
            confidence=CONFIDENCE[level],
            data={
                "method": method,
                "needed": f"{major}.{minor}",
                "has": f"{has[0]}.{has[1]}",
                "version": needs.version,
            },
            job=job,
        )


EARLIER = ("0.25.1", "0.12.0")
"""Releases in use that ask more than the newest one."""
CONFIDENCE: dict[Severity, Confidence] = {"error": "high", "warning": "medium", "info": "low"}


def _of_earlier(job: ServingJob, method: str) -> QuantizationNeeds | None:
    """What a release before the newest needs, where this GPU has less: the version is not stated."""
    from cfglint.catalog.engines import quantization_needs

    for release in EARLIER:
        for name in (method, NAMES.get(method, method)):
            needs = quantization_needs(name, release)
            if needs is not None and needs.capability is not None and all_below(job, needs.capability):
                return needs
    return None
