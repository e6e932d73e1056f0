"""SkyPilot tasks: ``resources`` give the accelerators, ``run`` the commands, which are read as a shell script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import expanded
from cfglint.dialects.carriers.embedded import shell_commands
from cfglint.dialects.server import value_word
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Mapping, Node, Route, Scalar, Sequence
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

TASK_KEYS: Final = frozenset(
    {
        "name", "workdir", "num_nodes", "resources", "envs", "secrets", "file_mounts", "volumes", "storage_mounts",
        "setup", "run", "service", "config", "event_callback", "inputs", "outputs", "experimental", "pool", "env",
        "priority", "execution", "primary_tasks", "termination_delay", "depends_on", "job_recovery", "auth",
    }
)  # fmt: skip
"""Keys of a task, of a pipeline's head and of a job group's (sky/utils/schemas.py)."""
RESOURCE_KEYS: Final = frozenset(
    {
        "accelerators", "accelerator_args", "cloud", "infra", "region", "zone", "instance_type", "cpus", "memory",
        "disk_size", "disk_tier", "use_spot", "spot_recovery", "job_recovery", "image_id", "ports", "any_of", "ordered",
        "labels", "autostop", "network_tier", "priority", "volumes", "local_disk",
    }
)  # fmt: skip
SERVICE_KEYS: Final = frozenset(
    {
        "readiness_probe",
        "replicas",
        "replica_policy",
        "port",
        "ports",
        "load_balancing_policy",
        "pool",
        "tls",
        "workers",
    }
)
COUNT: Final = "SKYPILOT_NUM_GPUS_PER_NODE"
NODES: Final = "SKYPILOT_NUM_NODES"


class SkypilotDialect(Dialect):
    name = "skypilot"
    title = "SkyPilot"
    kind = "both"
    wraps = True
    summary = "tasks: accelerators, nodes, environment, and the commands of `run`"

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        keys = set(root.keys())
        if not keys or len(keys - TASK_KEYS) * 5 > len(keys) or "jobs" in keys or "steps" in keys:
            return None
        if keys & {"run", "setup"} and not all(_script(root.get(k)) for k in ("run", "setup") if k in keys):
            return None
        resources = root.get("resources")
        sky_resources = isinstance(resources, Mapping) and bool(set(resources.keys()) & RESOURCE_KEYS)
        service = root.get("service")
        sky_service = isinstance(service, Mapping) and bool(set(service.keys()) & SERVICE_KEYS)
        if sky_resources and set(resources.keys()) <= RESOURCE_KEYS:  # type: ignore[union-attr]
            others = keys & {"run", "setup", "num_nodes", "service", "file_mounts", "workdir", "envs", "pool", "name"}
            if others:
                return Recognition(80, " + ".join(["resources", *sorted(others)[:2]]))
        if "run" in keys and keys & {"setup", "num_nodes", "file_mounts", "workdir", "envs", "secrets"}:
            return Recognition(
                70, " + ".join(["run", *sorted(keys & {"setup", "num_nodes", "file_mounts", "workdir", "envs"})])
            )
        if "run" in keys and (sky_service or sky_resources):
            return Recognition(70, "run + " + ("service" if sky_service else "resources"))
        if _sky_text(document) and (keys == {"name", "run"} or (keys == {"resources"} and sky_resources)):
            return Recognition(55, " + ".join(sorted(keys)) + " of a task")
        if "file_mounts" in keys or (sky_service and "pool" not in keys and sky_resources):
            return Recognition(60, "file_mounts" if "file_mounts" in keys else "service")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="both")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        script = root.get("run")
        if not isinstance(script, Scalar) or not isinstance(script.value, str):
            return
        gpu, gpus = accelerators(document, root.get("resources"), ("resources",))
        nodes = _nodes(document, root)
        variables = list(_variables(root))
        environment = dict(variables)
        if gpus is not None:
            variables.append((COUNT, Word(str(gpus[0]), "", gpus[1].value_span)))
        if nodes is not None:
            variables.append((NODES, Word(str(nodes[0]), "", nodes[1].value_span)))
        context: dict[str, Any] = {"kind": "skypilot", "manifest": root, "versions": _versions(root)}
        name = root.get("name")
        for command in shell_commands(document, script, variables):
            if not command.words or command.words[0].text == "export":
                continue
            yield from expanded(
                Launch(
                    words=list(command.words),
                    document=document,
                    carrier="shell",
                    environment={**environment, **command.environment, **command.assignments},
                    command=command,
                    name=str(name.value) if isinstance(name, Scalar) and name.value else "",
                    context=dict(context),
                    gpu=gpu,
                    gpus=gpus,
                    nodes=nodes,
                )
            )


def accelerators(
    document: Document, resources: Node | None, route: Route
) -> tuple[tuple[str, FileOrigin] | None, tuple[int, FileOrigin] | None]:
    """The accelerator and the count on a node; nothing where several are asked for that differ."""
    if not isinstance(resources, Mapping):
        return None, None
    choices: list[tuple[str | None, int | None, FileOrigin]] = []
    for wanted, where in _requests(resources, route):
        entry = wanted.entry("accelerators")
        if entry is not None:
            for text, node in _names(entry.value):
                name, count = _split(text)
                choices.append((name, count, FileOrigin(document, (*where, "accelerators"), entry.key.span, node.span)))
            continue
        entry = wanted.entry("instance_type")
        if entry is not None and isinstance(entry.value, Scalar):
            from cfglint.catalog.instances import find_instance

            instance = find_instance(str(entry.value.value))
            if instance is not None and not instance.fractional:
                origin = FileOrigin(document, (*where, "instance_type"), entry.key.span, entry.value.span)
                choices.append((instance.gpu, int(instance.count), origin))
    if not choices:
        return None, None
    names, counts = {c[0] for c in choices}, {c[1] for c in choices}
    origin = choices[0][2]
    gpu = (choices[0][0], origin) if len(names) == 1 and choices[0][0] else None
    gpus = (choices[0][1], origin) if len(counts) == 1 and choices[0][1] else None
    return gpu, gpus


def _requests(resources: Mapping, route: Route) -> Iterator[tuple[Mapping, Route]]:
    """The resources, or each of ``any_of`` and ``ordered`` that names accelerators."""
    found = False
    for key in ("any_of", "ordered"):
        listed = resources.get(key)
        for i, item in enumerate(listed.items if isinstance(listed, Sequence) else ()):
            if isinstance(item, Mapping) and ("accelerators" in item or "instance_type" in item):
                found = True
                yield item, (*route, key, i)
    if not found:
        yield resources, route


def _names(node: Node) -> Iterator[tuple[str, Node]]:
    """``A100:8``, ``{A100: 8}``, ``{L4:8, A100:8}`` (keys with null values) and lists of them."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        yield node.value, node
    elif isinstance(node, Mapping):
        for name, entry in node.index.items():
            value = entry.value.value if isinstance(entry.value, Scalar) else None
            yield (f"{name}:{value!s}" if value is not None else name), entry.key
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _names(item)


