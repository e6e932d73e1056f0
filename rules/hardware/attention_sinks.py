"""HWF107."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, attention_backend, before, runs_vllm, served
from .capability import HOPPER

WITH_SINKS = ("gpt_oss",)
"""Model types whose attention has learned sinks."""


class AttentionSinks(Rule):
    """vLLM's FLASH_ATTN backend is asked for with gpt-oss on a GPU before Hopper.

    gpt-oss attends with learned sinks, which only FlashAttention-3 on compute capability 9.0 and later has: "sink not
    supported on compute capability < 9.0". Left alone, vLLM takes the Triton backend.

    How sure: a check of vLLM's FlashAttention backend (v1/attention/backends/flash_attn.py, 0.33.0), in releases with
    gpt-oss (0.11 and later). Every accelerator that the name can mean must be older.
    """

    code = "HWF107"
    name = "attention-sinks"
    family = "hardware"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/attention/backends/flash_attn.py",)
    catalogue = ("attn-sinks-pre-hopper",)
    good = (
        example("serve.sh", "vllm serve openai/gpt-oss-20b --attention-backend TRITON_ATTN", gpu="A100-80GB", gpus=1),
        example("serve.sh", "vllm serve openai/gpt-oss-20b --attention-backend FLASH_ATTN", gpu="H100-SXM", gpus=1),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve openai/gpt-oss-20b --attention-backend FLASH_ATTN",
            gpu="A100-80GB",
            gpus=1,
            at="attention_backend",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        backend = attention_backend(job)
        if backend is None or backend.value != "FLASH_ATTN" or not runs_vllm(job) or before(job, "0.11"):
            return
        arch, _ = served(job)
        if arch is None or arch.model_type not in WITH_SINKS or not all_below(job, HOPPER):
            return
        yield self.finding(
            f"{arch.model_type} attends with sinks, and FLASH_ATTN has none on {job.hardware.name}",
            backend,
            (job.gpu, job.hardware.name),
            (job.model_id, "attention sinks"),
            help="leave --attention-backend out: vLLM takes TRITON_ATTN",
            job=job,
        )
