"""Kubernetes manifests as carriers: each container's command and args, with its image, environment, GPUs and memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import expanded
from cfglint.dialects.carriers.shell import memory_bytes
from cfglint.jobs.facts import FileOrigin
from cfglint.source.node import Document, Mapping, Node, Route, Scalar, Sequence, at, value_at
from cfglint.source.shell import Command, Word, parse_shell
from cfglint.source.whole_number import whole_number

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "gpu.intel.com/i915")
SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", "ash", "/bin/ash")
MOST_STEPS = 12
"""How deep below ``spec`` a pod template can stand (a JobSet's is seven keys down)."""


def matches(root: Node | None) -> bool:
    return (
        isinstance(root, Mapping)
        and isinstance(value_at(root, "apiVersion"), str)
        and isinstance(value_at(root, "kind"), str)
    )


def pod_specs(root: Mapping) -> Iterator[tuple[Route, Mapping]]:
    """Every pod spec of a manifest with its route, items of a ``List`` included."""
    if value_at(root, "kind") == "List":
        items = root.get("items")
        if isinstance(items, Sequence):
            for i, item in enumerate(items.items):
                if isinstance(item, Mapping):
                    for inner, found in pod_specs(item):
                        yield ("items", i, *inner), found
        return
    spec = root.get("spec")
    if isinstance(spec, Mapping):
        yield from _pods_below(("spec",), spec)


def _pods_below(route: Route, node: Mapping) -> Iterator[tuple[Route, Mapping]]:
    """Mappings with a list of containers, wherever a resource has them: Deployment, JobSet, LeaderWorkerSet, KServe …"""
    if isinstance(node.get("containers"), Sequence) or isinstance(node.get("initContainers"), Sequence):
        yield route, node
        return
    if len(route) >= MOST_STEPS:
        return
    for name, entry in node.index.items():
        value = entry.value
        if isinstance(value, Mapping):
            yield from _pods_below((*route, name), value)
        elif isinstance(value, Sequence):
            for i, item in enumerate(value.items):
                if isinstance(item, Mapping):
                    yield from _pods_below((*route, name, i), item)


def launches(document: Document) -> Iterator[Launch]:
    """A launch for each container of each pod, init containers included."""
    root = document.root
    if not isinstance(root, Mapping):
        return
    for route, spec in pod_specs(root):
        for kind in ("containers", "initContainers"):
            containers = spec.get(kind)
            for i, container in enumerate(containers.items if isinstance(containers, Sequence) else ()):
                if isinstance(container, Mapping):
                    yield from container_launches(document, root, (*route, kind, i), spec, container)
    if value_at(root, "kind") == "RayJob":
        yield from _ray_job(document, root)
    elif value_at(root, "kind") == "TrainJob":
        yield from _train_job(document, root)


def _ray_job(document: Document, root: Mapping) -> Iterator[Launch]:
    """``spec.entrypoint``: the command that KubeRay submits to its cluster."""
    from cfglint.dialects.carriers.embedded import shell_commands

    entrypoint = at(root, "spec", "entrypoint")
    if not isinstance(entrypoint, Scalar) or not isinstance(entrypoint.value, str):
        return
    for command in shell_commands(document, entrypoint):
        yield from expanded(
            Launch(
                words=list(command.words),
                document=document,
                carrier="kubernetes",
                environment={**command.environment, **command.assignments},
                command=command,
                name=str(value_at(root, "metadata", "name") or ""),
                context={"kind": "RayJob", "manifest": root},
            )
        )


def _train_job(document: Document, root: Mapping) -> Iterator[Launch]:
    """``spec.trainer`` of Kubeflow's TrainJob: a container's command, with nodes and resources beside it."""
    trainer = at(root, "spec", "trainer")
    if not isinstance(trainer, Mapping) or not ("command" in trainer or "args" in trainer):
        return
    route: Route = ("spec", "trainer")
    counts: dict[str, tuple[int, FileOrigin]] = {}
    for name in ("numNodes", "numProcPerNode"):
        entry = trainer.entry(name)
        count = whole_number(entry.value.value) if entry is not None and isinstance(entry.value, Scalar) else None
        if entry is not None and count is not None:
            origin = FileOrigin(document, (*route, name), entry.key.span, entry.value.span)
            counts[name] = (count, origin)
    variables = environment(trainer)
    for words, command in container_commands(trainer.get("command"), trainer.get("args")):
        yield from expanded(
            Launch(
                words=words,
                document=document,
                carrier="kubernetes",
                environment={**variables, **(command.environment if command else {})},
                image=_word(trainer.get("image")),
                command=command,
                name=str(value_at(root, "metadata", "name") or ""),
                container=trainer,
                context={"kind": "TrainJob", "manifest": root},
                gpus=counts.get("numProcPerNode") or _gpu_count(document, route, trainer, "resourcesPerNode"),
                nodes=counts.get("numNodes"),
            )
        )


def container_launches(
    document: Document, root: Mapping, route: Route, spec: Mapping, container: Mapping, *, wrapper: str | None = None
) -> Iterator[Launch]:
    """What one container runs. ``route`` leads to it, ``spec`` is its pod's; ``wrapper`` makes the command of something else."""
    gpus = _gpu_count(document, route, container)
    context: dict[str, Any] = {
        "kind": value_at(root, "kind"),
        "manifest": root,
        "pod_spec": spec,
        "pod_route": route[:-2],
        "container_route": route,
    }
    if wrapper is not None:
        context["wrapper"] = wrapper
    base = Launch(
        words=[],
        document=document,
        carrier="kubernetes",
        environment=environment(container),
        image=_word(container.get("image")),
        name=str(value_at(root, "metadata", "name") or value_at(container, "name") or ""),
        container=container,
        context=context,
        gpu=_gpu_label(document, route, spec),
        gpus=gpus,
        nodes=_group_size(document, root),
        host_memory=_memory_limit(document, route, container),
    )
    for words, command in container_commands(container.get("command"), container.get("args")):
        words = [_with_values(word, base.environment) for word in words]
        yield from expanded(
            Launch(
                words=words,
                document=document,
                carrier=base.carrier,
                environment={**base.environment, **(command.environment if command else {})},
                image=base.image,
                command=command,
                name=base.name,
                container=container,
                context=dict(context),
                gpu=base.gpu,
                gpus=base.gpus,
                nodes=base.nodes,
                host_memory=base.host_memory,
            )
        )


def container_commands(command: Node | None, args: Node | None) -> Iterator[tuple[list[Word], Command | None]]:
    """The words a container starts: command followed by args; a ``sh -c`` script is read as shell with true places.

    A container without either still yields one launch with no words: its image's own entrypoint runs.
    """
    yield from script_commands([*words_of(command), *words_of(args)])


COMMAND_IN_ONE = re.compile(r"(\S*/)?(vllm|python3?|text-generation-launcher|lmdeploy|trtllm-serve)\s+\S")
"""A whole command as one item of a list: no program is called so, yet what is meant can be read."""


def script_commands(words: list[Word]) -> Iterator[tuple[list[Word], Command | None]]:
    """The words themselves, or the commands of the script in ``sh -c 'script'``."""
    texts = [w.text for w in words]
    script_at = _shell_script(texts)
    if script_at is None:
        if words and COMMAND_IN_ONE.match(words[0].text):
            whole = parse_shell("", words[0].text).script
            meant = whole.commands if whole is not None else []
            if len(meant) == 1:
                words = [_moved(word, words[0]) for word in meant[0].words] + words[1:]
        yield words, None
        return
    script_word = words[script_at]
    parsed = parse_shell("", script_word.text)
    found = False
    given = words[script_at + 2 :]  # what stands behind the script: $0, then the script's own arguments
    for inner in parsed.script.commands if parsed.script else []:
        found = True
        moved: list[Word] = []
        for word in inner.words:
            if word.text in ("$@", "${@}") and not word.known:
                moved.extend(given)
            else:
                moved.append(_moved(word, script_word))
        yield moved, inner
    if not found:
        yield words, None


_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def _with_values(word: Word, environment: dict[str, Word]) -> Word:
    """A word with ``$(NAME)`` put in, where the container's own ``env`` states every name, as Kubernetes does it."""
    names = _REFERENCE.findall(word.text) if "$(" in word.text else []
    if not names or any(name not in environment or not environment[name].known for name in names):
        return word
    text = _REFERENCE.sub(lambda match: environment[match[1]].text, word.text)
    return Word(text, word.raw, word.span, "$" not in text and "{{" not in text, word.quoted)


def _group_size(document: Document, root: Mapping) -> tuple[int, FileOrigin] | None:
    """Pods of one LeaderWorkerSet group: one server spans them."""
    template = at(root, "spec", "leaderWorkerTemplate")
    entry = template.entry("size") if isinstance(template, Mapping) else None
    if entry is None or not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, int):
        return None
    return entry.value.value, FileOrigin(
        document, ("spec", "leaderWorkerTemplate", "size"), entry.key.span, entry.value.span
    )


