"""NVIDIA Dynamo: DynamoGraphDeployment resources, and the service files of its first releases (``VllmWorker: …``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers import kubernetes
from cfglint.dialects.server import value_word, words_for
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Route, Scalar, Sequence, at, value_at
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

SECTION_KEYS: Final = frozenset({"ServiceArgs", "common-configs"})
SECTIONS: Final = frozenset(
    {
        "Common", "Frontend", "Processor", "Router", "VllmWorker", "PrefillWorker", "DecodeWorker", "Planner",
        "SimpleLoadBalancer", "VllmDecodeWorker", "VllmPrefillWorker", "VllmBaseWorker", "TensorRTLLMWorker",
        "TensorRTLLMPrefillWorker", "SGLangWorker", "SGLangDecodeWorker", "SGLangPrefillWorker", "EncodeWorker",
        "KvRouter", "Prefill", "VllmEncodeWorker", "Middle", "Backend",
    }
)  # fmt: skip
OWN_ARGUMENTS: Final = frozenset(
    {
        "ServiceArgs", "common-configs", "router", "remote-prefill", "conditional-disagg", "max-local-prefill-length",
        "max-prefill-queue-size", "endpoint", "num-nodes", "node-rank", "leader-addr", "min-workers", "min-prefill-workers",
        "decode-workers", "namespace", "environment", "no-operation", "engine_args", "prompt-template", "image-token-id",
        "num-patches", "chat-processor", "enable_disagg",
    }
)  # fmt: skip
"""Keys of a worker's section that are Dynamo's own."""
MODEL_KEYS: Final = ("model", "model-path", "model_path")


class DynamoDialect(Dialect):
    name = "dynamo"
    title = "NVIDIA Dynamo"
    kind = "serve"
    wraps = True
    summary = "DynamoGraphDeployment and service files: workers' vLLM, SGLang and TensorRT-LLM arguments, GPUs"
    markers = frozenset({"ServiceArgs", "common-configs", "VllmWorker", "dynamoNamespace"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        api, kind = value_at(root, "apiVersion"), value_at(root, "kind")
        if isinstance(api, str) and api.startswith("nvidia.com/") and str(kind).startswith("Dynamo"):
            return Recognition(90, f"{api} {kind!s}")
        sections = [
            name
            for name, entry in root.index.items()
            if name[:1].isupper() and isinstance(entry.value, Mapping) and set(entry.value.keys()) & SECTION_KEYS
        ]
        known = [
            name
            for name, entry in root.index.items()
            if (name in SECTIONS or (name[:1].isupper() and _engine(name))) and isinstance(entry.value, Mapping)
        ]
        if (sections or len(known) >= 2) and len(known) + len(sections) >= len(root.keys()) / 2:
            return Recognition(85, " + ".join((sections or known)[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="serve")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        services = at(root, "spec", "services")
        if isinstance(services, Mapping):
            yield from _graph(document, root, services)
        elif "apiVersion" not in root:
            yield from _sections(document, root)


def _graph(document: Document, root: Mapping, services: Mapping) -> Iterator[Launch]:
    for name, entry in services.index.items():
        service = entry.value
        container = at(service, "extraPodSpec", "mainContainer")
        if not isinstance(service, Mapping) or not isinstance(container, Mapping):
            continue
        route: Route = ("spec", "services", name, "extraPodSpec", "mainContainer")
        pod = service.get("extraPodSpec")
        assert isinstance(pod, Mapping)
        gpus = _count(document, service, ("spec", "services", name, "resources"))
        nodes = at(service, "multinode")
        size = nodes.entry("nodeCount") if isinstance(nodes, Mapping) else None
        for launch in kubernetes.container_launches(
            document, root, (*route, "containers", 0), pod, container, wrapper="dynamo"
        ):
            launch.name = name
            launch.gpus = gpus or launch.gpus
            if size is not None and isinstance(size.value, Scalar) and isinstance(size.value.value, int):
                launch.nodes = (
                    size.value.value,
                    FileOrigin(document, ("multinode", "nodeCount"), size.key.span, size.value.span),
                )
            yield launch


def _count(document: Document, service: Mapping, route: Route) -> tuple[int, FileOrigin] | None:
    for part in ("limits", "requests"):
        table = at(service, "resources", part)
        entry = table.entry("gpu") if isinstance(table, Mapping) else None
        count = whole_number(entry.value.value) if entry is not None and isinstance(entry.value, Scalar) else None
        if entry is not None and count is not None:
            return count, FileOrigin(document, (*route, part, "gpu"), entry.key.span, entry.value.span)
    return None


def _sections(document: Document, root: Mapping) -> Iterator[Launch]:
    """Workers of a service file: their keys are the engine's arguments, ``common-configs`` names keys of ``Common``."""
    common = root.get("Common")
    engine_of_file = next((e for name in root.keys() if (e := _engine(name))), None)  # noqa: SIM118
    for name, entry in root.index.items():
        section = entry.value
        engine = _engine(name) or (engine_of_file if "Worker" in name else None)
        if not isinstance(section, Mapping) or engine is None:
            continue
        arguments = Mapping(section.span, _own_entries(section))
        present = set(arguments.keys())
        for key in _texts(section.get("common-configs")):
            shared = common.entry(key) if isinstance(common, Mapping) else None
            if shared is not None and key not in present:
                arguments.entries.append(shared)
        arguments = Mapping(section.span, arguments.entries)
        model = next((m for key in MODEL_KEYS if isinstance(m := arguments.get(key), Scalar)), None)
        if model is None or not isinstance(model.value, str):
            continue
        rest = Mapping(section.span, [e for e in arguments.entries if e.name not in MODEL_KEYS])
        words = [*_program(engine, model), *words_for(rest)]
        yield Launch(
            words=words,
            document=document,
            carrier="",
            name=name,
            context={"wrapper": "dynamo"},
            gpus=_service_gpus(document, section, name, words),
        )


def _own_entries(section: Mapping) -> list[Entry]:
    return [e for e in section.index.values() if e.name not in OWN_ARGUMENTS and not isinstance(e.value, Mapping)]


def _program(engine: str, model: Scalar) -> list[Word]:
    span = model.span
    if engine == "vllm":
        return [Word("vllm", "", span), Word("serve", "", span), value_word(model)]
    if engine == "sglang":
        return [Word("sglang", "", span), Word("serve", "", span), Word("--model-path", "", span), value_word(model)]
    return [Word("trtllm-serve", "", span), value_word(model)]


def _engine(section: str) -> str | None:
    name = section.lower()
    if name.startswith("vllm"):
        return "vllm"
    if name.startswith("sglang"):
        return "sglang"
    return "trtllm" if name.startswith(("tensorrtllm", "trtllm")) else None


def _texts(node: Node | None) -> Iterator[str]:
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield item.value


def _service_gpus(document: Document, section: Mapping, name: str, words: list[Word]) -> tuple[int, Any] | None:
    """Devices of one worker process. A worker whose ranks outnumber them is one of several that a Ray cluster joins."""
    resources = at(section, "ServiceArgs", "resources")
    entry = resources.entry("gpu") if isinstance(resources, Mapping) else None
    count = whole_number(entry.value.value) if entry is not None and isinstance(entry.value, Scalar) else None
    if entry is None or count is None:
        return None
    ranks = next((words[i + 1].text for i, w in enumerate(words[:-1]) if w.text == "--tensor-parallel-size"), "1")
    if (whole_number(ranks) or 0) > count:
        return None
    origin = FileOrigin(document, (name, "ServiceArgs", "resources", "gpu"), entry.key.span, entry.value.span)
    return count, origin


DIALECT = DynamoDialect()
