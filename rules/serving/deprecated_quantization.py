"""SRV025."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import quantization_method, runs_vllm, since, switch, text

GATED = ("fbgemm_fp8", "fp_quant")
GATED_FROM = "0.33.0"
"""First sampled release with this list; 0.18.1 has another."""


class DeprecatedQuantization(Rule):
    """A deprecated quantization method, which vLLM runs only when it is allowed in so many words.

    "The quantization method fbgemm_fp8 is deprecated": vLLM stops unless `--allow-deprecated-quantization` is given.

    How sure: DEPRECATED_QUANTIZATION_METHODS of vLLM 0.33.0, for checkpoints whose config names the method and for the
    argument. An error where the stated release is 0.33.0 or later, else information.
    """

    code = "SRV025"
    name = "deprecated-quantization"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",)
    catalogue = ("quant-deprecated-gate",)
    good = (
        example(
            {
                "serve.sh": "vllm serve our/llama-fbgemm --quantization fbgemm_fp8 --allow-deprecated-quantization",
                "requirements.txt": "vllm==0.33.0",
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve our/llama-fbgemm --quantization fbgemm_fp8",
                "requirements.txt": "vllm==0.33.0",
            },
            at="quantization",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = text(job, "quantization")
        method = asked.value.lower() if asked is not None else quantization_method(job)
        if method not in GATED or not runs_vllm(job) or switch(job, "allow_deprecated_quantization") is True:
            return
        sure = since(job, GATED_FROM)
        yield self.finding(
            f"{method} is deprecated: vLLM from {GATED_FROM} on does not start with it unless it is allowed",
            asked or job.model_id,
            help="--allow-deprecated-quantization for now, or a checkpoint in another format",
            severity="error" if sure else "info",
            confidence="high" if sure else "medium",
            job=job,
        )
