"""Ray Serve LLM (``LLMConfig`` in Serve configs and RayService resources) and its forerunner ray-llm's model files.

``engine_kwargs`` are Python keyword arguments of vLLM's engine: each becomes the argument of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.server import value_word, words_for
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Scalar, Sequence, Span, at, value_at
from cfglint.source.shell import Word

LLM_CONFIG: Final = frozenset({"model_loading_config", "engine_kwargs", "accelerator_type", "llm_engine"})
RAY_LLM: Final = frozenset({"deployment_config", "scaling_config"})
BUILDERS: Final = ("ray.serve.llm", "ray.llm", "rayllm", "aviary", "vllm_app", "serve_llm")
ACCELERATORS: Final = {
    "accelerator_type_a10": "A10G",
    "accelerator_type_a100_40g": "A100-40GB",
    "accelerator_type_a100_80g": "A100-80GB",
    "accelerator_type_a100": "A100",
    "accelerator_type_l4": "L4",
    "accelerator_type_t4": "T4",
    "accelerator_type_v100": "V100",
    "accelerator_type_h100": "H100",
}
"""Custom resources by which ray-llm's clusters named their accelerators."""

Place = Callable[[Span], Span]


class RayServeLlmDialect(Dialect):
    name = "ray-serve-llm"
    title = "Ray Serve LLM"
    kind = "serve"
    wraps = True
    summary = (
        "`llm_configs` of Serve configs and RayService, ray-llm model files: vLLM's engine arguments, accelerators"
    )
    markers = frozenset({"model_loading_config", "engine_kwargs", "llm_configs", "num_gpus_per_worker"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        keys = set(root.keys())
        if keys >= RAY_LLM and keys & {"engine_config", "model_config"}:
            return Recognition(90, " + ".join(sorted(keys & {"engine_config", "model_config"} | RAY_LLM)))
        if "model_loading_config" in keys or len(keys & LLM_CONFIG) >= 2:
            return Recognition(88, " + ".join(sorted(keys & LLM_CONFIG)))
        if isinstance(root.get("llm_configs"), Sequence):
            return Recognition(88, "llm_configs")
        if value_at(root, "kind") == "RayService" and isinstance(at(root, "spec", "serveConfigV2"), Scalar):
            text = str(value_at(root, "spec", "serveConfigV2"))
            if "llm_configs" in text or "vllm" in text.lower() or any(name in text for name in BUILDERS[:4]):
                return Recognition(90, "RayService with LLM applications")
        inner = root.get("ray_serve_config")
        for holder in (root, inner if isinstance(inner, Mapping) else root):
            if any(_llm_application(application) for application in _items(holder.get("applications"))):
                return Recognition(88, "applications that serve LLMs")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="serve")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        config = at(root, "spec", "serveConfigV2")
        if isinstance(config, Scalar) and isinstance(config.value, str):
            yield from _embedded(document, config, config.value)
            return
        yield from _configs(document, root, lambda span: span)


def _items(node: Node | None) -> Iterator[Mapping]:
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Mapping):
            yield item


def _llm_application(application: Mapping) -> bool:
    path = value_at(application, "import_path")
    if isinstance(path, str) and path.startswith(BUILDERS[:4]):
        return True
    return at(application, "args", "llm_configs") is not None


def _embedded(document: Document, scalar: Scalar, text: str) -> Iterator[Launch]:
    """The Serve config that a RayService holds as text."""
    from cfglint.dialects.carriers.embedded import offsets_of
    from cfglint.source.yaml import parse_yaml

    inner = parse_yaml("", text)
    offsets = offsets_of(document, scalar, text)

    def place(span: Span) -> Span:
        if not offsets or span.start >= len(offsets):
            return scalar.span
        return Span(offsets[span.start], offsets[min(max(span.end - 1, span.start), len(offsets) - 1)] + 1)

    for found in inner.documents:
        if isinstance(found.root, Mapping):
            yield from _configs(document, found.root, place)


def _configs(document: Document, root: Mapping, place: Place) -> Iterator[Launch]:
    if "engine_config" in root and "scaling_config" in root:
        yield from _ray_llm(document, root)
    elif "model_loading_config" in root or len(set(root.keys()) & LLM_CONFIG) >= 2:
        yield from _llm_config(document, root, place)
    for config in _items(root.get("llm_configs")):
        yield from _llm_config(document, config, place)
    for application in _items(root.get("applications")):
        for config in _items(at(application, "args", "llm_configs")):
            yield from _llm_config(document, config, place)
        for key in ("prefill_config", "decode_config"):
            part = at(application, "args", key)
            if isinstance(part, Mapping):
                yield from _llm_config(document, part, place)


