"""SEC003."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, Sequence, at, plain, value_at

from ..containers.pod import image_origin, pod_spec, services_of, variable_names
from ..serving.server import (
    HOST_ARGUMENTS,
    LOOPBACK_DEFAULT,
    docker_run,
    engine,
    launch_of,
    managed,
    runs,
    stated,
    text,
)

LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
OPEN_TYPES = ("LoadBalancer", "NodePort")
INTERNAL = re.compile(r"internal|private", re.IGNORECASE)
"""In an annotation of a Service: clouds' words for a load balancer that only the own network reaches."""


class OpenServer(Rule):
    """The server is reachable from outside and asks for no key.

    Whoever reaches the port can generate at will, read the metrics, and on some settings load adapters or fetch addresses of
    the inner network. vLLM's own key protects /v1 only; a proxy in front is the usual answer.

    How sure: reachable means published on all addresses (``-p``, compose ``ports``, the host's network, a LoadBalancer or
    NodePort that is not internal), or ``host: 0.0.0.0`` asked for by name outside a container. A Service inside the cluster
    is not. Authentication at a gateway cannot be seen here: information only.
    """

    code = "SEC003"
    name = "open-server"
    family = "security"
    severity = "info"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/usage/security/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
    )
    catalogue = ("sec-no-api-key",)
    good = (
        example(
            "serve.sh", "docker run --gpus all -p 127.0.0.1:8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"
        ),
        example("serve.sh", 'vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0 --api-key "$KEY"'),
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm, labels: {app: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct", "--host", "0.0.0.0"]
                  readinessProbe: {httpGet: {path: /health, port: 8000}}
            ---
            apiVersion: v1
            kind: Service
            metadata: {name: llm}
            spec: {selector: {app: llm}, ports: [{port: 80, targetPort: 8000}]}
            """,
            note="reached from inside the cluster alone",
        ),
    )
    bad = (
        example(
            "serve.sh", "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct", count=1
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0", at="host"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if (
            not runs(job, "vllm", "sglang", "tgi", "lmdeploy")
            or managed(job)
            or stated(job, "api_key")
            or stated(job, "middleware")
            or stated(job, "root_path")
            or stated(job, "api_keys")
        ):
            return
        launch = launch_of(job)
        if launch is not None:
            names = variable_names(launch)
            if names is None or names & {"VLLM_API_KEY", "API_KEY"}:
                return
        found = exposed(job, context)
        if found is None:
            return
        how, where = found
        yield self.finding(
            f"the server is {how} and asks for no API key",
            where,
            help="a key from a secret, a proxy that authenticates, or a private address",
            job=job,
        )


def exposed(job: ServingJob, context: Context) -> tuple[str, Where] | None:
    """How the server is reachable from outside, in words, and where that stands; None where it is not, as far as is seen."""
    launch = launch_of(job)
    host = text(job, HOST_ARGUMENTS.get(engine(job), "host"))
    if host is not None and host.value in LOCAL:
        return None
    run = docker_run(launch)
    if launch is not None and run is not None:
        published = [*run.options.get("p", ()), *run.options.get("publish", ())]
        if any(not word.text.startswith(LOCAL) for word in published):
            return "published on every address", image_origin(launch)
        networks = [word.text for name in ("network", "net") for word in run.options.get(name, ())]
        return _on_host(job, "host" in networks, host, image_origin(launch))
    if launch is not None and launch.carrier == "compose" and launch.container is not None:
        ports = launch.container.get("ports")
        for item in ports.items if isinstance(ports, Sequence) else []:
            if isinstance(item, Scalar) and ":" in str(item.value) and not str(item.value).startswith((*LOCAL, "$")):
                return "published on every address", image_origin(launch)
        on_host = value_at(launch.container, "network_mode") == "host"
        return _on_host(job, on_host, host, image_origin(launch))
    if launch is not None and launch.carrier == "kubernetes":
        for _, service in services_of(launch, context):
            kind = value_at(service, "spec", "type")
            if kind in OPEN_TYPES and not _internal(service):
                return f"behind a Service of type {kind!s}", image_origin(launch)
        spec = pod_spec(launch)
        on_host = spec is not None and value_at(spec, "hostNetwork") is True
        return _on_host(job, on_host, host, image_origin(launch))
    if launch is not None and launch.carrier == "dockerfile":
        return None
    return ("listening on every address", host) if host is not None and host.value in ("0.0.0.0", "::") else None


def _on_host(job: ServingJob, shared: bool, host: Fact[str] | None, where: Where) -> tuple[str, Where] | None:
    """A container with the host's own network, where the engine listens on every address."""
    everywhere = host.value in ("0.0.0.0", "::") if host is not None else engine(job) not in LOOPBACK_DEFAULT
    return ("on the host's network", host or where) if shared and everywhere else None


def _internal(service: Mapping) -> bool:
    """A load balancer of the own network, or one that lets chosen addresses in alone."""
    if value_at(service, "spec", "type") != "LoadBalancer":
        return False
    annotations = at(service, "metadata", "annotations")
    said = [(e.name, plain(e.value)) for e in annotations.index.values()] if isinstance(annotations, Mapping) else []
    named = any(INTERNAL.search(f"{key}={value!s}") and str(value).lower() != "false" for key, value in said)
    return named or at(service, "spec", "loadBalancerSourceRanges") is not None
