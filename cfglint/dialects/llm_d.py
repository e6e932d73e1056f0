"""llm-d: values of its modelservice chart; decode and prefill pods, and the command the chart makes for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers import kubernetes
from cfglint.dialects.carriers.kubernetes import words_of
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Scalar, Sequence, at, value_at
from cfglint.source.shell import Word

ROLES: Final = ("decode", "prefill")
PARALLELISM: Final = {"tensor": "--tensor-parallel-size", "data": "--data-parallel-size"}
SERVE: Final = "vllmServe"
"""``modelCommand`` for which the chart writes ``vllm serve MODEL`` before the container's own args."""


class LlmDDialect(Dialect):
    name = "llm-d"
    title = "llm-d modelservice"
    kind = "serve"
    wraps = True
    summary = (
        "values of the modelservice chart: decode and prefill containers, vLLM's arguments, parallelism, resources"
    )
    markers = frozenset({"modelArtifacts", "modelCommand", "routingProxy"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if isinstance(root.get("modelArtifacts"), Mapping) and any(isinstance(root.get(r), Mapping) for r in ROLES):
            return Recognition(90, "modelArtifacts + decode or prefill")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading("vllm", document, root, role="carrier", kind="serve", carrier="helm")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        uri = at(root, "modelArtifacts", "uri")
        for role in ROLES:
            spec = root.get(role)
            if not isinstance(spec, Mapping) or value_at(spec, "create") is False or value_at(spec, "enabled") is False:
                continue
            containers = spec.get("containers")
            for i, container in enumerate(containers.items if isinstance(containers, Sequence) else ()):
                if isinstance(container, Mapping):
                    command = _command(container, uri, spec)
                    place = (role, "containers", i)
                    for launch in kubernetes.container_launches(document, root, place, spec, command, wrapper="llm-d"):
                        launch.carrier = "helm"
                        launch.name = role
                        yield launch


def _command(container: Mapping, uri: Node | None, spec: Mapping) -> Mapping:
    """The container with the command that ``modelCommand`` stands for."""
    kind = container.get("modelCommand")
    if not isinstance(kind, Scalar) or kind.value != SERVE or not isinstance(uri, Scalar):
        return container
    scheme, _, target = str(uri.value).partition("://")
    model = target if scheme == "hf" else "$(MODEL)"
    words = [Word("vllm", "", kind.span), Word("serve", "", kind.span), Word(model, uri.raw, uri.span)]
    stated = {word.text.partition("=")[0] for word in words_of(container.get("args"))}
    parallelism = spec.get("parallelism")
    for name, flag in PARALLELISM.items():
        entry = parallelism.entry(name) if isinstance(parallelism, Mapping) else None
        if entry is not None and isinstance(entry.value, Scalar) and entry.value.value and flag not in stated:
            words += [
                Word(flag, entry.key.raw, entry.key.span),
                Word(str(entry.value.value), entry.value.raw, entry.value.span),
            ]
    items: list[Node] = [Scalar(w.span, w.text, w.raw) for w in words]
    kept = [e for e in container.entries if e.name != "command"]
    return Mapping(container.span, [*kept, Entry(Scalar(kind.span, "command", "command"), Sequence(kind.span, items))])


DIALECT = LlmDDialect()