def _split(text: str) -> tuple[str | None, int | None]:
    """SkyPilot's own names: ``A100`` has 40 GB there, and a name without a count means one."""
    from cfglint.catalog.labels import SKYPILOT, read_label

    name, _, count = text.partition(":")
    match = read_label(SKYPILOT, name)
    gpu = match.gpu if match is not None and not match.share else name.strip() or None
    if name.strip().lower().startswith(("tpu", "inferentia", "trainium", "gaudi")):
        gpu = None
    return gpu, whole_number(count.strip()) if count else 1


def _nodes(document: Document, root: Mapping) -> tuple[int, FileOrigin] | None:
    entry = root.entry("num_nodes")
    if entry is None or not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, int):
        return None
    return entry.value.value, FileOrigin(document, ("num_nodes",), entry.key.span, entry.value.span)


def _variables(root: Mapping) -> Iterator[tuple[str, Word]]:
    """``envs`` with a value; one without is given on the command line."""
    for key in ("envs", "env", "secrets"):
        table = root.get(key)
        for name, entry in (table.index if isinstance(table, Mapping) else {}).items():
            value = entry.value
            if isinstance(value, Scalar) and value.value not in (None, "") and name.isidentifier():
                word = value_word(value)
                if word.known:
                    yield name, word


_PINNED: Final = re.compile(
    r"(?<![\w.-])(vllm|sglang|lmdeploy|transformers|trl|peft|accelerate|deepspeed|torch)(?:\[[\w,-]*\])?=="
    r"(\d[\w.]*)"
)


def _versions(root: Mapping) -> dict[str, str]:
    """Releases that ``setup`` and ``run`` install, and that of a server's own image."""
    found: dict[str, str] = {}
    for key in ("setup", "run"):
        script = root.get(key)
        text = script.value if isinstance(script, Scalar) and isinstance(script.value, str) else ""
        for line in text.splitlines():
            if "pip" in line and "install" in line and not line.lstrip().startswith("#"):
                for name, version in _PINNED.findall(line):
                    found[name] = version
    return found


def _script(node: Node | None) -> bool:
    return isinstance(node, Scalar) and (node.value is None or isinstance(node.value, (str, int, float, bool)))


def _sky_text(document: Document) -> bool:
    text = document.file.text
    return "sky launch" in text or "SKYPILOT_" in text or "sky jobs" in text or "sky serve" in text


DIALECT = SkypilotDialect()
