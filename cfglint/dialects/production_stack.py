"""Helm values that stand for vLLM servers: the production stack's chart, its operator's ``VLLMRuntime``, vLLM's own chart.

Each entry of ``modelSpec`` becomes the command line that the chart's template makes of it
(production-stack, helm/templates/deployment-vllm-multi.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.kubernetes import environment, words_of
from cfglint.dialects.carriers.shell import memory_bytes
from cfglint.dialects.server import value_word, words_for
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Mapping, Node, Route, Scalar, Sequence, at, value_at
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

CHART_KEYS: Final = frozenset({"servingEngineSpec", "routerSpec", "cacheserverSpec", "loraController", "sharedStorage"})
NOT_ARGUMENTS: Final = frozenset(
    {
        "extraArgs", "v0", "v1", "env", "port", "toolCallParser", "enableTool", "enableLoRA", "runnerType", "convert",
        "pooler_config", "headless", "enableTorchProfiler",
    }
)  # fmt: skip
"""Keys of ``vllmConfig`` that the template does not pass on as an argument of the same name."""
RENAMED: Final = {"maxLoras": "--max-loras", "gpuMemoryUtilization": "--gpu-memory-utilization"}


class ProductionStackDialect(Dialect):
    name = "production-stack"
    title = "vLLM production stack"
    kind = "serve"
    wraps = True
    summary = (
        "values of the production stack's Helm chart and of vLLM's own, `VLLMRuntime`: vLLM's arguments and resources"
    )
    markers = frozenset({"servingEngineSpec", "modelSpec", "vllmConfig", "requestGPU"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "suite" in root and "tests" in root:
            return None  # helm-unittest
        api = value_at(root, "apiVersion")
        if isinstance(api, str) and api.startswith("production-stack.vllm.ai/"):
            return Recognition(90, f"{api} {value_at(root, 'kind')!s}")
        if isinstance(root.get("servingEngineSpec"), Mapping):
            return Recognition(90, "servingEngineSpec")
        if root.keys() and set(root.keys()) <= CHART_KEYS and isinstance(root.get("routerSpec"), Mapping):
            return Recognition(60, "routerSpec")
        command = at(root, "image", "command")
        if value_at(root, "image", "repository") and any(w.text == "vllm" for w in words_of(command)[:2]):
            return Recognition(80, "image.command starts vllm")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        carrier = "kubernetes" if "apiVersion" in root else "helm"
        yield Reading("vllm", document, root, role="carrier", kind="serve", carrier=carrier)

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        models = at(root, "servingEngineSpec", "modelSpec")
        ray = at(root, "servingEngineSpec", "raySpec") is not None
        for i, model in enumerate(models.items if isinstance(models, Sequence) else ()):
            if isinstance(model, Mapping):
                yield from _model(document, model, ("servingEngineSpec", "modelSpec", i), ray)
        spec = root.get("spec")
        if isinstance(spec, Mapping) and value_at(root, "kind") == "VLLMRuntime":
            yield from _runtime(document, root, spec)
        command = words_of(at(root, "image", "command"))
        if command:
            yield from _own_chart(document, root, command)


def _model(document: Document, model: Mapping, route: Route, ray: bool) -> Iterator[Launch]:
    url = model.get("modelURL")
    if not isinstance(url, Scalar) or not isinstance(url.value, str):
        return
    words = [Word("vllm", url.raw, url.span), Word("serve", url.raw, url.span), value_word(url)]
    settings = model.get("vllmConfig")
    if isinstance(settings, Mapping):
        words += _settings(settings)
    if value_at(model, "enableTool") is True:
        words += _settings(model, only=("enableTool", "toolCallParser"))
    tag = model.get("tag")
    repository = value_at(model, "repository")
    image = None
    if isinstance(repository, str) and isinstance(tag, Scalar):
        image = Word(f"{repository}:{tag.value!s}", tag.raw, tag.span)
    limit = model.entry("limitMemory")
    yield Launch(
        words=words,
        document=document,
        carrier="helm",
        environment=_environment(model),
        image=image,
        name=str(value_at(model, "name") or ""),
        context={"wrapper": "production-stack", "values": model},
        gpu=_node_label(document, model, route),
        gpus=None if _shares(model) else _count(document, model, "requestGPU", route),
        nodes=_pipeline_nodes(document, model, route) if ray or "raySpec" in model else None,
        host_memory=_memory(document, limit, route),
    )


def _settings(settings: Mapping, only: tuple[str, ...] = ()) -> list[Word]:
    """The arguments the template makes of its keys: camel case to dashes, ``extraArgs`` as they are."""
    kept = Mapping(settings.span, [])
    extra: list[Word] = []
    for name, entry in settings.index.items():
        if only and name not in only:
            continue
        if name == "extraArgs":
            extra = words_of(entry.value)
        elif name == "enableTool" and only:
            extra.append(Word("--enable-auto-tool-choice", entry.key.raw, entry.key.span))
        elif name == "toolCallParser" and only and isinstance(entry.value, Scalar) and entry.value.value:
            extra += [Word("--tool-call-parser", entry.key.raw, entry.key.span), value_word(entry.value)]
        elif name not in NOT_ARGUMENTS and not _empty(entry.value):
            kept.entries.append(entry)
    return [*words_for(kept, name=flag), *extra]


def _empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value in (None, "")


def flag(key: str) -> str:
    """``maxModelLen`` → ``--max-model-len``."""
    return RENAMED.get(key) or "--" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", key).lower().replace("_", "-")


def _runtime(document: Document, root: Mapping, spec: Mapping) -> Iterator[Launch]:
    """The operator's resource, in the layouts of its two versions (arguments nested, or beside ``model``)."""
    model = spec.get("model")
    url = model.get("modelURL") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(url, Scalar) or not isinstance(url.value, str):
        return
    words = [Word("vllm", url.raw, url.span), Word("serve", url.raw, url.span), value_word(url)]
    settings = spec.get("vllmConfig")
    beside = settings if isinstance(settings, Mapping) else spec
    for table, names in (
        (model, ("maxModelLen", "dtype", "maxNumSeqs")),
        (
            beside,
            (
                "tensorParallelSize",
                "gpuMemoryUtilization",
                "maxLoras",
                "enableChunkedPrefill",
                "enablePrefixCaching",
                "extraArgs",
            ),
        ),
    ):
        chosen = Mapping(table.span, [e for name, e in table.index.items() if name in names])
        words += _settings(chosen)
    if value_at(model, "enableLoRA") is True:
        entry = model.entry("enableLoRA")
        assert entry is not None
        words.append(Word("--enable-lora", entry.key.raw, entry.key.span))
    deployment = spec.get("deploymentConfig")
    place = deployment if isinstance(deployment, Mapping) else spec
    where: Route = ("spec", "deploymentConfig") if place is deployment else ("spec",)
    image = at(place, "image", "name")
    resources = place.get("resources")
    yield Launch(
        words=words,
        document=document,
        carrier="kubernetes",
        environment=_runtime_environment(model, spec, beside),
        image=value_word(image) if isinstance(image, Scalar) else None,
        name=str(value_at(root, "metadata", "name") or ""),
        context={"wrapper": "production-stack", "manifest": root, "kind": "VLLMRuntime"},
        gpus=_count(document, resources, "gpu", (*where, "resources")),
    )


