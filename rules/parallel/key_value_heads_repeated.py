"""PAR109."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import dimensions
from ..serving.server import called, number, runs, stated, switch


class KeyValueHeadsRepeated(Rule):
    """More tensor-parallel ranks than key-value heads: the KV cache is kept several times.

    Each rank holds at least one key-value head, so with 4 heads over 8 ranks every head is stored twice: the ranks beyond
    the number of heads add no room for tokens.

    How sure: heads come from the model's config. Latency, or weights that need the ranks, may well be worth it: for careful
    readers.
    """

    code = "PAR109"
    name = "key-value-heads-repeated"
    family = "parallel"
    severity = "info"
    persona = "strict"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/parallel.py",
    )
    catalogue = ("par-kv-replicated",)
    good = (example("serve.sh", "vllm serve Qwen/Qwen3-32B --tensor-parallel-size 8", note="8 key-value heads"),)
    bad = (
        example(
            "serve.sh", "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 8", at="tensor_parallel_size", count=1
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked, sizes = number(job, "tensor_parallel_size"), dimensions(job)
        if asked is None or sizes is None or not sizes.kv_heads or not runs(job, "vllm", "sglang"):
            return
        if sizes.shared_latent or sizes.mixed_kv_heads or asked.value <= sizes.kv_heads or asked.value % sizes.kv_heads:
            return
        if stated(job, "decode_context_parallel_size") or switch(job, "enable_dp_attention"):
            return
        times = asked.value // sizes.kv_heads
        yield self.finding(
            f"{sizes.kv_heads} key-value heads over {called(job, 'tensor_parallel_size')} {asked.value}: the KV cache is kept {times} times",
            asked,
            (job.model_id, f"{sizes.kv_heads} key-value heads"),
            help=f"--decode-context-parallel-size {times} shares it out, or data parallelism for the rest",
            job=job,
        )
