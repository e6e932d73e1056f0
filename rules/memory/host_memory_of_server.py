"""MEM105."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.facts import Fact, FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example

from ..serving.server import launch_of, runs, since, size, statement

ASKING = (
    ("cpu_offload_gb", True), ("swap_space", True), ("kv_offloading_size", False), ("hicache_size", True),
    ("LMCACHE_MAX_LOCAL_CPU_SIZE", False),
)  # fmt: skip
"""What asks for host memory, in GiB, and whether each rank takes it. LMCache's is counted once: its low end."""


class HostMemoryOfServer(Rule):
    """Offloaded weights, swap space or an offloaded cache need more host memory than the container may have.

    ``cpu_offload_gb``, ``swap_space`` and SGLang's ``hicache_size`` are gibibytes for each GPU, held in pinned memory, as is
    what LMCache may take (``LMCACHE_MAX_LOCAL_CPU_SIZE``). A container whose limit is lower hangs while it pins the memory,
    or is killed (exit code 137).

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
        "https://github.com/LMCache/LMCache/issues/792",
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
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: lmcache/vllm-openai:v0.3.5
                  args: ["our/model", "--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}']
                  env: [{name: LMCACHE_MAX_LOCAL_CPU_SIZE, value: "60"}]
                  resources: {limits: {nvidia.com/gpu: 1, memory: 32Gi}}
            """,
            at="LMCACHE_MAX_LOCAL_CPU_SIZE",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        limit = job.fact("host_memory_bytes")
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if (
            limit is None
            or not isinstance(limit.value, int)
            or tp is None
            or pp is None
            or not runs(job, "vllm", "sglang")
        ):
            return
        ranks = tp * pp
        parts: list[tuple[str, float, Fact[object]]] = []
        for name, per_rank in ASKING:
            fact = statement(job, name) or _variable(job, name)
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


def _variable(job: ServingJob, name: str) -> Fact[object] | None:
    """An environment variable with a number, where ``name`` is one and LMCache's host memory is in use."""
    launch = launch_of(job)
    word = launch.environment.get(name) if launch is not None and name.isupper() else None
    if launch is None or word is None or not word.known:
        return None
    used = launch.environment.get("LMCACHE_LOCAL_CPU")
    if used is not None and used.text.lower() in ("false", "0"):
        return None
    try:
        value = float(word.text)
    except ValueError:
        return None
    return Fact(value, FileOrigin(launch.document, (name,), word.span, word.span))
