"""A model's ``config.json``: architecture and sizes, its own dtype and quantization.

The sizes themselves are read by :mod:`cfglint.catalog.architecture`; here only what a run takes from it is stated.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.hf_quant_config import quantization_of
from cfglint.dialects.values import FactReader, because, dtype, evidence
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Node, Route, Scalar, Sequence

_SIZES = (
    "hidden_size", "num_hidden_layers", "n_embd", "n_layer", "d_model", "num_layers", "n_layers", "dim", "vocab_size",
    "num_attention_heads", "n_head", "n_heads", "intermediate_size", "encoder_layers", "decoder_layers", "projection_dim",
)  # fmt: skip
_SAVED = (
    "transformers_version",
    "initializer_range",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "max_position_embeddings",
)
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "vision_config", "decoder", "encoder")


def _texts(node: Node | None) -> bool:
    return isinstance(node, Sequence) and any(isinstance(i, Scalar) and isinstance(i.value, str) for i in node.items)


def _sizes(root: Mapping) -> list[str]:
    found = evidence(root, _SIZES)
    if found:
        return found
    for key in _NESTED:
        inner = root.get(key)
        if isinstance(inner, Mapping) and ("model_type" in inner or evidence(inner, _SIZES)):
            return [key]
    return []


def read_model_config(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    """A reading of a model configuration, wherever in a document it stands."""
    reading = Reading("hf-model-config", document, root, role="model", kind="both", base=base, why=why)
    facts = FactReader(reading)
    for route in (("dtype",), ("torch_dtype",), *((key, name) for key in _NESTED for name in ("dtype", "torch_dtype"))):
        native = dtype(facts.value(*route))
        if native is not None:
            reading.context["native_dtype"] = native
            break
    for key in ("quantization_config", "compression_config"):
        for prefix in ((), ("text_config",)):
            found = quantization_of(facts.under(*prefix, key)) if facts.mapping(*prefix, key) is not None else None
            if found is not None:
                facts.state("quantization", found[0], *prefix, key, *found[1])
                return reading
    return reading


_TELLING = (
    "quantization_config", "rope_scaling", "rope_parameters", "text_config", "llm_config", "auto_map", "num_attention_heads",
    "num_hidden_layers", "vocab_size", "layer_types",
)  # fmt: skip
"""Keys that tell an excerpt of a model's config from another tool's file of that name."""


class HfModelConfig(Dialect):
    name = "hf-model-config"
    title = "Hugging Face config.json"
    kind = "both"
    summary = "A model's config.json: architecture, sizes, dtype, quantization"
    schema = "hf-model-config"
    markers = frozenset({
        "architectures", "model_type", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "intermediate_size", "max_position_embeddings", "rms_norm_eps", "transformers_version", "torch_dtype",
        "tie_word_embeddings", "hidden_act", "initializer_range", "rope_theta",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        model_type = root.get("model_type")
        named = isinstance(model_type, Scalar) and isinstance(model_type.value, str)
        architectures = _texts(root.get("architectures"))
        sizes = _sizes(root)
        if architectures and (named or sizes):
            return Recognition(90, because(["architectures", *(["model_type"] if named else []), *sizes[:1]]))
        if named and len(sizes) >= 2:
            return Recognition(80, because(["model_type", *sizes[:2]]))
        # an excerpt, or a patch over another config
        if named and "max_position_embeddings" in root and document.file.format == "json":
            return Recognition(60, because(["model_type", "max_position_embeddings"]))
        told = evidence(root, _TELLING)
        if named and told and document.path.rsplit("/", 1)[-1] == "config.json":
            return Recognition(60, because(["model_type", *told[:1]]))
        # configs saved before transformers 3 name neither
        if len(sizes) >= 3 and "vocab_size" in root and evidence(root, _SAVED) and document.file.format == "json":
            return Recognition(70, because([*sizes[:2], *evidence(root, _SAVED, most=1)]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_model_config(document, root)


DIALECT = HfModelConfig()