def _shell_script(texts: list[str]) -> int | None:
    if not texts or texts[0] not in SHELLS:
        return None
    for i, text in enumerate(texts[1:], 1):
        if text.startswith("-") and "c" in text and not text.startswith("--"):
            # bash reads further options first: bash -c -i 'script'
            return next((j for j in range(i + 1, len(texts)) if not texts[j].startswith("-")), None)
        if not text.startswith("-"):
            return None
    return None


def _moved(word: Word, script: Word) -> Word:
    """A word of an inner script at its place in the YAML text, where the text is the same there; else the whole value."""
    from cfglint.source.node import Span

    offset = script.raw.find(word.raw) if word.raw else -1
    if offset >= 0 and script.raw.count(word.raw) == 1:
        start = script.span.start + offset
        return Word(word.text, word.raw, Span(start, start + len(word.raw)), word.known, word.quoted)
    return Word(word.text, word.raw, script.span, word.known, word.quoted)


def words_of(node: Node | None) -> list[Word]:
    """A list of strings, or one string, as words. A string alone is one word for Kubernetes."""
    if isinstance(node, Sequence):
        return [w for item in node.items if (w := _word(item)) is not None]
    word = _word(node)
    return [word] if word else []


def _word(node: Node | None) -> Word | None:
    if not isinstance(node, Scalar) or node.value is None:
        return None
    text = node.value if isinstance(node.value, str) else node.raw
    known = "$(" not in text and "${" not in text and "{{" not in text
    return Word(text, node.raw, node.span, known, node.quoted)


