"""``cfglint calc``: the core formulas as a calculator, each with its working shown.

Texts come from :func:`cfglint.formulas.describe`; this module only maps flags to arguments. Dimensions that are not given
can come from a model of the catalogue (``--model``), peak FLOPS from an accelerator (``--gpu``).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cfglint import formulas
from cfglint.formulas import GB, GIB, describe, format_number
from cfglint.source.whole_number import whole_number

if TYPE_CHECKING:
    from cfglint.catalog.architecture import Architecture

COUNT_SUFFIXES: Final = {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12, "p": 10**15}
SIZE_SUFFIXES: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": GB, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": GIB, "tib": 2**40,
}  # fmt: skip


# Flags --------------------------------------------------------------------------------------------------------------


MOST: Final = 1e30
"""Counts and sizes above this are typing errors."""


def parse_count(text: str) -> int:
    """A count as people write it: ``8030261248``, ``8.03B``, ``1T``, ``1e12``, ``8,030,261,248``."""
    found = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e\+?[0-9]+)?)\s*([kmbgtp]?)", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count such as 8030261248, 8.03B or 1e12")
    digits = re.sub("[_,]", "", found[1])
    if digits.isdigit():
        return int(digits) * COUNT_SUFFIXES.get(found[2].lower(), 1)
    value = float(digits) * COUNT_SUFFIXES.get(found[2].lower(), 1)
    if value > MOST or abs(value - round(value)) > 1e-6 * max(1.0, value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return round(value)


def parse_dimension(text: str) -> int:
    """A whole number without a suffix: 4k tokens could be 4,000 or 4,096."""
    number = whole_number(re.sub("[_,]", "", text.strip()))
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; write it out, as 4096 for 4k")
    return number


def parse_size(text: str) -> int:
    """Bytes: ``12GiB`` (2^30), ``12GB`` (10^9), or a bare number of bytes."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?b?)", text.strip(), re.IGNORECASE)
    if not found or found[2].lower() not in SIZE_SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 12GiB (2^30 bytes), 12GB (10^9) or 1024")
    value = float(found[1]) * SIZE_SUFFIXES[found[2].lower()]
    if value > MOST:
        raise argparse.ArgumentTypeError(f"{text[:20]}… is beyond any size")
    return round(value)


