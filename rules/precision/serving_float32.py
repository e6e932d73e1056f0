"""PRC103."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, dtype, runs_vllm, served
from .serving_fp16_refused import REFUSED

SIXTEEN_BITS = ("bfloat16", "bf16", "float16", "fp16", "half")


class ServingFloat32(Rule):
    """A 16-bit checkpoint is served in float32: twice the memory, and none of the fast kernels.

    Weights and KV cache take four bytes a number, FlashAttention and FlashInfer have no float32, and tensor cores run at a
    fraction of their 16-bit rate. The numbers gain nothing: the checkpoint's own are 16-bit.

    How sure: the checkpoint's dtype is from its config and float32 is asked for by name. Gemma and GLM-4 on GPUs without bf16
    have no other choice and are left alone.
    """

    code = "PRC103"
    name = "serving-float32"
    family = "precision"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/attention/backends/flash_attn.py",
        "https://docs.vllm.ai/en/latest/cli/serve/",
    )
    catalogue = ("dtype-fp32-doubles-memory",)
    good = (
        example("serve.sh", "vllm serve google/gemma-3-4b-it --dtype float32", gpu="T4", gpus=1),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype auto"),
    )
    bad = (example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype float32", at="dtype", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = dtype(job)
        arch, _ = served(job)
        if asked is None or asked.value != "float32" or arch is None or not runs_vllm(job):
            return
        if arch.native_dtype not in SIXTEEN_BITS or (arch.model_type in REFUSED and all_below(job, (8, 0))):
            return
        yield self.finding(
            f"dtype is float32 for a {arch.native_dtype} checkpoint: weights and KV cache take twice the memory",
            asked,
            (job.model_id, str(arch.native_dtype)),
            help="dtype: auto",
            job=job,
        )
