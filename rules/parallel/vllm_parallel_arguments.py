"""PAR107."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import managed, number, runs_vllm, size, statement, switch, text

LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "longcat_flash")
"""Model types with multi-head latent attention, whose one latent head decode context parallelism may split freely."""


class VllmParallelArguments(Rule):
    """vLLM's data-parallel, context-parallel or node arguments contradict each other.

    Decode context parallelism uses the tensor-parallel ranks: it must divide their number, and with grouped-query attention
    there must be more ranks than key-value heads. A local data-parallel size or rank must lie within the whole, an external
    load balancer needs more than one rank, and several nodes without Ray need the `mp` executor. vLLM stops with a ValueError.

    How sure: the checks of vLLM 0.33.0 (config/parallel.py, config/model.py). Heads are from the model's config.
    """

    code = "PAR107"
    name = "vllm-parallel-arguments"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/parallel.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
    )
    catalogue = ("par-dcp-combos", "par-dp-combos", "par-nnodes-backend")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4 --data-parallel-size 2 --data-parallel-size-local 1",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4 --decode-context-parallel-size 3",
            at="decode_context_parallel_size",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --data-parallel-size 2 --data-parallel-size-local 4",
            at="data_parallel_size_local",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4 --nnodes 2 --distributed-executor-backend ray",
            at="distributed_executor_backend",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or managed(job):
            return  # a controller computes them
        yield from self._context(job)
        yield from self._data(job)
        nodes, backend = number(job, "nnodes"), text(job, "distributed_executor_backend")
        if nodes is not None and nodes.value > 1 and backend is not None and backend.value == "ray":
            yield self.finding(
                f"nnodes {nodes.value} does not go with the ray executor, which finds its nodes itself",
                backend,
                (nodes, f"{nodes.value} nodes"),
                help="distributed_executor_backend: mp, or leave nnodes out",
                job=job,
            )

    def _context(self, job: ServingJob) -> Iterator[Finding]:
        parts, ranks = number(job, "decode_context_parallel_size"), size(job, "tensor_parallel_size")
        if parts is None or parts.value < 2 or ranks is None or (size(job, "prefill_context_parallel_size") or 0) != 1:
            return
        if ranks % parts.value:
            yield self.finding(
                f"decode_context_parallel_size {parts.value} does not divide tensor_parallel_size {ranks}",
                parts,
                help="a size that divides the tensor-parallel ranks",
                job=job,
            )
            return
        arch = job.architecture
        if arch is None or arch.model_type in LATENT or "kv_lora_rank" in arch.config:
            return
        shared = arch.config.get("num_key_value_heads")
        if isinstance(shared, int) and shared > 0 and (ranks <= shared or parts.value > ranks // shared):
            most = ranks // shared
            yield self.finding(
                f"decode_context_parallel_size {parts.value} with {shared} key-value heads over {ranks} ranks: "
                + (f"{most} is the most" if most > 1 else "there must be more ranks than heads"),
                parts,
                (job.model_id, f"{shared} key-value heads"),
                help="a larger tensor_parallel_size, or leave it out",
                job=job,
            )

    def _data(self, job: ServingJob) -> Iterator[Finding]:
        whole, local = number(job, "data_parallel_size"), number(job, "data_parallel_size_local")
        if whole is not None and local is not None and local.value > whole.value:
            yield self.finding(
                f"data_parallel_size_local {local.value} is above data_parallel_size {whole.value}",
                local,
                (whole, f"{whole.value} in all"),
                help="the local size is what this node runs of the whole",
                job=job,
            )
        rank = statement(job, "data_parallel_rank")
        if whole is not None and rank is not None and isinstance(rank.value, int) and rank.value >= whole.value:
            yield self.finding(
                f"data_parallel_rank {rank.value} is outside 0 to {whole.value - 1}",
                rank,
                (whole, f"{whole.value} ranks"),
                help="ranks count from 0",
                job=job,
            )
        if switch(job, "data_parallel_external_lb") is True and size(job, "data_parallel_size") == 1:
            yield self.finding(
                "data_parallel_external_lb needs a data_parallel_size above 1",
                statement(job, "data_parallel_external_lb"),
                help="state data_parallel_size, or leave it out",
                job=job,
            )
