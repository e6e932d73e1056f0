"""CTR006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.carriers.kubernetes import GPU_RESOURCES
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, at

from ..serving.server import launch_of, runs
from .pod import WORKLOADS, cuda_image, image_origin, in_kubernetes, pod_spec


class GpuResources(Rule):
    """GPUs that Kubernetes does not give: requested but not limited, unequal, a fraction, or not asked for at all.

    A GPU is an extended resource: the API server refuses a pod whose request differs from its limit ("Limit must be set for
    non overcommitable resources", "Requests must be equal to limits"). Without a limit the container sees no GPU, and vLLM
    ends with "Failed to infer device type".

    How sure: what is refused is Kubernetes' own validation. A missing limit is a warning for the project's CUDA image: the
    namespace or a webhook may add it, resource claims may stand in for it. Where nothing at all is asked for it is
    information: another file may add it. Of a ``requestGPU`` below 1 the production stack's chart makes 0 and asks for
    none: a warning, since such a pod sees every GPU of its node where the runtime shows them.
    """

    code = "CTR006"
    name = "gpu-resources"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
        "https://github.com/vllm-project/production-stack/pull/1047",
    )
    catalogue = ("k8s-gpu-requests-only", "k8s-no-gpu-limit")
    good = (
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
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: "1"}}
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
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  resources: {requests: {nvidia.com/gpu: 1}}
            """,
            at="nvidia.com/gpu",
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
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  resources: {limits: {cpu: 8, memory: 64Gi}}
            """,
        ),
        example(
            "values.yaml",
            """
            servingEngineSpec:
              modelSpec:
                - name: qwen
                  repository: vllm/vllm-openai
                  tag: v0.18.1
                  modelURL: Qwen/Qwen2.5-7B-Instruct
                  replicaCount: 2
                  requestGPU: 0.5
            """,
            at="requestGPU",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        yield from self._chart(job)
        launch = in_kubernetes(job)
        if launch is None or launch.container is None or not runs(job):
            return
        limits, requests = at(launch.container, "resources", "limits"), at(launch.container, "resources", "requests")
        found = False
        for name in GPU_RESOURCES:
            limit, request = _quantity(limits, name), _quantity(requests, name)
            found = found or limit is not None or request is not None
            entry = requests if limit is None else limits
            where = _origin(launch.document, entry, name)
            if request is not None and limit is None:
                yield self.finding(
                    f"{name} is requested but not limited: the API server refuses the pod",
                    where,
                    help=f"limits: {{{name}: {request}}}",
                    job=job,
                )
            elif (
                request is not None and limit is not None and request != limit and not {"$", "{"} & set(request + limit)
            ):
                yield self.finding(
                    f"{name}: request {request} and limit {limit} differ: the API server refuses the pod",
                    where,
                    (_origin(launch.document, requests, name), f"request {request}"),
                    help=f"leave the request out: the limit stands for both, {limit} here",
                    job=job,
                )
            elif limit is not None and "." in limit:
                yield self.finding(
                    f"{name} {limit} is a fraction, and GPUs are given whole",
                    where,
                    help="a whole number; parts of a GPU need MIG or time-slicing, set up on the node",
                    job=job,
                )
        spec = pod_spec(launch)
        names = [*_names(limits), *_names(requests)]
        claims = at(launch.container, "resources", "claims")
        if launch.context.get("kind") not in WORKLOADS:
            return  # a serving runtime gets its resources from who uses it
        if found or not cuda_image(launch) or any("/" in name for name in names) or claims is not None:
            return
        if (
            spec is None
            or "resourceClaims" in spec
            or "runtimeClassName" in spec
            or (launch.image is not None and "tpu" in launch.image.text)
        ):
            return
        limited = isinstance(limits, Mapping)
        yield self.finding(
            "the container has resource limits but no GPU among them" if limited else "the container asks for no GPU",
            image_origin(launch),
            help="limits: {nvidia.com/gpu: 1}",
            severity="warning" if limited else "info",
            confidence="medium" if limited else "low",
            job=job,
        )

    def _chart(self, job: ServingJob) -> Iterator[Finding]:
        """``requestGPU`` of the production stack's chart, of which helm/templates/_helpers.tpl takes the whole number."""
        launch = launch_of(job)
        values = launch.context.get("values") if launch is not None else None
        if launch is None or not isinstance(values, Mapping):
            return
        entry = values.entry("requestGPU")
        share = entry.value.value if entry is not None and isinstance(entry.value, Scalar) else None
        if entry is None or not isinstance(share, float) or share <= 0 or share.is_integer():
            return
        if any(key.startswith(("requestGPUMem", "requestGPUCores")) for key in values.index):
            return  # HAMi shares the card
        asked = share > 1
        yield self.finding(
            f"requestGPU {share:g} is a fraction, "
            + ("which the API server refuses" if asked else "of which the chart makes 0: the pod asks for no GPU"),
            FileOrigin(launch.document, ("requestGPU",), entry.key.span, entry.value.span),
            help="a whole number of GPUs; to share a card, time-slicing or MIG, with requestGPUType",
            severity="error" if asked else "warning",
            confidence="high" if asked else "medium",
            job=job,
        )


def _names(node: object) -> list[str]:
    return list(node.index) if isinstance(node, Mapping) else []


def _quantity(node: object, name: str) -> str | None:
    entry = node.entry(name) if isinstance(node, Mapping) else None
    return str(entry.value.value) if entry is not None and isinstance(entry.value, Scalar) else None


def _origin(document: object, node: object, name: str) -> FileOrigin | None:
    from cfglint.source.node import Document

    entry = node.entry(name) if isinstance(node, Mapping) else None
    if entry is None or not isinstance(document, Document):
        return None
    return FileOrigin(document, ("resources", name), entry.key.span, entry.value.span)
