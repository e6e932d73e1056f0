"""CTR013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import runs_vllm


class MemoryLimitOfServer(Rule):
    """The container's memory limit is below what the server's processes need on the host.

    Each rank is a process with torch and CUDA loaded; a checkpoint's shard is read through host memory, and pinned buffers
    come on top. Where the limit is lower the kernel kills a process while weights load (exit code 137).

    How sure: only processes and pinned memory count towards the low end; mapped pages of the checkpoint can be dropped and
    do not. A warning where even that is above the limit.
    """

    code = "CTR013"
    name = "memory-limit-of-server"
    family = "containers"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = ("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",)
    catalogue = ("k8s-memory-limit-small",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct", "--max-model-len=8192"]
                  resources: {{limits: {{nvidia.com/gpu: 1, memory: {memory}}}}}
            """
    good = (example("pod.yaml", _POD.format(memory="32Gi")),)
    bad = (example("pod.yaml", _POD.format(memory="4Gi"), at="memory", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        limit = job.fact("host_memory_bytes")
        if limit is None or not isinstance(limit.value, int) or not runs_vllm(job):
            return
        host = context.estimate(job).memory.host
        if host is None or host.low <= limit.value:
            return
        yield self.finding(
            f"the container may have {limit.value / GIB:.1f} GiB, the server's processes take at least {host.low / GIB:.1f}",
            limit,
            help=f"a limit of {host.expected / GIB:.0f} GiB or more",
            data={"limit_gib": round(limit.value / GIB, 2), "needed_gib": round(host.low / GIB, 2)},
            job=job,
        )
