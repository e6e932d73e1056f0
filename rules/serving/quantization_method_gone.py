"""SRV016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import checkpoint_method, managed, runs_vllm, since, text, version

GONE = {
    "bitsandbytes": ("0.28.0", "pip install vllm-bnb-plugin beside vLLM, or serve an fp8 or AWQ checkpoint"),
    "gguf": ("0.25.1", "install the GGUF plugin beside vLLM, or serve the Hugging Face checkpoint, quantized or not"),
    "hqq": ("0.18.1", "serve an AWQ, GPTQ or compressed-tensors checkpoint"),
    "aqlm": ("0.10.2", "serve an AWQ, GPTQ or compressed-tensors checkpoint"),
    "marlin": ("0.10.2", "gptq_marlin reads GPTQ checkpoints"),
    "squeezellm": ("0.6.6", "serve an AWQ or GPTQ checkpoint"),
    "deepspeedfp": ("0.18.1", "fp8 quantizes while it loads"),
    "qqq": ("0.10.2", "serve a compressed-tensors checkpoint"),
    "rtn": ("0.18.1", "fp8 quantizes while it loads"),
    "ipex": ("0.18.1", "the XPU build reads AWQ and GPTQ checkpoints"),
    "petit_nvfp4": ("0.25.1", "modelopt_fp4 reads NVFP4 checkpoints"),
    "bitblas": ("0.18.1", "gptq_marlin reads GPTQ checkpoints"),
    "gptq_bitblas": ("0.18.1", "gptq_marlin reads GPTQ checkpoints"),
    "gptq_marlin_24": ("0.18.1", "serve a compressed-tensors checkpoint"),
    "ptpc_fp8": ("0.25.1", "fp8_per_channel"),
}
"""First sampled release without the method (bitsandbytes: the release itself), and what to do. ``auto-round`` is not among
them: later releases read such checkpoints as ``inc``."""
POPULAR = ("bitsandbytes", "gguf")
"""In wide use: said where only the model's name says the method, too."""


class QuantizationMethodGone(Rule):
    """A quantization method that this vLLM release no longer has in its core.

    vLLM ends with "Unknown quantization method" (or an unknown load format). bitsandbytes moved to a plugin with 0.28.0,
    GGUF between 0.18 and 0.25; others were dropped.

    How sure: the methods were read from eight releases up to 0.33.0. An image may have the plugin installed: with an image
    that is not the project's own, without a stated version, or where only the model's name says the method, it is a
    warning.
    """

    code = "SRV016"
    name = "quantization-method-gone"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/52802",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/__init__.py",
    )
    catalogue = ("quant-bnb-plugin", "quant-gguf-plugin", "quant-removed-method")
    good = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.12.0 unsloth/tinyllama-bnb-4bit --quantization bitsandbytes",
        ),
        example(
            "serve.sh", "docker run --gpus all vllm/vllm-openai:v0.33.0 Qwen/Qwen2.5-7B-Instruct-AWQ --quantization awq"
        ),
        example(
            {
                "serve.sh": "docker run --gpus all vllm/vllm-openai:v0.33.0 our/qwen-int4-AutoRound",
                ".cfglint/models/our/qwen-int4-AutoRound/config.json": '{"model_type": "qwen2", "quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 128}}',
            },
            note="read as inc",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.28.0 unsloth/tinyllama-bnb-4bit --quantization bitsandbytes",
            at="quantization",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.25.1 --model models/llama-3.1-8b-q8.gguf --max-model-len 4096",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --load-format bitsandbytes"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        found = self._method(job)
        if found is None:
            return
        method, fact, certain = found
        release, instead = GONE[method]
        stated = version(job)
        if stated is not None and not since(job, release):
            return
        if stated is None and managed(job):
            return
        from .unknown_argument import own_build

        sure = stated is not None and own_build(job) and certain
        by = "from" if method == "bitsandbytes" else "by"
        yield self.finding(
            f"vLLM{' ' + stated if stated else ''} has no {method} in its core: gone {by} {release}"
            + ("" if stated else "; the version is not stated here"),
            fact,
            help=instead,
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            data={"method": method, "gone": release, "version": stated},
            job=job,
        )

    def _method(self, job: ServingJob) -> tuple[str, Fact[str] | None, bool] | None:
        for argument in ("quantization", "load_format"):
            fact = text(job, argument)
            if fact is not None and fact.value.lower() in GONE:
                return fact.value.lower(), fact, True
        model = job.model_id
        if model is not None and isinstance(model.value, str) and model.value.lower().endswith(".gguf"):
            return "gguf", model, True
        own, certain = checkpoint_method(job)
        if own not in GONE or text(job, "quantization") is not None or (not certain and own not in POPULAR):
            return None
        return own, model, certain
