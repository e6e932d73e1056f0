"""What the rules of this family ask of a container: its environment, volumes, probes, ports and neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import basename
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.source.node import Document, Mapping, Node, Scalar, Sequence, at, value_at

from ..serving.server import DEFAULT_PORTS, PORT_ARGUMENTS, docker_run, engine, launch_of, number, stated

CUDA_IMAGE = "vllm-openai"
TGI_IMAGE = "text-generation-inference"
"""Its Dockerfile sets ``PORT=80``."""
WORKLOADS = frozenset({"Deployment", "StatefulSet", "Pod", "ReplicaSet", "DaemonSet", "LeaderWorkerSet"})
"""Kinds whose pods are meant to go on running."""


def in_kubernetes(job: ServingJob) -> Launch | None:
    """The launch, where a pod's container runs the server."""
    launch = launch_of(job)
    return launch if launch is not None and launch.carrier == "kubernetes" and launch.container is not None else None


def pod_spec(launch: Launch) -> Mapping | None:
    spec = launch.context.get("pod_spec")
    return spec if isinstance(spec, Mapping) else None


def origin_in(launch: Launch, parent: Node | None, key: str) -> FileOrigin | None:
    """Where ``key`` of a mapping of the launch's document stands."""
    entry = parent.entry(key) if isinstance(parent, Mapping) else None
    if entry is None:
        return None
    return FileOrigin(launch.document, (key,), entry.key.span, entry.value.span)


def image_origin(launch: Launch) -> FileOrigin | None:
    if launch.image is None:
        return None
    return FileOrigin(launch.document, ("image",), launch.image.span, launch.image.span)


def cuda_image(launch: Launch) -> bool:
    """Whether the image is the vLLM project's own for CUDA, or a mirror of it."""
    return launch.image is not None and basename(launch.image.text.split("@")[0]).split(":")[0] == CUDA_IMAGE


def variable_names(launch: Launch) -> frozenset[str] | None:
    """Every variable set for the container, with or without a literal value; None where others come from elsewhere
    (``envFrom``, ``env_file``, ``--env-file``)."""
    names = set(launch.environment)
    run = docker_run(launch)
    if run is not None:
        if "env-file" in run.options:
            return None
        for option in [*run.options.get("e", ()), *run.options.get("env", ())]:
            names.add(option.text.partition("=")[0])
    container = launch.container
    if container is not None:
        if "envFrom" in container or "env_file" in container:
            return None
        for key in ("env", "environment"):
            given = container.get(key)
            if isinstance(given, Sequence):
                for item in given.items:
                    name = value_at(item, "name") if isinstance(item, Mapping) else getattr(item, "value", None)
                    if isinstance(name, str):
                        names.add(name.partition("=")[0])
            elif isinstance(given, Mapping):
                names.update(given.keys())
    return frozenset(names)


def mounts(launch: Launch) -> Iterator[tuple[str, str]]:
    """(path in the container, volume's name or source) of every mount."""
    run = docker_run(launch)
    if run is not None:
        for option in [*run.options.get("v", ()), *run.options.get("volume", ())]:
            source, _, rest = option.text.partition(":")
            yield rest.partition(":")[0], source
        for option in run.options.get("mount", ()):
            parts = dict(p.partition("=")[::2] for p in option.text.split(","))
            yield parts.get("target", parts.get("dst", parts.get("destination", ""))), parts.get("source", "")
    container = launch.container
    if container is None:
        return
    given = container.get("volumeMounts") or container.get("volumes")
    for item in given.items if isinstance(given, Sequence) else []:
        if isinstance(item, Mapping):
            path = value_at(item, "mountPath") or value_at(item, "target")
            yield str(path or ""), str(value_at(item, "name") or value_at(item, "source") or "")
        elif isinstance(item, Scalar) and isinstance(item.value, str):
            source, _, rest = item.value.partition(":")
            yield rest.partition(":")[0], source


def engine_port(job: ServingJob) -> int | None:
    """The port the API server listens on; None where it is stated as something not known."""
    name = PORT_ARGUMENTS.get(engine(job), "port")
    port = number(job, name)
    if port is not None:
        return port.value
    if stated(job, name):
        return None
    if engine(job) == "tgi":
        launch = launch_of(job)
        if launch is None or launch.image is None:
            return 3000
        own = basename(launch.image.text.split("@")[0]).split(":")[0] == TGI_IMAGE
        return 80 if own else None  # builds of others set a port of their own (Google's reads AIP_HTTP_PORT)
    return DEFAULT_PORTS.get(engine(job))


def manifests(context: Context, kind: str) -> list[tuple[Document, Mapping]]:
    """Every Kubernetes manifest of a kind among the files of the run."""
    kept: dict[str, list[tuple[Document, Mapping]]] = context.shared.setdefault("containers", {})
    if not kept:
        kept[""] = []
        for file in context.files.values():
            if file.format != "yaml" or "apiVersion" not in file.text:
                continue
            for document in file.documents:
                root = document.root
                if isinstance(root, Mapping):
                    found = value_at(root, "kind")
                    if isinstance(found, str):
                        kept.setdefault(found, []).append((document, root))
    return kept.get(kind, [])


def namespace(root: Node | None) -> str:
    return str(value_at(root, "metadata", "namespace") or "default")


def services_of(launch: Launch, context: Context) -> list[tuple[Document, Mapping]]:
    """Services of the run whose selector takes the pod in."""
    labels = _labels(launch)
    found = []
    for document, root in manifests(context, "Service"):
        selector = at(root, "spec", "selector")
        if (
            not isinstance(selector, Mapping)
            or not selector.index
            or namespace(root) != namespace(launch.context.get("manifest"))
        ):
            continue
        if all(
            value_at(selector, key) is not None and labels.get(key) == value_at(selector, key) for key in selector.index
        ):
            found.append((document, root))
    return found


def _labels(launch: Launch) -> dict[str, Any]:
    root = launch.context.get("manifest")
    labels = at(root, "spec", "template", "metadata", "labels") or at(root, "metadata", "labels")
    return {key: value_at(labels, key) for key in labels.index} if isinstance(labels, Mapping) else {}