def _llm_config(document: Document, config: Mapping, place: Place) -> Iterator[Launch]:
    engine = value_at(config, "llm_engine")
    if isinstance(engine, str) and engine.lower() != "vllm":
        return
    loading = config.get("model_loading_config")
    model = at(loading, "model_source")
    if not isinstance(model, Scalar):
        bucket = isinstance(model, Mapping)
        model = at(loading, "model_id")
        if not isinstance(model, Scalar) or (bucket and "/" not in str(model.value)):
            model = None
    if not isinstance(model, Scalar) or not isinstance(model.value, str):
        return
    context: dict[str, Any] = {"wrapper": "ray-serve-llm", "llm_config": config, "place": place}
    gpu = None
    kind = config.entry("accelerator_type")
    if kind is not None and isinstance(kind.value, Scalar) and isinstance(kind.value.value, str):
        from cfglint.catalog.labels import RAY, read_label

        match = read_label(RAY, kind.value.value)
        origin = FileOrigin(document, ("accelerator_type",), place(kind.key.span), place(kind.value.span))
        gpu = (match.gpu, origin) if match is not None and not match.share else (kind.value.value, origin)
    yield _launch(document, model, config.get("engine_kwargs"), context, place, gpu=gpu, environment=_variables(config))


def _ray_llm(document: Document, root: Mapping) -> Iterator[Launch]:
    engine = root.get("engine_config")
    scaling = root.get("scaling_config")
    if not isinstance(engine, Mapping) or value_at(engine, "type") not in (None, "VLLMEngine"):
        return
    model = engine.get("hf_model_id") or engine.get("model_id")
    if not isinstance(model, Scalar) or not isinstance(model.value, str):
        return
    arguments = engine.get("engine_kwargs")
    entries = list(arguments.entries) if isinstance(arguments, Mapping) else []
    given = {entry.name for entry in entries}
    length = engine.entry("max_total_tokens")
    if length is not None and "max_model_len" not in given:
        entries.append(Entry(Scalar(length.key.span, "max_model_len", length.key.raw), length.value))
    workers = scaling.entry("num_workers") if isinstance(scaling, Mapping) else None
    each = value_at(scaling, "num_gpus_per_worker")
    gpus = None
    if workers is not None and isinstance(workers.value, Scalar) and isinstance(workers.value.value, int):
        count = workers.value.value
        if "tensor_parallel_size" not in given:  # ray-llm starts as many workers as it is told to
            entries.append(Entry(Scalar(workers.key.span, "tensor_parallel_size", workers.key.raw), workers.value))
        if isinstance(each, int) and not isinstance(each, bool) and each > 0:
            origin = FileOrigin(document, ("scaling_config", "num_workers"), workers.key.span, workers.value.span)
            gpus = (count * each, origin)
    gpu = None
    resources = at(scaling, "resources_per_worker")
    for name, entry in (resources.index if isinstance(resources, Mapping) else {}).items():
        known = ACCELERATORS.get(name)
        if known is not None:
            gpu = (
                known,
                FileOrigin(
                    document, ("scaling_config", "resources_per_worker", name), entry.key.span, entry.value.span
                ),
            )
    kept = Mapping(engine.span, entries)
    yield _launch(document, model, kept, {"wrapper": "ray-llm"}, lambda span: span, gpu=gpu, gpus=gpus)


def _launch(
    document: Document,
    model: Scalar,
    arguments: Node | None,
    context: dict[str, Any],
    place: Place,
    gpu: tuple[str, FileOrigin] | None = None,
    gpus: tuple[int, FileOrigin] | None = None,
    environment: dict[str, Word] | None = None,
) -> Launch:
    start = Span(model.span.start, model.span.start + 1)
    words = [Word("vllm", "", start), Word("serve", "", start), value_word(model)]
    if isinstance(arguments, Mapping):
        words += words_for(arguments)
    return Launch(
        words=[replace(word, span=place(word.span)) for word in words],
        document=document,
        carrier="kubernetes" if "apiVersion" in (document.root or Mapping(start)) else "",  # type: ignore[operator]
        environment=environment or {},
        context=context,
        gpu=gpu,
        gpus=gpus,
        name=model.value if isinstance(model.value, str) else "",
    )


def _variables(config: Mapping) -> dict[str, Word]:
    table = at(config, "runtime_env", "env_vars")
    found = {}
    for name, entry in (table.index if isinstance(table, Mapping) else {}).items():
        if isinstance(entry.value, Scalar) and entry.value.value is not None:
            found[name] = value_word(entry.value)
    return found


DIALECT = RayServeLlmDialect()
