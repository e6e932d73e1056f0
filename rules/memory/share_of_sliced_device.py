"""MEM108."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, at

from ..containers.pod import in_kubernetes, pod_spec
from ..serving.server import runs_vllm

RESOURCES = ("nvidia.com/gpu.shared",)
"""What the device plugin calls shared GPUs where ``renameByDefault`` is set."""


class ShareOfSlicedDevice(Rule):
    """A server on a time-sliced GPU asks for the whole device's memory.

    Time slicing shares a GPU's time, and leaves its memory to whoever comes first. ``gpu_memory_utilization`` is a share of
    the whole device: with its default of 0.9 or more the second pod on the device ends with "Free memory on device … is less
    than desired GPU memory utilization".

    How sure: the node label (``…-SHARED``) or the resource (``nvidia.com/gpu.shared``) says that the GPU is shared, and no
    share is stated. How many pods there are, and whether they are all servers, is the cluster's: information.
    """

    code = "MEM108"
    name = "share-of-sliced-device"
    family = "memory"
    severity = "info"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html",
        "https://github.com/vllm-project/vllm/issues/14376",
    )
    catalogue = ("k8s-timeslicing-util",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A10G-SHARED}}
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: {args}
                  resources: {{limits: {{nvidia.com/gpu: 1}}}}
            """
    good = (example("pod.yaml", _POD.format(args='["Qwen/Qwen2.5-1.5B-Instruct", "--gpu-memory-utilization=0.4"]')),)
    bad = (example("pod.yaml", _POD.format(args='["Qwen/Qwen2.5-1.5B-Instruct"]'), count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        if launch is None or not runs_vllm(job) or job.stated("gpu_memory_utilization"):
            return
        if job.stated("kv_cache_memory_bytes") or launch.container is None:
            return
        selector = at(pod_spec(launch), "nodeSelector")
        label = selector.entry("nvidia.com/gpu.product") if isinstance(selector, Mapping) else None
        limits = at(launch.container, "resources", "limits")
        shared = (
            next((limits.entry(n) for n in RESOURCES if n in limits), None) if isinstance(limits, Mapping) else None
        )
        if label is not None and isinstance(label.value, Scalar) and str(label.value.value).upper().endswith("-SHARED"):
            entry, how = label, str(label.value.value)
        elif shared is not None:
            entry, how = shared, shared.name
        else:
            return
        yield self.finding(
            f"the GPU is shared by time ({how}), and the server takes the default share of all its memory",
            FileOrigin(launch.document, (entry.name,), entry.key.span, entry.value.span),
            help="--gpu-memory-utilization of what one pod may take",
            job=job,
        )
