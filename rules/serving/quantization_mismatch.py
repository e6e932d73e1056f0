"""SRV014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import remove_key
from cfglint.lint.rule import Rule, example

from .server import called, checkpoint_method, engine_title, readings, runs, text

FAMILIES = {
    "awq": "awq", "awq_marlin": "awq", "auto_awq": "awq",
    "gptq": "gptq", "gptq_marlin": "gptq", "auto_gptq": "gptq", "gptq_marlin_24": "gptq", "gptq_bitblas": "gptq",
    "fp8": "fp8", "compressed-tensors": "compressed-tensors", "bitsandbytes": "bitsandbytes", "gguf": "gguf",
    "fbgemm_fp8": "fbgemm_fp8", "quark": "quark", "modelopt": "modelopt", "modelopt_fp4": "modelopt", "modelopt_mixed": "modelopt", "modelopt_mxfp8": "modelopt", "aqlm": "aqlm",
    "mxfp4": "mxfp4", "hqq": "hqq", "torchao": "torchao", "auto-round": "auto-round",
}  # fmt: skip
"""Methods that vLLM takes for one another (``override_quantization_method`` of each). Methods that override any checkpoint
(humming, moe_wna16, inc) and the online ones are not listed."""

TOLD_APART = frozenset({"awq", "gptq", "bitsandbytes", "gguf"})
"""Methods that another method's name rules out. ``compressed-tensors`` and ModelOpt hold checkpoints named FP8 or AWQ too."""


class QuantizationMismatch(Rule):
    """``quantization`` names another method than the checkpoint was quantized with.

    vLLM and SGLang read the method from the checkpoint's config and compare: "Quantization method specified in the model config
    (fp8) does not match the quantization method specified in the `quantization` argument (awq)". It needs no argument.

    How sure: the checkpoint's method comes from its config.json. Where only the model's name says it (``-AWQ``,
    ``-GPTQ-Int4``) it is a warning. Names that vLLM takes for one another are one family; methods that may override any
    checkpoint are left alone.
    """

    code = "SRV014"
    name = "quantization-mismatch"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    fixable = "safe"
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/intel/auto-round/issues/2242",
    )
    catalogue = ("quant-flag-mismatch",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen3-32B-FP8 --quantization fp8"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --quantization fp8", note="quantized as it loads"),
    )
    bad = (
        example("serve.sh", "vllm serve Qwen/Qwen3-32B-FP8 --quantization awq", at="quantization", count=1),
        example(
            "serve.sh", "python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B-FP8 --quantization awq", count=1
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked, (own, sure) = text(job, "quantization"), checkpoint_method(job)
        if asked is None or own is None or not runs(job, "vllm", "sglang"):
            return
        mine, theirs = FAMILIES.get(asked.value.lower()), FAMILIES.get(own)
        if mine is None or theirs is None or mine == theirs or (not sure and mine not in TOLD_APART):
            return
        fixes: tuple[Fix, ...] = ()
        for reading in readings(job):
            if not reading.context.get("command_line") and reading.entry("quantization") is not None:
                edit = remove_key(reading, ("quantization",))
                fixes = (Fix("Remove quantization", (edit,)),) if edit is not None else ()
        yield self.finding(
            f"quantization is {asked.value}, but the checkpoint was quantized with {own}{'' if sure else ', as its name says'}",
            asked,
            help=f"leave {called(job, 'quantization')} out: {engine_title(job)} reads the method from the checkpoint",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            fixes=fixes if sure else (),
            data={"quantization": asked.value, "quant_method": own},
            job=job,
        )
