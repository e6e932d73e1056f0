"""CTR010."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Document, Mapping, Node, Scalar, Sequence, at, value_at
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

from ..serving.server import PORT_ARGUMENTS, docker_run, engine, launch_of, managed, runs, statement
from .pod import engine_port, in_kubernetes, pod_spec, services_of

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class PortMismatch(Rule):
    """A probe or a published port points at another port than the server listens on.

    vLLM listens on 8000, SGLang on 30000, TGI's image on 80 and LMDeploy on 23333 unless told otherwise. A probe on another
    port never succeeds and the pod is restarted or never ready; a published port, or a Service's ``targetPort``, leads to
    "connection refused".

    How sure: both ports are stated as numbers (or names that the container declares). Probes and Services are judged where
    the pod has no other container that may listen there, published ports where the image's entrypoint is the server and
    nothing else. A declared ``containerPort`` opens nothing by itself: a warning.
    """

    code = "CTR010"
    name = "port-mismatch"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/entrypoints/common/cli_args.py",
        "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
    )
    catalogue = ("ctr-port-mismatch",)
    good = (
        example("serve.sh", "docker run --gpus all -p 80:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
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
                  args: ["Qwen/Qwen2.5-7B-Instruct", "--port=8080"]
                  ports: [{name: http, containerPort: 8080}]
                  readinessProbe: {httpGet: {path: /health, port: http}}
            """,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all -p 8080:8080 ghcr.io/huggingface/text-generation-inference:2.4.1 --model-id Qwen/Qwen2.5-7B-Instruct",
            count=1,
        ),
        example(
            "serve.sh", "docker run --gpus all -p 8080:8080 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct", count=1
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
                  readinessProbe: {httpGet: {path: /health, port: 8080}}
                  livenessProbe: {httpGet: {path: /health, port: 8080}}
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        port = engine_port(job)
        if port is None or not runs(job, "vllm", "sglang", "tgi", "lmdeploy") or managed(job):
            return
        launch = launch_of(job)
        run = docker_run(launch)
        shown = statement(job, PORT_ARGUMENTS.get(engine(job), "port"))
        label = f"the server listens on {port}" + ("" if shown is not None else ", its default")
        if launch is not None and run is not None:
            networks = [w.text for name in ("network", "net") for w in run.options.get(name, ())]
            published = [*run.options.get("p", ()), *run.options.get("publish", ())]
            inner = [(word, _inner(word)) for word in published]
            known = [p for _, p in inner if p is not None]
            if (
                "host" not in networks
                and "entrypoint" not in run.options
                and known
                and len(known) == len(inner)
                and port not in known
            ):
                word, _ = inner[0]
                yield self.finding(
                    f"port {known[0]} of the container is published, and {label}",
                    FileOrigin(launch.document, ("publish",), word.span, word.span),
                    (shown, f"port {port}"),
                    help=f"-p {word.text.rpartition(':')[0] or known[0]}:{port}, or --port {known[0]}",
                    job=job,
                )
            return
        if launch is not None and launch.carrier == "compose" and launch.container is not None:
            yield from self._compose(job, launch, launch.container, port, label)
            return
        yield from self._pod(job, port, label, context)

    def _compose(self, job: ServingJob, launch: Launch, service: Mapping, port: int, label: str) -> Iterator[Finding]:
        if "network_mode" in service or "extends" in service:
            return
        ports = service.get("ports")
        inner = [(item, _target(item)) for item in (ports.items if isinstance(ports, Sequence) else [])]
        known = [number for _, number in inner if number is not None]
        if not known or len(known) != len(inner) or port in known:
            return
        item = inner[0][0]
        yield self.finding(
            f"port {known[0]} of the container is published, and {label}",
            FileOrigin(launch.document, ("ports",), item.span, item.span),
            (statement(job, "port"), f"port {port}"),
            help=f"publish port {port} of the container, or --port {known[0]}",
            job=job,
        )

    def _pod(self, job: ServingJob, port: int, label: str, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        spec = pod_spec(launch) if launch is not None else None
        if launch is None or spec is None or launch.container is None:
            return
        containers = spec.get("containers")
        if not isinstance(containers, Sequence) or len(containers.items) != 1 or "initContainers" in spec:
            return
        names = {}
        ports = launch.container.get("ports")
        for item in ports.items if isinstance(ports, Sequence) else []:
            if isinstance(item, Mapping):
                number = value_at(item, "containerPort")
                names[value_at(item, "name") or number] = number
        wrong: list[tuple[FileOrigin, str, int]] = []
        for probe in PROBES:
            for check in ("httpGet", "tcpSocket"):
                target = at(launch.container, probe, check)
                entry = target.entry("port") if isinstance(target, Mapping) else None
                if entry is None or not isinstance(entry.value, Scalar):
                    continue
                value = entry.value.value
                number = whole_number(names.get(value, value) if isinstance(value, str) else value)
                if number is not None and number != port:
                    wrong.append(
                        (
                            FileOrigin(launch.document, (probe, check, "port"), entry.key.span, entry.value.span),
                            probe,
                            number,
                        )
                    )
        if wrong:
            where, probe, number = wrong[0]
            yield self.finding(
                f"{probe} asks port {number}, and {label}",
                where,
                *((origin, f"{name} too") for origin, name, _ in wrong[1:]),
                (statement(job, "port"), f"port {port}"),
                help=f"port: {port}, or --port {number}",
                job=job,
            )
            return
        for document, service in _own_services(launch, context):
            given = at(service, "spec", "ports")
            targets = [
                (item, _service_target(item, names)) for item in (given.items if isinstance(given, Sequence) else [])
            ]
            sent = [number for _, number in targets if number is not None]
            if sent and len(sent) == len(targets) and port not in sent:
                item = targets[0][0]
                yield self.finding(
                    f"Service {value_at(service, 'metadata', 'name')!s} sends to port {sent[0]}, and {label}",
                    FileOrigin(document, ("spec", "ports"), item.span, item.span),
                    (statement(job, "port"), f"port {port}"),
                    help=f"targetPort: {port}, or --port {sent[0]}",
                    job=job,
                )
                return
        declared = [number for number in names.values() if isinstance(number, int)]
        if declared and len(declared) == len(names) and port not in declared and isinstance(ports, Sequence):
            first = ports.items[0]
            yield self.finding(
                f"the container declares port {declared[0]}, and {label}",
                FileOrigin(launch.document, ("ports",), first.span, first.span),
                (statement(job, "port"), f"port {port}"),
                help=f"containerPort: {port}, or --port {declared[0]}",
                severity="warning",
                confidence="medium",
                job=job,
            )


def _own_services(launch: Launch, context: Context) -> list[tuple[Document, Mapping]]:
    """Services of the same file that select the pod; else the only one there is, in the same folder. Samples in one
    repository often share their labels."""
    found = services_of(launch, context)
    own = [pair for pair in found if pair[0].file is launch.document.file]
    folder = launch.document.path.rpartition("/")[0]
    beside = [pair for pair in found if pair[0].path.rpartition("/")[0] == folder]
    return own or (beside if len(found) == 1 else [])


def _target(item: Node) -> int | None:
    """The container's side of an item of compose's ``ports``."""
    if isinstance(item, Mapping):
        number = value_at(item, "target")
        return number if isinstance(number, int) else None
    text = str(item.value) if isinstance(item, Scalar) else ""
    last = text.rpartition(":")[2].partition("/")[0]
    return whole_number(last) if ":" in text else None


def _service_target(item: Node, names: dict[Any, Any]) -> int | None:
    """The container's port that a Service's port leads to; None for a name that the container does not declare."""
    target = value_at(item, "targetPort")
    if target is None:
        target = value_at(item, "port")
    return whole_number(names.get(target, target) if isinstance(target, str) else target)


def _inner(word: Word) -> int | None:
    """The container's side of ``-p 80:8000``, ``127.0.0.1:80:8000/tcp``."""
    last = word.text.rpartition(":")[2].partition("/")[0]
    return whole_number(last) if word.known else None
