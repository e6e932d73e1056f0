"""HWF106."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, checkpoint_method, runs, served, since, text
from .capability import ADA

LOWEST = {
    "fp8": (8, 0), "w8a8_fp8": (8, 9), "w8a8_int8": (7, 5), "blockwise_int8": (8, 0), "awq_marlin": (8, 0),
    "gptq_marlin": (8, 0), "awq": (7, 5), "modelopt_fp8": (8, 9), "modelopt_fp4": (8, 0), "nvfp4_online": (10, 0),
    "mxfp4": (8, 0), "mxfp8": (9, 4), "w4afp8": (9, 0), "petit_nvfp4": (9, 0), "bitsandbytes": (7, 0), "moe_wna16": (7, 0),
}  # fmt: skip
"""``get_min_capability`` of each method in SGLang 0.5.23 (srt/layers/quantization); the milder where several stand."""


class SglangQuantizationCapability(Rule):
    """SGLang's quantization method needs a newer GPU than the server has.

    SGLang compares the device with the method's minimum while it loads the model and ends with "The quantization method … is not
    supported for the current GPU". FP8 checkpoints of mixture-of-experts models pass that test on Ampere, and then fail to compile:
    "type fp8e4nv not supported in this architecture".

    How sure: minimums were read in 0.5.23 and every accelerator that the name can mean must be below. An error where a release of
    0.5.16 or later is stated, a warning else. Experts in FP8 on Ampere are a warning: later releases may load them as 16 bits.
    """

    code = "HWF106"
    name = "sglang-quantization-capability"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/sgl-project/sglang/issues/12887",
        "https://docs.sglang.io/advanced_features/quantization.html",
    )
    catalogue = ("quant-sglang-min-capability", "quant-fp8-moe-ampere-sglang")
    good = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B-FP8 --tp 2",
            gpu="A100-80GB",
            gpus=2,
            note="dense: weights alone are in FP8",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --quantization w8a8_fp8",
            gpu="A100-80GB",
            gpus=1,
            at="quantization",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8",
            gpu="A100-80GB",
            gpus=8,
            nodes=4,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "sglang") or not job.hardware.candidates:
            return
        asked = text(job, "quantization")
        own, certain = checkpoint_method(job)
        method = asked.value.lower() if asked is not None else own
        if method is None:
            return
        has = max((a.compute_capability or (0, 0)) for a in job.hardware.candidates)
        lowest = LOWEST.get(method)
        if lowest is not None and all_below(job, lowest):
            exact = since(job, "0.5.16") and (asked is not None or certain)
            yield self.finding(
                f"{method} needs compute capability {lowest[0]}.{lowest[1]} in SGLang, {job.hardware.name} has {has[0]}.{has[1]}",
                asked or job.model_id,
                (job.gpu, job.hardware.name),
                help="a checkpoint in another format, or a newer GPU",
                severity="error" if exact else "warning",
                confidence="high" if exact else "medium",
                data={"method": method, "needed": f"{lowest[0]}.{lowest[1]}", "has": f"{has[0]}.{has[1]}"},
                job=job,
            )
            return
        arch, _ = served(job)
        if method == "fp8" and arch is not None and arch.moe is not None and all_below(job, ADA):
            yield self.finding(
                f"experts in FP8 need compute capability 8.9 for SGLang's kernels, {job.hardware.name} has {has[0]}.{has[1]}",
                asked or job.model_id,
                (job.gpu, job.hardware.name),
                help="a checkpoint in INT8, AWQ or 16 bits, or vLLM, which keeps FP8 for the weights alone",
                severity="warning",
                confidence="medium",
                job=job,
            )
