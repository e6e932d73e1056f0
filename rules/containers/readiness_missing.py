"""CTR003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import at, value_at

from ..serving.server import managed, runs
from .pod import engine_port, image_origin, in_kubernetes, manifests, namespace, services_of

AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
KINDS = ("Deployment", "StatefulSet", "Pod", "LeaderWorkerSet")


class ReadinessMissing(Rule):
    """A server behind a Service has no readiness probe: requests reach it before the model is loaded.

    Without one a pod counts as ready when its process starts. Loading takes minutes, and until then clients get "connection
    refused"; at a rollout the old pods go before the new ones can answer. With several replicas, or an autoscaler, a share of
    the requests fails while others are served: a warning. With one there is nothing else to send them to: information.

    How sure: the Service is among the files and selects this very pod, and the container has neither a readiness nor a
    startup probe.
    """

    code = "CTR003"
    name = "readiness-missing"
    family = "containers"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
        "https://docs.vllm.ai/en/latest/deployment/k8s/",
    )
    catalogue = ("k8s-readiness-missing",)
    _SERVICE = """
            ---
            apiVersion: v1
            kind: Service
            metadata: {name: chat}
            spec: {selector: {app: chat}, ports: [{port: 80, targetPort: 8000}]}
            """
    good = (
        example(
            "chat.yaml",
            """
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: chat}
            spec:
              selector: {matchLabels: {app: chat}}
              template:
                metadata: {labels: {app: chat}}
                spec:
                  containers:
                    - name: llm
                      image: vllm/vllm-openai:v0.18.1
                      args: ["Qwen/Qwen2.5-7B-Instruct"]
                      readinessProbe: {httpGet: {path: /health, port: 8000}}
            """
            + _SERVICE,
        ),
    )
    bad = (
        example(
            "chat.yaml",
            """
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: chat}
            spec:
              selector: {matchLabels: {app: chat}}
              template:
                metadata: {labels: {app: chat}}
                spec:
                  containers:
                    - name: llm
                      image: vllm/vllm-openai:v0.18.1
                      args: ["Qwen/Qwen2.5-7B-Instruct"]
            """
            + _SERVICE,
            count=1,
        ),
        example(
            "chat.yaml",
            """
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: chat}
            spec:
              replicas: 2
              selector: {matchLabels: {app: chat}}
              template:
                metadata: {labels: {app: chat}}
                spec:
                  containers:
                    - name: llm
                      image: vllm/vllm-openai:v0.18.1
                      args: ["Qwen/Qwen2.5-7B-Instruct"]
            """
            + _SERVICE,
            note="requests are shared out",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        if launch is None or launch.container is None or launch.context.get("kind") not in KINDS or managed(job):
            return
        if not runs(job, "vllm", "sglang", "tgi", "lmdeploy"):
            return
        if "readinessProbe" in launch.container or "startupProbe" in launch.container:
            return
        services = services_of(launch, context)
        if not services:
            return
        _, service = services[0]
        several = _replicas(launch) > 1 or _scaled(launch, context)
        yield self.finding(
            f"no readiness probe, and Service {value_at(service, 'metadata', 'name')!s} sends requests as soon as the process starts",
            image_origin(launch),
            help=f"readinessProbe: {{httpGet: {{path: /health, port: {engine_port(job) or 8000}}}}}",
            severity="warning" if several else "info",
            job=job,
        )


def _replicas(launch: Launch) -> int:
    count = value_at(launch.context.get("manifest"), "spec", "replicas")
    return count if isinstance(count, int) else 1


def _scaled(launch: Launch, context: Context) -> bool:
    """Whether an autoscaler among the files makes more of this workload."""
    manifest = launch.context.get("manifest")
    name = value_at(manifest, "metadata", "name")
    for kind in AUTOSCALERS:
        for _, root in manifests(context, kind):
            target = at(root, "spec", "scaleTargetRef")
            if value_at(target, "name") == name and namespace(root) == namespace(manifest):
                return True
    return False