def environment(container: Mapping) -> dict[str, Word]:
    """``env`` entries with a literal value, or a compose ``environment`` mapping or list."""
    found: dict[str, Word] = {}
    env = container.get("env") or container.get("environment")
    if isinstance(env, Sequence):
        for item in env.items:
            if isinstance(item, Mapping):
                name, value = value_at(item, "name"), _word(item.get("value"))
                if isinstance(name, str) and value is not None:
                    found[name] = value
            elif isinstance(item, Scalar) and isinstance(item.value, str):
                name, equals, text = item.value.partition("=")
                if equals:
                    found[name] = Word(text, item.raw, item.span, "$" not in text, item.quoted)
    elif isinstance(env, Mapping):
        for name, entry in env.index.items():
            word = _word(entry.value)
            if word is not None:
                found[name] = word
    return found


def _gpu_count(
    document: Document, route: Route, container: Mapping, key: str = "resources"
) -> tuple[int, FileOrigin] | None:
    for part in ("limits", "requests"):
        resources = at(container, key, part)
        if isinstance(resources, Mapping):
            for name in GPU_RESOURCES:
                entry = resources.entry(name)
                if entry is None or not isinstance(entry.value, Scalar):
                    continue
                count = whole_number(entry.value.value)
                if count is not None:
                    origin = FileOrigin(document, (*route, key, part, name), entry.key.span, entry.value.span)
                    return count, origin
    return None


def _memory_limit(document: Document, route: Route, container: Mapping) -> tuple[int, FileOrigin] | None:
    resources = at(container, "resources", "limits")
    entry = resources.entry("memory") if isinstance(resources, Mapping) else None
    if entry is None or not isinstance(entry.value, Scalar):
        return None
    size = memory_bytes(str(entry.value.value), binary=False)
    if size is None:
        return None
    return size, FileOrigin(document, (*route, "resources", "limits", "memory"), entry.key.span, entry.value.span)


def _gpu_label(document: Document, route: Route, spec: Mapping) -> tuple[str, FileOrigin] | None:
    """The accelerator a node selector or required affinity names, through the catalogue's label table.

    A label that means a slice of a device (MIG, time-slicing) says nothing of a whole accelerator's memory.
    """
    pod = route[:-2]
    selector = spec.get("nodeSelector")
    if isinstance(selector, Mapping):
        for name, entry in selector.index.items():
            if isinstance(entry.value, Scalar):
                gpu = accelerator_label(name, entry.value)
                if gpu is not None:
                    return gpu, FileOrigin(document, (*pod, "nodeSelector", name), entry.key.span, entry.value.span)
    terms = at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    found = [_of_term(term) for term in terms.items] if isinstance(terms, Sequence) else []
    named = {pair[0] for pair in found if pair is not None}
    if len(named) != 1 or None in found:
        return None  # of several nodes a pod may go to, not all are known to have the same accelerator
    first = next(pair for pair in found if pair is not None)
    return first[0], FileOrigin(document, (*pod, "affinity"), first[1].span, first[1].span)


def _of_term(term: Node) -> tuple[str, Node] | None:
    """The accelerator of the nodes that a selector term allows, where all of them have the same."""
    expressions = at(term, "matchExpressions")
    for expression in expressions.items if isinstance(expressions, Sequence) else []:
        values = at(expression, "values")
        if value_at(expression, "operator") != "In" or not isinstance(values, Sequence) or not values.items:
            continue
        key = str(value_at(expression, "key"))
        gpus = {accelerator_label(key, item) if isinstance(item, Scalar) else None for item in values.items}
        gpu = gpus.pop() if len(gpus) == 1 else None
        if gpu is not None:
            return gpu, values.items[0] if len(values.items) == 1 else values
    return None


def accelerator_label(key: str, value: Scalar) -> str | None:
    from cfglint.catalog.labels import read_label

    match = read_label(key, str(value.value))
    return None if match is None or match.share else match.gpu
