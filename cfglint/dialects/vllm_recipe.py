"""vLLM recipes (vllm-project/recipes): a model with its variants, each of which stands for one ``vllm serve`` command."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.kubernetes import words_of
from cfglint.dialects.server import value_word
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Scalar, at, value_at
from cfglint.source.shell import Word


class VllmRecipeDialect(Dialect):
    name = "vllm-recipe"
    title = "vLLM recipes"
    kind = "serve"
    wraps = True
    summary = "a recipe's variants: model, vLLM's arguments and environment"
    markers = frozenset({"min_vllm_version", "vram_minimum_gb", "compatible_strategies", "hardware_overrides"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if isinstance(value_at(root, "model", "model_id"), str) and isinstance(root.get("variants"), Mapping):
            return Recognition(90, "model.model_id + variants")
        if "vllm_args" in root and "hardware_match" in root:
            return Recognition(90, "vllm_args + hardware_match")
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="serve")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        model, variants = at(root, "model", "model_id"), root.get("variants")
        if not isinstance(model, Scalar) or not isinstance(variants, Mapping):
            return
        base = words_of(at(root, "model", "base_args"))
        for name, entry in variants.index.items():
            variant = entry.value
            if not isinstance(variant, Mapping):
                continue
            own = variant.get("model_id")
            served = own if isinstance(own, Scalar) and own.value else model
            words = [
                Word("vllm", "", served.span),
                Word("serve", "", served.span),
                value_word(served),
                *base,
                *words_of(variant.get("extra_args")),
            ]
            environment = {
                variable: value_word(value.value)
                for table in (at(root, "model", "base_env"), variant.get("extra_env"))
                for variable, value in (table.index if isinstance(table, Mapping) else {}).items()
                if isinstance(value.value, Scalar)
            }
            yield Launch(
                words=words, document=document, carrier="", environment=environment, name=name,
                context={"wrapper": "vllm-recipe"},
            )  # fmt: skip


DIALECT = VllmRecipeDialect()
