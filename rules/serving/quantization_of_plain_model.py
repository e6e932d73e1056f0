"""SRV015."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.jobs.named_models import is_bare
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import quantization_method, runs, served, text

NEEDS_CHECKPOINT = frozenset({
    "awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "compressed-tensors", "modelopt", "modelopt_fp4",
    "aqlm", "quark", "gptq_marlin_24", "fbgemm_fp8",
})  # fmt: skip
"""Methods that only read what was quantized before; fp8, bitsandbytes, torchao and experts_int8 quantize as they load."""
QUANTIZED_NAME = re.compile(r"awq|gptq|int[348]|[wW]\d[aA]\d|fp8|quant|nvfp4|bit|aqlm|quark", re.IGNORECASE)


class QuantizationOfPlainModel(Rule):
    """``quantization`` names a method for quantized checkpoints, and the checkpoint is not quantized.

    AWQ, GPTQ and the like need a checkpoint that was quantized beforehand. For one that was not vLLM ends with "Cannot find
    the config file for awq".

    How sure: the model's config.json has no ``quantization_config``. Where the config comes from the catalogue it is an error;
    for a config on disk, or a folder named after the model, it is a warning, since older GPTQ checkpoints keep their settings
    in ``quantize_config.json``. A Hub id that is not known, and whose name says nothing of quantization, is information.
    """

    code = "SRV015"
    name = "quantization-of-plain-model"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/model_loader/weight_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
    )
    catalogue = ("quant-flag-on-unquantized",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --quantization awq"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8"),
    )
    bad = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization awq", at="quantization", count=1),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --quantization gptq_marlin",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked, model = text(job, "quantization"), job.model
        if asked is None or model is None or not runs(job, "vllm", "sglang"):
            return
        if asked.value.lower() not in NEEDS_CHECKPOINT:
            return
        arch, certain = served(job)  # a folder is taken for the model it is named after
        if arch is not None and arch.quantization is not None:
            return
        if (
            quantization_method(job) is not None
            or QUANTIZED_NAME.search(str(job.value("model_id") or ""))
            or QUANTIZED_NAME.search(model.id)
        ):
            return
        if arch is None:
            if not is_bare(model.id) and model.config is None and job.model_id is not None and job.model_id.certain:
                yield self.finding(
                    f"quantization is {asked.value}, which needs a quantized checkpoint, and {model.id} is not named like one",
                    asked,
                    help="nothing to do where its config.json has a quantization_config",
                    severity="info",
                    confidence="low",
                    job=job,
                )
            return
        sure = model.source == "catalogue" and certain and model.architecture is not None
        yield self.finding(
            f"quantization is {asked.value}, but {model.id} is not a quantized checkpoint",
            asked,
            (job.model_id, "no quantization_config"),
            help="fp8 quantizes while it loads; for other methods name a quantized checkpoint",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            job=job,
        )
