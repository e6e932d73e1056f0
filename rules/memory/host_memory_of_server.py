"""MEM105."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example

from ..serving.server import runs_vllm, since, size, statement


class HostMemoryOfServer(Rule):
    """Offloaded weights, swap space or an offloaded cache need more host memory than the container may have.

    ``cpu_offload_gb`` and ``swap_space`` are gibibytes for each GPU, held in pinned memory; a container whose limit is lower
    is killed (exit code 137) while it starts.

    How sure: only what the arguments ask for is summed, against the limit of the same container; the processes themselves
    come on top. ``swap_space`` counts where it is stated, for releases that have it.
    """

    code = "MEM105"
    name = "host-memory-of-server"
    family = "memory"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/offload.py",
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/",
    )
    catalogue = ("mem-cpu-offload-host", "mem-swap-space-host", "mem-lmcache-host")
    good = (
        example(
            "serve.sh",
            "docker run --gpus 2 --ipc=host -m 128g vllm/vllm-openai:v0.18.1 our/model -tp 2 --cpu-offload-gb 16",
        ),
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["our/model", "--tensor-parallel-size=2", "--cpu-offload-gb=10"]
                  resources: {limits: {nvidia.com/gpu: 2, memory: 64Gi}}
            """,
        ),
    )
    bad = (
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["our/model", "--tensor-parallel-size=2", "--cpu-offload-gb=20"]
                  resources: {limits: {nvidia.com/gpu: 2, memory: 32Gi}}
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        limit = job.fact("host_memory_bytes")
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if limit is None or not isinstance(limit.value, int) or tp is None or pp is None or not runs_vllm(job):
            return
        ranks = tp * pp
        parts: list[tuple[str, float, Fact[object]]] = []
        for name, per_rank in (("cpu_offload_gb", True), ("swap_space", True), ("kv_offloading_size", False)):
            fact = statement(job, name)
            if (
                fact is None
                or isinstance(fact.value, bool)
                or not isinstance(fact.value, (int, float))
                or fact.value <= 0
            ):
                continue
            if name == "swap_space" and since(job, "0.18.1"):
                continue
            parts.append((name, float(fact.value) * (ranks if per_rank else 1), fact))
        needed = sum(gib for _, gib, _ in parts)
        if not parts or needed * GIB <= limit.value:
            return
        where: list[Where | tuple[Where, str]] = [
            (fact, f"{name}: {gib:g} GiB over {ranks} GPUs") for name, gib, fact in parts
        ]
        yield self.finding(
            f"{' and '.join(name for name, _, _ in parts)} ask for {needed:g} GiB of host memory, the container may have {limit.value / GIB:.1f}"
            if len(parts) > 1
            else f"{parts[0][0]} asks for {needed:g} GiB of host memory over {ranks} GPU{'s' if ranks > 1 else ''}, the container may have {limit.value / GIB:.1f}",
            *where,
            (limit, f"{limit.value / GIB:.1f} GiB"),
            help="a higher memory limit, or less offloaded",
            job=job,
        )
