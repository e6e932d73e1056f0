"""Quantization configs of checkpoints: ``quantization_config`` in a config.json, and the files that stand beside one.

``quantize_config.json`` (GPTQ, AWQ), ``hf_quant_config.json`` (NVIDIA ModelOpt), a saved ``BitsAndBytesConfig``.

Names: transformers/utils/quantization_config.py; modelopt's export of ``quant_algo``.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.values import FactReader, because, evidence, integer, text
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Route, Scalar

_ALGORITHMS = {
    "fp8": "fp8", "fp8_pb_wo": "fp8", "fp8_pb_real": "fp8", "fp8_per_channel_per_token": "fp8", "fp8_block_scales": "fp8",
    "nvfp4": "nvfp4", "nvfp4_awq": "nvfp4", "w4a16_nvfp4": "nvfp4", "mxfp8": "mxfp8", "mxfp4": "mxfp4",
    "w4a8_mxfp4_fp8": "mxfp4", "w4a16_mxfp4": "mxfp4", "w4a16_awq": "awq-int4", "w4a8_awq": "awq-int4",
    "w4a16": "gptq-int4", "w4a16_gptq": "gptq-int4", "w8a16": "int8", "w8a16_gptq": "gptq-int8", "w8a8_sq": "int8",
    "int8_sq": "int8", "w8a8_sq_per_channel": "int8", "int8": "int8",
}  # fmt: skip
"""ModelOpt's and TensorRT-LLM's ``quant_algo`` to the stored form of the weights."""

_METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4", "finegrained_fp8": "fp8"}
"""``quant_method`` values that fix the stored form alone."""

_STANDALONE = ("quant_method", "bits", "w_bit", "group_size", "q_group_size", "desc_act", "zero_point", "load_in_4bit",
               "load_in_8bit", "bnb_4bit_quant_type", "damp_percent", "true_sequential", "version", "sym")  # fmt: skip

_ELSEWHERE = frozenset({
    "model_type", "architectures", "model_name_or_path", "model_name", "model_id", "base_model", "output_dir",
    "per_device_train_batch_size", "learning_rate",
})  # fmt: skip
"""Keys of files that hold more than how weights are stored: a model's config, a trainer's arguments."""

_BITSANDBYTES = ("bnb_4bit_", "load_in_", "llm_int8_")


def quantization_of(facts: FactReader) -> tuple[str, Route] | None:
    """The stored form of the weights and the key that decides it; None where it cannot be told."""
    method = (text(facts.value("quant_method")) or "").strip().lower()
    for key in ("quant_algo", "quantization"):
        algorithm = text(facts.value(key))
        if algorithm is not None and algorithm.strip().lower() in _ALGORITHMS:
            return _ALGORITHMS[algorithm.strip().lower()], (key,)
    if method in _METHODS:
        return _METHODS[method], ("quant_method",)
    if method in ("", "bitsandbytes"):
        if facts.on("load_in_4bit") or facts.on("_load_in_4bit"):
            kind = (text(facts.value("bnb_4bit_quant_type")) or "fp4").strip().lower()
            route: Route = ("load_in_4bit",) if facts.given("load_in_4bit") else ("_load_in_4bit",)
            nested = facts.on("bnb_4bit_use_double_quant")
            return ("nf4-double" if nested else "nf4") if kind == "nf4" else "fp4", route
        if facts.on("load_in_8bit") or facts.on("_load_in_8bit"):
            return "int8", ("load_in_8bit",) if facts.given("load_in_8bit") else ("_load_in_8bit",)
    if method in ("compressed-tensors", "compressed_tensors", "modelopt"):
        return _compressed(facts)
    for key in ("bits", "w_bit"):
        bits = integer(facts.value(key))
        if bits is not None and 1 < bits <= 8:
            family = "awq" if method == "awq" or key == "w_bit" or facts.given("zero_point") else "gptq"
            if method in ("", "gptq", "awq", "gptqmodel", "auto-round", "autoround", "intel/auto-round"):
                return f"{family}-int{bits}", (key,)
    return None


def _compressed(facts: FactReader) -> tuple[str, Route] | None:
    """compressed-tensors: the weights of the first group with a number of bits speak for all."""
    groups = facts.mapping("config_groups")
    for name in groups.index if groups is not None else ():
        weights: Route = ("config_groups", name, "weights")
        bits, kind = integer(facts.value(*weights, "num_bits")), text(facts.value(*weights, "type"))
        if bits is None:
            continue
        route = (*weights, "num_bits")
        if kind == "float":
            group = integer(facts.value(*weights, "group_size"))
            word = {8: "fp8", 4: "mxfp4" if group == 32 else "nvfp4"}.get(bits)
            return (word, route) if word else None
        return ("int8" if bits == 8 else f"gptq-int{bits}"), route
    return None


def read_quantization(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    reading = Reading("hf-quant-config", document, root, role="model", kind="both", base=base, why=why)
    facts = FactReader(reading)
    # ModelOpt nests its settings in one more mapping
    inner = facts.under("quantization") if facts.mapping("quantization") is not None else facts
    found = quantization_of(inner)
    if found is not None:
        inner.state("quantization", found[0], *found[1])
    return reading


class HfQuantConfig(Dialect):
    name = "hf-quant-config"
    title = "Quantization config"
    kind = "both"
    summary = "Quantization settings beside a checkpoint: GPTQ, AWQ, bitsandbytes, ModelOpt"
    schema = "hf-quant-config"
    markers = frozenset({"quant_algo", "kv_cache_quant_algo", "quant_method", "desc_act", "damp_percent", "w_bit",
                         "q_group_size", "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "exclude_modules"})  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        settings = root.get("quantization")
        if isinstance(settings, Mapping) and "quant_algo" in settings:
            return Recognition(90, because(["quantization.quant_algo", *evidence(root, ("producer",))]))
        if root.index.keys() & _ELSEWHERE:
            return None
        found = evidence(root, _STANDALONE, most=len(_STANDALONE))
        flat = all(key in _STANDALONE or isinstance(root.get(key), Scalar) for key in root.index)
        few = len(root.index) <= 24
        if "quant_algo" in root and "producer" in root:
            return Recognition(90, because(["quant_algo", "producer"]))
        if not few or not flat:
            return None
        method = root.get("quant_method")
        if isinstance(method, Scalar) and isinstance(method.value, str) and len(found) >= 2:
            return Recognition(85, because(found[:3]))
        gptq = "bits" in root and "group_size" in root and ("desc_act" in root or "damp_percent" in root)
        awq = "w_bit" in root and "q_group_size" in root
        bitsandbytes = "bnb_4bit_quant_type" in root and "load_in_4bit" in root and "bnb_4bit_compute_dtype" in root
        if len(root.index) >= 2 and all(key.startswith(_BITSANDBYTES) for key in root.index):
            return Recognition(70, because(list(root.index)[:3]))
        if (gptq or awq or bitsandbytes) and len(found) * 2 >= len(root.index) - 4:
            return Recognition(70, because(found[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_quantization(document, root)


DIALECT = HfQuantConfig()
