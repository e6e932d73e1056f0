"""SRV108."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..hardware.capability import AMPERE
from .server import all_below, runs, text


class TgiQuantize(Rule):
    """TGI's ``quantize`` asks for a method that this GPU has no kernels for, or that is deprecated.

    ``marlin`` ends with "Using quantized Marlin models requires a GPU with CUDA capability 8.0 or later". ``bitsandbytes`` runs
    slowly, without CUDA graphs, and the launcher says "Bitsandbytes is deprecated, use `eetq` instead".

    How sure: both messages stand in TGI's source (server/text_generation_server/layers/marlin/util.py, launcher/src/main.rs).
    GPTQ and AWQ checkpoints fall back to other kernels by themselves. The deprecation is information.
    """

    code = "SRV108"
    name = "tgi-quantize"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/launcher/src/main.rs",
    )
    catalogue = ("quant-tgi-marlin-cc", "quant-tgi-bnb")
    good = (
        example(
            "serve.sh", "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --quantize eetq", gpu="T4", gpus=1
        ),
        example(
            "serve.sh",
            "text-generation-launcher --model-id our/llama-marlin --quantize marlin",
            gpu="A100-80GB",
            gpus=1,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id our/llama-marlin --quantize marlin",
            gpu="T4",
            gpus=1,
            at="quantize",
            count=1,
        ),
        example("serve.sh", "text-generation-launcher --model-id our/llama --quantize bitsandbytes", at="quantize"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = text(job, "quantization")
        if asked is None or not runs(job, "tgi"):
            return
        if asked.value == "marlin" and all_below(job, AMPERE):
            yield self.finding(
                f"marlin needs compute capability 8.0, and {job.hardware.name} has less",
                asked,
                (job.gpu, job.hardware.name),
                help="a GPTQ or AWQ checkpoint",
                job=job,
            )
        elif asked.value == "bitsandbytes":
            yield self.finding(
                "bitsandbytes is deprecated in TGI: slow, and without CUDA graphs",
                asked,
                help="quantize: eetq for 8 bits, bitsandbytes-nf4 for 4",
                severity="info",
                job=job,
            )