def parse_matrix(text: str) -> tuple[int, int, int]:
    """``4096x1024`` or ``4096x1024*32``: in_features, out_features and how many of them."""
    found = re.fullmatch(r"(\d+)x(\d+)(?:\*(\d+))?", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not in_featuresxout_features[*count], as 4096x1024*32")
    return int(found[1]), int(found[2]), int(found[3] or 1)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, described once and shared by the subcommands that take it."""

    name: str
    type: Callable[[str], Any] | None
    help: str
    default: Any = None
    metavar: str | None = None
    repeated: bool = False


FLAGS: Final = {
    flag.name: flag
    for flag in (
        Flag("model", str, "take dimensions from this model: a catalogue ID, a config.json or its folder", metavar="ID"),
        Flag("parameters", parse_count, "parameters of the model, as 8.03B", metavar="N"),
        Flag("trained-parameters", parse_count, "those that get gradients (default: all)", metavar="N"),
        Flag("dtype", str, "fp32, bf16, fp16, fp8, int8, int4, nf4, nf4-double, mxfp4, nvfp4", "bf16"),
        Flag("kv-cache-dtype", str, "bf16, fp16, fp8, …", "bf16", metavar="DTYPE"),
        Flag("master-bytes", float, "FP32 master copy (default: 4 beside 16-bit weights, else 0)", metavar="BYTES"),
        Flag("gradient-bytes", float, "bytes of a gradient (default: those of a weight)", metavar="BYTES"),
        Flag("optimizer-bytes", float, "optimizer states per parameter: 8 AdamW, 4 SGD with momentum",
             float(formulas.ADAM_STATE_BYTES), "BYTES"),
        Flag("adapter-dtype", str, "dtype of the adapters", "fp32", metavar="DTYPE"),
        Flag("activations", parse_size, "activations at their peak, as 12GiB", 0, "SIZE"),
        Flag("overhead", parse_size, "context, buffers and fragmentation, as 2GiB", 0, "SIZE"),
        Flag("rank", parse_dimension, "LoRA rank", 16),
        Flag("target", str, "module to adapt, as q_proj; repeat (default: every linear layer)", None, "MODULE", True),
        Flag("matrix", parse_matrix, "adapted matrix, INxOUT or INxOUT*COUNT; repeat", None, "SHAPE", True),
        Flag("adapter-parameters", parse_count, "adapter parameters, instead of rank and matrices", metavar="N"),
        Flag("micro-batch-size", parse_dimension, "sequences per device and forward pass", 1, "N"),
        Flag("sequence-length", parse_dimension, "tokens of a sequence", metavar="N"),
        Flag("hidden-size", parse_dimension, "width of the residual stream", metavar="N"),
        Flag("layers", parse_dimension, "transformer blocks", metavar="N"),
        Flag("attention-width", parse_dimension, "query heads × head_dim (default: hidden size)", metavar="N"),
        Flag("kv-heads", parse_dimension, "key-value heads", metavar="N"),
        Flag("head-dim", parse_dimension, "width of a head", metavar="N"),
        Flag("kv-lora-rank", parse_dimension, "MLA: width of the compressed key-value vector", metavar="N"),
        Flag("qk-rope-head-dim", parse_dimension, "MLA: width of the shared rotary key", metavar="N"),
        Flag("batch", parse_dimension, "requests held at once", 1, "N"),
        Flag("gradient-accumulation-steps", parse_dimension, "micro-batches per optimizer step", 1, "N"),
        Flag("data-parallel-size", parse_dimension, "data-parallel ranks", metavar="N"),
        Flag("world-size", parse_dimension, "all devices; data-parallel ranks follow", metavar="N"),
        Flag("tensor-parallel-size", parse_dimension, "with --world-size", 1, "N"),
        Flag("pipeline-parallel-size", parse_dimension, "pipeline stages", 1, "N"),
        Flag("context-parallel-size", parse_dimension, "with --world-size", 1, "N"),
        Flag("dataset-tokens", parse_count, "tokens of one pass over the data, as 1.5B", metavar="N"),
        Flag("batch-tokens", parse_count, "effective batch in tokens", metavar="N"),
        Flag("epochs", float, "passes over the data", 1.0, "N"),
        Flag("drop-last", None, "drop the last batch where it is not full", False),
        Flag("tokens", parse_count, "tokens trained on, as 1T", metavar="N"),
        Flag("tokens-per-second", float, "measured throughput of the whole job", metavar="N"),
        Flag("gpu", str, "take the dense peak from this accelerator of the catalogue", metavar="NAME"),
        Flag("gpus", parse_dimension, "devices", 1, "N"),
        Flag("peak-tflops", float, "dense peak of one device, 10^12 FLOPs/s", metavar="N"),
        Flag("causal", None, "count only the unmasked half of the attention scores", False),
        Flag("checkpointing", None, "activations are recomputed: show hardware FLOPs too", False),
        Flag("loss", float, "mean cross-entropy in nats per token", metavar="NATS"),
        Flag("perplexity", float, "gives the loss", metavar="PPL"),
        Flag("text-bytes", parse_count, "UTF-8 bytes of the test set, for bits per byte", metavar="N"),
        Flag("stage", parse_dimension, "ZeRO stage 0–3 (default: all four)", metavar="N"),
        Flag("micro-batches", parse_dimension, "micro-batches per step and pipeline", metavar="N"),
    )
}  # fmt: skip


# Results ------------------------------------------------------------------------------------------------------------


class CannotCalculate(ValueError):
    """An input is missing or contradicts another; the message names the flag."""


@dataclass(frozen=True, slots=True)
class Calculation:
    """A formula with numbers put in. ``label`` sets apart several results of one formula."""

    formula: formulas.Formula
    inputs: dict[str, Any]
    result: float
    label: str = ""


def calculate(function: Callable[..., float], label: str = "", **inputs: Any) -> Calculation:
    """Run a formula and keep what went in. Raises ``ValueError`` as the formula does."""
    formula = describe(function)
    defaults = {variable.name: variable.default for variable in formula.variables if variable.default is not None}
    return Calculation(formula, defaults | inputs, function(**inputs), label)


class Inputs:
    """The flags of a call, completed from the model; remembers where values came from."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._model: Architecture | None = None
        self.notes: list[str] = []

    def get(self, flag: str) -> Any:
        return getattr(self._args, flag.replace("-", "_"), None)

    def need(self, flag: str) -> Any:
        value = self.get(flag)
        if value is None:
            raise CannotCalculate(f"--{flag} is needed")
        return value

    @property
    def model(self) -> Architecture | None:
        name = self.get("model")
        if name and self._model is None:
            self._model, origin = load_model(name)
            self.notes.append(f"dimensions of {name}: {origin}")
        return self._model

    def dimension(self, flag: str, of_model: Callable[[Architecture], int | None]) -> int:
        """The flag, else the model's own figure."""
        value = self.get(flag)
        if value is None and self.model is not None:
            value = of_model(self.model)
        if value is None:
            raise CannotCalculate(f"--{flag} is needed" + (" (the model does not say)" if self.get("model") else ""))
        return int(value)

    def optional(self, flag: str, of_model: Callable[[Architecture], int | None]) -> int | None:
        try:
            return self.dimension(flag, of_model)
        except CannotCalculate:
            return None

    @property
    def parameters(self) -> int:
        return self.dimension("parameters", lambda model: model.total_parameters)

    @property
    def active_parameters(self) -> int:
        """Parameters used per token: fewer than all in a mixture of experts."""
        return self.dimension("parameters", lambda model: model.active_parameters or model.total_parameters)

    @property
    def weight_size(self) -> float:
        return dtype_bytes(self.get("dtype"))

    @property
    def master_size(self) -> float:
        given = self.get("master-bytes")
        if given is not None:
            return float(given)
        return formulas.MASTER_WEIGHT_BYTES if self.weight_size < formulas.FP32_BYTES else 0

    @property
    def gradient_size(self) -> float:
        given = self.get("gradient-bytes")
        return whole(float(given)) if given is not None else self.weight_size

    @property
    def optimizer_size(self) -> float:
        return whole(float(self.get("optimizer-bytes")))

    @property
    def peak_flops(self) -> float | None:
        """Dense peak of all devices in FLOPs/s, where given."""
        tflops = self.get("peak-tflops")
        if tflops is None and self.get("gpu"):
            tflops = peak_tflops(self.get("gpu"), self.get("dtype"))
            self.notes.append(f"dense peak of {self.get('gpu')} in {self.get('dtype')}: {tflops:g} TFLOPS, catalogue")
        return None if tflops is None else float(tflops) * 10**12 * int(self.get("gpus"))

    def need_peak_flops(self) -> float:
        peak = self.peak_flops
        if peak is None:
            raise CannotCalculate("--gpu or --peak-tflops is needed")
        return peak


def whole(value: float) -> float:
    """``2.0`` as ``2``, so that bytes stay whole numbers."""
    return int(value) if float(value).is_integer() else value


def dtype_bytes(name: str) -> float:
    """Bytes of a parameter in a dtype. Raises ``ValueError`` listing the known ones."""
    from cfglint.precision import bytes_per_parameter

    return whole(bytes_per_parameter(name))


# Catalogue ----------------------------------------------------------------------------------------------------------


def load_model(name: str) -> tuple[Architecture, str]:
    """The architecture of a ``config.json``, its folder, or a catalogue ID, and which of these it was.

    Raises:
        CannotCalculate: there is no such model or its config cannot be read.
    """
    import os

    path = os.path.join(name, "config.json") if os.path.isdir(name) else name
    try:
        if path.endswith(".json"):
            return _from_file(path), path
        return _from_catalogue(name), "catalogue"
    except OSError as error:
        raise CannotCalculate(f"--model {name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise CannotCalculate(f"--model {name}: nested too deeply to be a model's config") from error
    except ValueError as error:
        raise CannotCalculate(f"--model {name}: {error}") from error


def _from_file(path: str) -> Architecture:
    from cfglint.catalog.architecture import architecture_from_config

    with open(path, encoding="utf-8-sig") as file:
        config = json.load(file)
    if not isinstance(config, dict):
        raise CannotCalculate("not a model's config, its top level is not a mapping")
    return architecture_from_config(config)


def _from_catalogue(name: str) -> Architecture:
    from cfglint.catalog.models import architecture_of, find_model

    model = find_model(name)
    if model is None:
        raise CannotCalculate("not in the catalogue; see `cfglint models`, or give the dimensions as flags")
    architecture: Architecture | None = architecture_of(model)
    if architecture is None:
        raise CannotCalculate("the catalogue lacks a dimension of it; give the dimensions as flags")
    return architecture


def peak_tflops(gpu: str, dtype: str) -> float:
    """Dense TFLOPS of one accelerator in a dtype.

    Raises:
        CannotCalculate: the name is unknown, its variants disagree, or there is no figure for the dtype.
    """
    from cfglint.catalog.accelerators import find_accelerators
    from cfglint.precision import storage_format

    found = find_accelerators(gpu)
    if not found:
        raise CannotCalculate(f"--gpu {gpu} is not in the catalogue; see `cfglint gpus`, or give --peak-tflops")
    kind = storage_format(dtype).name
    peaks = {entry.id: entry.tflops_dense.get(kind) for entry in found}
    figures = {value for value in peaks.values() if value}
    if not figures:
        raise CannotCalculate(f"--gpu {gpu}: no dense {kind} figure in the catalogue; give --peak-tflops")
    if len(figures) > 1:
        listed = ", ".join(f"{name} {value:g}" for name, value in peaks.items() if value)
        raise CannotCalculate(f"--gpu {gpu} can be several devices with different peaks ({listed}): name one")
    return figures.pop()


# Subcommands --------------------------------------------------------------------------------------------------------


def _weights(inputs: Inputs) -> Iterator[Calculation]:
    yield calculate(formulas.weight_bytes, parameters=inputs.parameters, bytes_per_parameter=inputs.weight_size)


def _optimizer(inputs: Inputs) -> Iterator[Calculation]:
    trained = inputs.get("trained-parameters")
    trained = inputs.parameters if trained is None else trained
    yield calculate(formulas.optimizer_bytes, parameters=trained, bytes_per_parameter=inputs.optimizer_size)
    yield calculate(formulas.master_weight_bytes, parameters=trained, weight_size=inputs.weight_size)


def _training(inputs: Inputs) -> Iterator[Calculation]:
    yield calculate(
        formulas.training_bytes,
        parameters=inputs.parameters,
        weight_size=inputs.weight_size,
        master_size=whole(inputs.master_size),
        gradient_size=inputs.gradient_size,
        optimizer_size=inputs.optimizer_size,
        activations=inputs.get("activations"),
        overhead=inputs.get("overhead"),
    )


def _lora(inputs: Inputs) -> Iterator[Calculation]:
    adapters = inputs.get("adapter-parameters")
    if adapters is None:
        rank = inputs.get("rank")
        matrices = inputs.get("matrix") or list(_model_matrices(inputs))
        if not matrices:
            raise CannotCalculate("--adapter-parameters, --matrix or --model is needed")
        adapters = 0
        for width, height, count in matrices:
            one = calculate(
                formulas.lora_adapter_parameters,
                f"{width} × {height}, {count} of them",
                rank=rank,
                in_features=width,
                out_features=height,
            )
            adapters += count * int(one.result)
            yield one
    gradient = inputs.get("gradient-bytes")
    adapter_size = dtype_bytes(inputs.get("adapter-dtype"))
    parameters = inputs.parameters
    inputs.notes.append(
        f"adapters: {format_number(adapters)} parameters, {adapters / parameters:.2%} of the base model"
        if adapters < parameters
        else f"adapters: {format_number(adapters)} parameters"
    )
    yield calculate(
        formulas.lora_training_bytes,
        parameters=parameters,
        adapter_parameters=adapters,
        weight_size=inputs.weight_size,
        adapter_size=adapter_size,
        master_size=whole(float(inputs.get("master-bytes") or 0)),
        gradient_size=adapter_size if gradient is None else whole(float(gradient)),
        optimizer_size=inputs.optimizer_size,
        activations=inputs.get("activations"),
        overhead=inputs.get("overhead"),
    )


def _model_matrices(inputs: Inputs) -> Iterator[tuple[int, int, int]]:
    """Shapes of the model's linear layers, those named by ``--target`` or all but the head, with their counts."""
    model = inputs.model
    if model is None:
        return
    wanted = inputs.get("target")
    found: dict[tuple[int, int], int] = {}
    seen = set()
    for tensor in model.tensors:
        if not tensor.linear or tensor.bias or len(tensor.shape) != 2:
            continue
        if wanted and tensor.module not in wanted:
            continue
        if not wanted and tensor.role == "lm_head":
            continue
        seen.add(tensor.module)
        height, width = tensor.shape
        count = tensor.parameters // tensor.elements
        found[width, height] = found.get((width, height), 0) + count
    missing = [module for module in wanted or () if module not in seen]
    if missing:
        raise CannotCalculate(f"--target {missing[0]} is no linear layer of the model")
    for (width, height), count in found.items():
        yield width, height, count


def _activations(inputs: Inputs) -> Iterator[Calculation]:
    yield calculate(
        formulas.activation_bytes,
        batch=inputs.get("micro-batch-size"),
        sequence_length=inputs.need("sequence-length"),
        hidden_size=inputs.dimension("hidden-size", lambda model: model.hidden_size),
        layers=inputs.dimension("layers", lambda model: model.num_hidden_layers),
        bytes_per_element=inputs.weight_size,
    )
    yield calculate(formulas.checkpointing_extra_flops)


def _kv_cache(inputs: Inputs) -> Iterator[Calculation]:
    size = dtype_bytes(inputs.get("kv-cache-dtype"))
    tokens = inputs.need("sequence-length")
    batch = inputs.get("batch")
    rank = inputs.get("kv-lora-rank")
    given = inputs.get("kv-heads") is not None
    if rank is None and not given and inputs.model is not None and inputs.model.mla is not None:
        rank = inputs.model.mla.kv_lora_rank
    if rank is not None:
        rope = inputs.dimension("qk-rope-head-dim", lambda model: model.mla.qk_rope_head_dim if model.mla else None)
        layers = inputs.dimension("layers", lambda model: sum(layer.mixer == "mla" for layer in model.layers))
        for label, length, requests in (("per token", 1, 1), ("", tokens, batch)):
            yield calculate(
                formulas.mla_kv_cache_bytes,
                label,
                sequence_length=length,
                layers=layers,
                kv_lora_rank=rank,
                qk_rope_head_dim=rope,
                bytes_per_element=size,
                batch=requests,
            )
        return
    for layers, heads, width, window in _attention_groups(inputs):
        held = tokens if window is None else min(tokens, window)
        kind = "" if window is None else f"layers with a window of {format_number(window)}"
        for label, length, requests in (("per token", 1, 1), ("", held, batch)):
            yield calculate(
                formulas.kv_cache_bytes,
                ", ".join(filter(None, (kind, label))),
                sequence_length=length,
                layers=layers,
                kv_heads=heads,
                head_dim=width,
                bytes_per_element=size,
                batch=requests,
            )


def _attention_groups(inputs: Inputs) -> Iterator[tuple[int, int, int, int | None]]:
    """Layers that keep keys and values alike: how many, key-value heads, head width, window."""
    flags = [inputs.get(flag) for flag in ("layers", "kv-heads", "head-dim")]
    model = inputs.model
    if model is None or any(flag is not None for flag in flags):
        yield (
            inputs.dimension("layers", lambda found: found.num_hidden_layers),
            inputs.dimension("kv-heads", lambda found: found.num_key_value_heads),
            inputs.dimension("head-dim", lambda found: found.head_dim),
            None,
        )
        return
    groups: dict[tuple[int, int, int | None], int] = {}
    for layer in model.layers:
        if layer.mixer in ("full_attention", "sliding_attention", "chunked_attention"):
            window = None if layer.mixer == "full_attention" else layer.window
            key = (layer.kv_heads or model.num_key_value_heads, layer.head_dim or model.head_dim, window)
            groups[key] = groups.get(key, 0) + 1
    if not groups:
        raise CannotCalculate("the model has no layer that keeps keys and values")
    for (heads, width, window), layers in groups.items():
        yield layers, heads, width, window


def _batch(inputs: Inputs) -> Iterator[Calculation]:
    ranks = inputs.get("data-parallel-size")
    if inputs.get("world-size") is not None:
        found = calculate(
            formulas.data_parallel_size,
            world_size=inputs.get("world-size"),
            tensor_parallel_size=inputs.get("tensor-parallel-size"),
            pipeline_parallel_size=inputs.get("pipeline-parallel-size"),
            context_parallel_size=inputs.get("context-parallel-size"),
        )
        yield found
        if ranks is not None and ranks != found.result:
            raise CannotCalculate(
                f"--data-parallel-size {ranks} contradicts --world-size, which gives {found.result:g}"
            )
        ranks = int(found.result)
    given = {
        "micro_batch_size": inputs.get("micro-batch-size"),
        "gradient_accumulation_steps": inputs.get("gradient-accumulation-steps"),
        "data_parallel_size": 1 if ranks is None else ranks,
    }
    yield calculate(formulas.effective_batch_sequences, **given)
    if inputs.get("sequence-length") is not None:
        tokens = calculate(formulas.effective_batch_tokens, sequence_length=inputs.get("sequence-length"), **given)
        yield tokens
        if inputs.get("dataset-tokens") is not None:
            yield _epoch(inputs, int(tokens.result))


def _epoch(inputs: Inputs, batch_tokens: int) -> Calculation:
    return calculate(
        formulas.steps_per_epoch,
        dataset_tokens=inputs.need("dataset-tokens"),
        batch_tokens=batch_tokens,
        drop_last=bool(inputs.get("drop-last")),
    )


def _steps(inputs: Inputs) -> Iterator[Calculation]:
    inputs.need("dataset-tokens")
    if inputs.get("batch-tokens") is not None:
        epoch = _epoch(inputs, inputs.get("batch-tokens"))
        yield epoch
    else:
        inputs.need("sequence-length")
        for epoch in _batch(inputs):
            yield epoch
    epochs = inputs.get("epochs")
    if epochs <= 0:
        raise CannotCalculate(f"--epochs is {epochs:g}, must be above 0")
    if epochs != 1:
        inputs.notes.append(f"{epochs:g} epochs: {format_number(round(epochs * epoch.result))} steps")


def _attention_flops(inputs: Inputs) -> Iterator[Calculation]:
    """FLOPs of the attention scores, where layers, width and sequence length are known."""
    layers = inputs.optional(
        "layers", lambda model: sum(layer.mixer not in ("mamba", "mamba2", "none") for layer in model.layers)
    )
    width = inputs.optional("attention-width", lambda model: model.num_attention_heads * model.head_dim or None)
    width = width or inputs.get("hidden-size")
    if layers and width and inputs.get("sequence-length"):
        yield calculate(
            formulas.attention_forward_flops_per_token,
            layers=layers,
            attention_width=width,
            sequence_length=inputs.get("sequence-length"),
            causal=bool(inputs.get("causal")),
        )
    else:
        inputs.notes.append(
            "without the attention scores: add --sequence-length with --model, or --layers and --hidden-size"
        )


def _flops_per_token(inputs: Inputs) -> Iterator[Calculation]:
    attention = 0
    for found in _attention_flops(inputs):
        attention = int(found.result)
        yield found
    parameters = inputs.active_parameters
    given: dict[str, Any] = {"parameters": parameters, "attention_flops": attention}
    yield calculate(formulas.forward_flops_per_token, **given)
    trained = inputs.get("trained-parameters")
    given["trained_parameters"] = parameters if trained is None else trained
    if inputs.get("checkpointing"):
        yield calculate(formulas.hardware_flops_per_token, **given)
    yield calculate(formulas.training_flops_per_token, **given)


def _flops(inputs: Inputs) -> Iterator[Calculation]:
    for found in _flops_per_token(inputs):
        yield found
    per_token = int(found.result)
    tokens = inputs.get("tokens")
    if tokens is None:
        return
    total = per_token * tokens
    inputs.notes.append(f"{format_number(tokens)} tokens: {total:.4g} model FLOPs in training")
    peak = inputs.peak_flops
    if peak is not None:
        for mfu in formulas.MFU_TARGET:
            yield calculate(
                formulas.step_seconds,
                f"all {format_number(tokens)} tokens at {mfu:.0%} MFU",
                flops_per_step=total,
                peak_flops_per_second=peak,
                mfu=mfu,
            )


def _mfu(inputs: Inputs) -> Iterator[Calculation]:
    throughput = inputs.need("tokens-per-second")
    peak = inputs.need_peak_flops()
    for found in _flops_per_token(inputs):
        yield found
        if found.formula.name == "hardware_flops_per_token":
            yield from _utilization("from hardware FLOPs: HFU", throughput, found.result, peak)
    yield from _utilization("", throughput, found.result, peak)


def _utilization(label: str, throughput: float, per_token: float, peak: float) -> Iterator[Calculation]:
    reached = calculate(
        formulas.achieved_flops_per_second, label, tokens_per_second=throughput, flops_per_token=per_token
    )
    yield reached
    yield calculate(
        formulas.model_flops_utilization,
        label,
        actual_flops_per_second=reached.result,
        peak_flops_per_second=peak,
    )


def _perplexity(inputs: Inputs) -> Iterator[Calculation]:
    loss = inputs.get("loss")
    if (loss is None) == (inputs.get("perplexity") is None):
        raise CannotCalculate("one of --loss and --perplexity is needed")
    if loss is None:
        found = calculate(formulas.loss_from_perplexity, perplexity=inputs.get("perplexity"))
        loss = found.result
    else:
        found = calculate(formulas.perplexity, loss=loss)
    yield found
    if inputs.get("text-bytes") is not None:
        yield calculate(
            formulas.bits_per_byte, loss=loss, tokens=inputs.need("tokens"), text_bytes=inputs.get("text-bytes")
        )


def _zero(inputs: Inputs) -> Iterator[Calculation]:
    stage = inputs.get("stage")
    for each in (0, 1, 2, 3) if stage is None else (stage,):
        yield calculate(
            formulas.zero_bytes,
            f"stage {each}",
            parameters=inputs.parameters,
            stage=each,
            data_parallel_size=inputs.need("data-parallel-size"),
            weight_size=inputs.weight_size,
            master_size=whole(inputs.master_size),
            gradient_size=inputs.gradient_size,
            optimizer_size=inputs.optimizer_size,
        )


def _pipeline(inputs: Inputs) -> Iterator[Calculation]:
    yield calculate(
        formulas.pipeline_bubble_fraction,
        pipeline_parallel_size=inputs.get("pipeline-parallel-size"),
        micro_batches=inputs.need("micro-batches"),
    )


@dataclass(frozen=True, slots=True)
class Subcommand:
    name: str
    help: str
    flags: str
    run: Callable[[Inputs], Iterator[Calculation]]


_STATES = "model parameters dtype master-bytes gradient-bytes optimizer-bytes"
_BATCH = (
    "micro-batch-size gradient-accumulation-steps data-parallel-size world-size tensor-parallel-size"
    " pipeline-parallel-size context-parallel-size sequence-length dataset-tokens drop-last"
)
_COMPUTE = (
    "model parameters trained-parameters layers hidden-size attention-width sequence-length causal checkpointing"
    " dtype gpu gpus peak-tflops"
)

SUBCOMMANDS: Final = (
    Subcommand("weights", "memory of the weights", "model parameters dtype", _weights),
    Subcommand("optimizer", "memory of the optimizer states and the master copy",
               "model parameters trained-parameters dtype optimizer-bytes", _optimizer),
    Subcommand("training", "memory of full training", f"{_STATES} activations overhead", _training),
    Subcommand("lora", "memory of LoRA and QLoRA training",
               "model parameters dtype rank target matrix adapter-parameters adapter-dtype master-bytes gradient-bytes"
               " optimizer-bytes activations overhead", _lora),
    Subcommand("activations", "lower bound of the activations, and what checkpointing costs",
               "model micro-batch-size sequence-length hidden-size layers dtype", _activations),
    Subcommand("kv-cache", "memory of the KV cache",
               "model sequence-length batch layers kv-heads head-dim kv-lora-rank qk-rope-head-dim kv-cache-dtype",
               _kv_cache),
    Subcommand("batch", "effective batch in sequences and tokens", _BATCH, _batch),
    Subcommand("steps", "optimizer steps per epoch", f"batch-tokens epochs {_BATCH}", _steps),
    Subcommand("mfu", "model FLOPs utilization of a measured run", f"tokens-per-second {_COMPUTE}", _mfu),
    Subcommand("flops", "FLOPs of training, and the time they take", f"tokens {_COMPUTE}", _flops),
    Subcommand("perplexity", "perplexity from loss and back", "loss perplexity tokens text-bytes", _perplexity),
    Subcommand("zero", "model states per rank under ZeRO or FSDP", f"stage data-parallel-size {_STATES}", _zero),
    Subcommand("pipeline", "share of a step lost to the pipeline bubble", "pipeline-parallel-size micro-batches",
               _pipeline),
)  # fmt: skip


# Command ------------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    """Without a formula: the ones there are."""
    for subcommand in SUBCOMMANDS:
        sys.stdout.write(f"{subcommand.name:<14}{subcommand.help}\n")
    return 0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``calc`` and its subcommands to the command line."""
    parser = subparsers.add_parser(
        "calc",
        help="the core formulas as a calculator",
        description="The core formulas as a calculator. Each prints its formula, the numbers put in, source and caveat.",
    )
    commands = parser.add_subparsers(dest="formula", metavar="FORMULA")
    for subcommand in SUBCOMMANDS:
        command = commands.add_parser(subcommand.name, help=subcommand.help, description=subcommand.help)
        for name in subcommand.flags.split():
            _add_flag(command, FLAGS[name])
        command.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: text)")
        command.set_defaults(calculator=subcommand.run)
    parser.set_defaults(run=run)


def _add_flag(parser: argparse.ArgumentParser, flag: Flag) -> None:
    if flag.type is None:
        parser.add_argument(f"--{flag.name}", action="store_true", help=flag.help)
        return
    shown = f" (default: {format_number(whole(flag.default) if isinstance(flag.default, float) else flag.default)})"
    parser.add_argument(
        f"--{flag.name}",
        type=flag.type,
        action="append" if flag.repeated else "store",
        default=flag.default,
        metavar=flag.metavar,
        help=flag.help.replace("%", "%%") + (shown if flag.default else ""),
    )


def run(args: argparse.Namespace) -> int:
    """Calculate and print. Returns 0, or 2 where an input is missing, impossible or contradicts another."""
    if args.formula is None:
        return _list(args)
    inputs = Inputs(args)
    try:
        found = list(args.calculator(inputs))
    except (ValueError, OverflowError, NotImplementedError, ImportError) as error:
        print(f"cfglint calc {args.formula}: {_message(error)}", file=sys.stderr)
        return 2
    if not any(calculation.formula.title for calculation in found):
        inputs.notes.append("Python runs with -OO, which strips the formulas' texts and units")
    text = _json(args.formula, found, inputs.notes) if args.format == "json" else _text(found, inputs.notes)
    sys.stdout.write(text)
    return 0


def _message(error: Exception) -> str:
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, OverflowError):
        return "a result is beyond a 64-bit float"
    return "this version has no catalogue; give the numbers as flags instead of --model and --gpu"


def _text(found: list[Calculation], notes: list[str]) -> str:
    lines: list[str] = []
    told: set[str] = set()
    for calculation in found:
        formula = calculation.formula
        lines.append(formula.title + (f" ({calculation.label})" if calculation.label else ""))
        if formula.name not in told:
            lines.append(f"  {formula.expression}")
        working = formula.working(**calculation.inputs)
        lines.append(f"  = {working}")
        lines.append(f"  = {_with_unit(calculation.result, formula.unit)}")
        if formula.name not in told:
            lines.append(f"  source: {formula.source}")
            lines.append(f"  caveat: {formula.caveat}")
        told.add(formula.name)
        lines.append("")
    lines.extend(f"note: {note}" for note in notes)
    return "\n".join(lines).rstrip("\n") + "\n"


def _with_unit(value: float, unit: str) -> str:
    if unit == "bytes" and value < GIB / 100:
        return f"{format_number(value)} bytes = {value / 2**10:,.2f} KiB = {value / 10**3:,.2f} kB"
    if unit == "bytes":
        return f"{format_number(value)} bytes = {value / GIB:,.2f} GiB = {value / GB:,.2f} GB"
    if unit == "fraction":
        return f"{value:.4g} = {value:.1%}"
    if unit == "s":
        return f"{value:,.4g} s" + (f" = {value / 3600:,.1f} hours" if value >= 3600 else "")
    return format_number(value) + ("" if unit == "1" else f" {unit}")


def _json(name: str, found: list[Calculation], notes: list[str]) -> str:
    calculations = []
    for calculation in found:
        formula = calculation.formula
        entry: dict[str, Any] = {
            "formula": formula.name,
            "title": formula.title,
            "label": calculation.label or None,
            "expression": formula.expression,
            "working": formula.working(**calculation.inputs),
            "inputs": [
                {"name": variable.name, "value": calculation.inputs.get(variable.name), "unit": variable.unit}
                for variable in formula.variables
            ],
            "result": calculation.result,
            "unit": formula.unit,
            "source": formula.source,
            "caveat": formula.caveat,
        }
        if formula.unit == "bytes":
            entry |= {"gib": calculation.result / GIB, "gb": calculation.result / GB}
        calculations.append(entry)
    return json.dumps({"version": 1, "calc": name, "calculations": calculations, "notes": notes}, indent=2) + "\n"
