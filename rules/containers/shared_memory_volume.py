"""CTR016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.carriers.shell import memory_bytes
from cfglint.estimate.result import GIB
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Sequence, at, value_at

from ..serving.server import managed, runs
from .pod import in_kubernetes, mounts, pod_spec


class SharedMemoryVolume(Rule):
    """A memory volume of a server without a size limit, or with one above the container's memory limit.

    What is written to an ``emptyDir`` of medium Memory counts towards the container's memory limit: a volume that may grow
    beyond it gets the container killed rather than "no space left". Without a size limit it may grow to half the node's memory.

    How sure: both sizes are stated in the same pod. NCCL writes tens of MiB for each rank, so hardly any server fills the
    volume: for careful readers.
    """

    code = "CTR016"
    name = "shared-memory-volume"
    family = "containers"
    severity = "info"
    confidence = "medium"
    persona = "strict"
    kinds = ("serve",)
    evidence = ("https://kubernetes.io/docs/concepts/storage/volumes/",)
    catalogue = ("k8s-shm-unbounded",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-32B-Instruct", "--tensor-parallel-size=2"]
                  resources: {{limits: {{nvidia.com/gpu: 2, memory: 64Gi}}}}
                  volumeMounts: [{{name: shm, mountPath: /dev/shm}}]
              volumes: [{{name: shm, emptyDir: {volume}}}]
            """
    good = (example("pod.yaml", _POD.format(volume="{medium: Memory, sizeLimit: 8Gi}")),)
    bad = (
        example("pod.yaml", _POD.format(volume="{medium: Memory}"), count=1),
        example("pod.yaml", _POD.format(volume="{medium: Memory, sizeLimit: 128Gi}"), at="sizeLimit"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        spec = pod_spec(launch) if launch is not None else None
        if launch is None or spec is None or managed(job) or not runs(job):
            return
        names = {source for path, source in mounts(launch) if path.rstrip("/") == "/dev/shm"}
        volumes = spec.get("volumes")
        limit = launch.host_memory
        for volume in volumes.items if isinstance(volumes, Sequence) else []:
            directory = at(volume, "emptyDir")
            if value_at(volume, "name") not in names or not isinstance(directory, Mapping):
                continue
            if value_at(directory, "medium") != "Memory":
                continue
            entry = directory.entry("sizeLimit")
            if entry is None:
                yield self.finding(
                    "the memory volume at /dev/shm has no sizeLimit: it may grow until the container is killed",
                    FileOrigin(launch.document, ("emptyDir",), directory.span, directory.span),
                    help="sizeLimit: 16Gi",
                    job=job,
                )
                continue
            size = memory_bytes(str(value_at(directory, "sizeLimit")), binary=False)
            if size is not None and limit is not None and size > limit[0]:
                yield self.finding(
                    f"the memory volume may hold {size / GIB:.0f} GiB, which count towards the container's limit of {limit[0] / GIB:.0f}",
                    FileOrigin(launch.document, ("emptyDir", "sizeLimit"), entry.key.span, entry.value.span),
                    (limit[1], f"{limit[0] / GIB:.0f} GiB"),
                    help="a smaller sizeLimit, or a higher memory limit",
                    job=job,
                )
