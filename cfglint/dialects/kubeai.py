"""KubeAI: ``kind: Model`` and the values of its models chart; each stands for one server's command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.kubernetes import environment, words_of
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Mapping, Scalar, at, value_at
from cfglint.source.shell import Word
from cfglint.source.whole_number import whole_number

ENGINES: Final = frozenset({"VLLM", "OLlama", "FasterWhisper", "Infinity"})
PROFILE: Final = {
    "nvidia-gpu-l4": "L4", "nvidia-gpu-h100": "H100", "nvidia-gpu-a100-80gb": "A100-80GB",
    "nvidia-gpu-a100-40gb": "A100-40GB", "nvidia-gpu-a16": "A16", "nvidia-gpu-t4": "T4", "nvidia-gpu-l40s": "L40S",
    "amd-gpu-mi300x": "MI300X", "nvidia-gpu-gh200": "GH200", "nvidia-gpu-rtx4070-8gb": "RTX4070",
}  # fmt: skip
"""Resource profiles of the chart's values (charts/kubeai/values*.yaml)."""


class KubeAiDialect(Dialect):
    name = "kubeai"
    title = "KubeAI"
    kind = "serve"
    wraps = True
    summary = "`kind: Model` and the models chart's values: vLLM's arguments, resource profiles"

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        api = value_at(root, "apiVersion")
        if isinstance(api, str) and api.startswith("kubeai.org/"):
            return Recognition(90, f"{api} {value_at(root, 'kind')!s}")
        catalog = root.get("catalog")
        if isinstance(catalog, Mapping) and any(_is_model(e.value) for e in catalog.index.values()):
            return Recognition(85, "catalog of models with engine and resourceProfile")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="serve")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        spec = root.get("spec")
        if isinstance(spec, Mapping) and value_at(root, "kind") == "Model":
            yield from _launch(document, spec, ("spec",), str(value_at(root, "metadata", "name") or ""), "kubernetes")
        catalog = root.get("catalog")
        for name, entry in (catalog.index if isinstance(catalog, Mapping) else {}).items():
            if isinstance(entry.value, Mapping):
                yield from _launch(document, entry.value, ("catalog", name), name, "helm")


def _is_model(node: object) -> bool:
    return isinstance(node, Mapping) and value_at(node, "engine") in ENGINES and "url" in node


def _launch(document: Document, spec: Mapping, route: tuple[str, ...], name: str, carrier: str) -> Iterator[Launch]:
    engine, url = spec.get("engine"), spec.get("url")
    if not isinstance(engine, Scalar) or engine.value != "VLLM" or not isinstance(url, Scalar):
        return
    scheme, _, target = str(url.value).partition("://")
    model = target.split("?")[0] if scheme == "hf" else f"/models/{target}"
    words = [
        Word("vllm", engine.raw, engine.span),
        Word("serve", engine.raw, engine.span),
        Word(model, url.raw, url.span, scheme == "hf"),
        *words_of(spec.get("args")),
    ]
    gpu, gpus = None, None
    profile = spec.entry("resourceProfile")
    if profile is not None and isinstance(profile.value, Scalar):
        kind, _, count = str(profile.value.value).partition(":")
        origin = FileOrigin(document, (*route, "resourceProfile"), profile.key.span, profile.value.span)
        known = PROFILE.get(kind.lower())
        gpu = (known, origin) if known else None
        devices = whole_number(count or "1")
        gpus = (devices, origin) if "gpu" in kind and devices is not None else None
    image = at(spec, "image")
    yield Launch(
        words=words,
        document=document,
        carrier=carrier,
        environment=environment(spec),
        image=Word(str(image.value), image.raw, image.span) if isinstance(image, Scalar) and image.value else None,
        name=name,
        context={"wrapper": "kubeai"},
        gpu=gpu,
        gpus=gpus,
    )


DIALECT = KubeAiDialect()