def _runtime_environment(model: Mapping, spec: Mapping, beside: Mapping) -> dict[str, Word]:
    found = environment(beside)
    for table in (model, spec):
        secret = table.entry("hfTokenSecret")
        if secret is not None:
            found["HF_TOKEN"] = Word("$(HF_TOKEN)", "", secret.key.span, False)
    return found


def _own_chart(document: Document, root: Mapping, command: list[Word]) -> Iterator[Launch]:
    """vLLM's ``examples/online_serving/chart-helm``: the command stands in ``image.command``."""
    repository, tag = value_at(root, "image", "repository"), at(root, "image", "tag")
    image = None
    if isinstance(repository, str) and isinstance(tag, Scalar):
        image = Word(f"{repository}:{tag.value!s}", tag.raw, tag.span)
    limits = at(root, "resources", "limits")
    memory = limits.entry("memory") if isinstance(limits, Mapping) else None
    yield Launch(
        words=command,
        document=document,
        carrier="helm",
        environment=environment(root),
        image=image,
        context={"values": root},
        gpus=_count(document, limits, "nvidia.com/gpu", ("resources", "limits")),
        host_memory=_memory(document, memory, ("resources", "limits")),
    )


def _environment(model: Mapping) -> dict[str, Word]:
    found = environment(model)
    token = at(model, "hf_token")
    if isinstance(token, Scalar) and token.value:
        found["HF_TOKEN"] = value_word(token)
    elif isinstance(token, Mapping):
        found["HF_TOKEN"] = Word("$(HF_TOKEN)", "", token.span, False)
    return found


def _count(document: Document, table: Node | None, key: str, route: Route) -> tuple[int, FileOrigin] | None:
    entry = table.entry(key) if isinstance(table, Mapping) else None
    count = whole_number(entry.value.value) if entry is not None and isinstance(entry.value, Scalar) else None
    if entry is None or not count:
        return None
    return count, FileOrigin(document, (*route, key), entry.key.span, entry.value.span)


def _memory(document: Document, entry: Any, route: Route) -> tuple[int, FileOrigin] | None:
    if entry is None or not isinstance(entry.value, Scalar):
        return None
    size = memory_bytes(str(entry.value.value or ""), binary=False)
    if size is None:
        return None
    return size, FileOrigin(document, (*route, str(entry.name)), entry.key.span, entry.value.span)


def _shares(model: Mapping) -> bool:
    """Whether what is requested are parts of accelerators (MIG, HAMi), or resources of another name."""
    kind = value_at(model, "requestGPUType")
    return isinstance(kind, str) and kind not in ("", "nvidia.com/gpu", "amd.com/gpu")


def _pipeline_nodes(document: Document, model: Mapping, route: Route) -> tuple[int, FileOrigin] | None:
    """``raySpec`` makes a Ray cluster: one pod for each pipeline stage."""
    return _count(document, at(model, "vllmConfig"), "pipelineParallelSize", (*route, "vllmConfig"))


def _node_label(document: Document, model: Mapping, route: Route) -> tuple[str, FileOrigin] | None:
    from cfglint.dialects.carriers.kubernetes import accelerator_label

    selector = model.get("nodeSelectorTerms")
    labels = (
        at(selector, 0, "matchExpressions") if isinstance(selector, Sequence) and len(selector.items) == 1 else None
    )
    for expression in labels.items if isinstance(labels, Sequence) else ():
        values = at(expression, "values")
        if isinstance(values, Sequence) and len(values.items) == 1 and value_at(expression, "operator") == "In":
            value = values.items[0]
            if isinstance(value, Scalar):
                gpu = accelerator_label(str(value_at(expression, "key")), value)
                if gpu is not None:
                    return gpu, FileOrigin(document, (*route, "nodeSelectorTerms"), value.span, value.span)
    return None


DIALECT = ProductionStackDialect()
