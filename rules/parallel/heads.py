"""PAR101."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import dimensions
from ..serving.server import called, engine, number, runs, stated, switch

STAGED = ("vllm", "sglang", "trtllm")
"""Engines that can split a model into stages."""


class HeadsNotDivisible(Rule):
    """Attention heads, or key-value heads, cannot be split evenly over ``tensor_parallel_size``.

    vLLM refuses at start: "Total number of attention heads (28) must be divisible by tensor parallel size (8)". Key-value
    heads must divide the size or be divided by it; otherwise loading fails with an assertion.

    How sure: heads come from the model's config, those of the text part for models with several. Models with latent
    attention (MLA) have no key-value heads to split, and hybrid models are judged by their attention heads alone.
    """

    code = "PAR101"
    name = "heads-not-divisible"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/issues/2652",
        "https://github.com/vllm-project/vllm/issues/596",
    )
    catalogue = ("par-heads-tp", "par-kv-heads-not-multiple")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4",
            note="28 heads, 4 key-value heads",
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 2 --pipeline-parallel-size 3"),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --tp 8",
            at="tp_size",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 8",
            at="tensor_parallel_size",
            count=1,
        ),
        example(
            "serve.yaml",
            "model: meta-llama/Llama-3.1-8B-Instruct\ntensor-parallel-size: 3\nmax-model-len: 8192",
            at="tensor-parallel-size",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = number(job, "tensor_parallel_size")
        if asked is None or asked.value < 2 or not runs(job, "vllm", "sglang", "tgi", "trtllm", "lmdeploy"):
            return
        sizes = dimensions(job)
        if sizes is None or not sizes.heads:
            return
        heads, kv_heads, tp, sure = sizes.heads, sizes.kv_heads, asked.value, sizes.certain
        if engine(job) == "sglang" and (switch(job, "enable_dp_attention") or stated(job, "attn_dp_size")):
            return  # attention is split over fewer ranks
        tensor, problem = called(job, "tensor_parallel_size"), ""
        if heads % tp:
            problem = f"{heads} attention heads cannot be split over {tensor} {tp}"
        elif not (sizes.shared_latent or sizes.mixed_kv_heads) and kv_heads and kv_heads % tp and tp % kv_heads:
            problem = f"{kv_heads} key-value heads neither divide {tensor} {tp} nor are divided by it"
        if not problem:
            return
        fitting = [
            n
            for n in range(1, heads + 1)
            if heads % n == 0 and (not kv_heads or kv_heads % n == 0 or n % kv_heads == 0)
        ]
        below = max((n for n in fitting if n < tp), default=1)
        above = min((n for n in fitting if n > tp), default=None)
        stages = f", or the rest as {called(job, 'pipeline_parallel_size')}" if engine(job) in STAGED else ""
        yield self.finding(
            problem,
            asked,
            (job.model_id, f"{heads} heads, {kv_heads} key-value heads"),
            help=f"{tensor}: {below}{f' or {above}' if above else ''}{stages}",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            data={"heads": heads, "key_value_heads": kv_heads, "tensor_parallel_size": tp},
            job=job,
        )
