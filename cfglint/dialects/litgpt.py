"""litgpt's YAML (jsonargparse), and ``litgpt finetune`` or ``litgpt pretrain`` with flags.

``bf16-true`` holds everything in bf16, ``bf16-mixed`` is autocast over fp32. With more than one device all
of it runs under FSDP, and fine-tuning then checkpoints each block, which one device does not do. The global batch is
divided over devices, so accumulation follows from it.

Names and defaults: litgpt 0.4 to 0.5 (``litgpt/finetune``, ``litgpt/pretrain.py``, ``litgpt/args.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.catalog.presets import preset
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags, scalar_of
from cfglint.dialects.overrides import nest_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, text
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Entry, Mapping, Scalar, Span

_SHAPE: Final = (
    "train",
    "out_dir",
    "eval",
    "logger_name",
    "checkpoint_dir",
    "devices",
    "data",
    "precision",
    "model_name",
    "quantize",
)
_TRAIN: Final = (
    "global_batch_size",
    "micro_batch_size",
    "max_seq_length",
    "save_interval",
    "lr_warmup_steps",
    "epochs",
    "max_tokens",
)

_PRECISION: Final = {
    "bf16-true": ("bf16", "none"), "16-true": ("fp16", "none"), "32-true": ("fp32", "none"), "32": ("fp32", "none"),
    "bf16-mixed": ("fp32", "bf16"), "16-mixed": ("fp32", "fp16"),
}  # fmt: skip
"""Fabric's precision: what weights are stored in, and the autocast dtype."""

_QUANTIZATION: Final = {
    "nf4": "nf4", "nf4-dq": "nf4-double", "fp4": "fp4", "fp4-dq": "fp4-double", "int8-training": "int8", "int8": "int8",
}  # fmt: skip

_TARGETS: Final = (
    ("lora_query", ("q_proj",), True), ("lora_key", ("k_proj",), False), ("lora_value", ("v_proj",), True),
    ("lora_projection", ("o_proj",), False), ("lora_mlp", ("gate_proj", "up_proj", "down_proj"), False),
    ("lora_head", ("lm_head",), False),
)  # fmt: skip
"""Switches, the modules they adapt, and their defaults."""

_OPTIMIZERS: Final = {
    "torch.optim.AdamW": "adamw_torch", "AdamW": "adamw_torch", "torch.optim.Adam": "adamw_torch", "torch.optim.SGD": "sgd",
    "bitsandbytes.optim.AdamW8bit": "adamw_8bit", "bitsandbytes.optim.PagedAdamW": "paged_adamw_32bit",
    "bitsandbytes.optim.PagedAdamW8bit": "paged_adamw_8bit", "galore_torch.GaLoreAdamW": "galore_adamw",
    "galore_torch.GaLoreAdamW8bit": "galore_adamw_8bit", "GaLoreAdamW": "galore_adamw",
}  # fmt: skip

_FINETUNES: Final = {
    "finetune_full": "full", "finetune_lora": "lora", "finetune": "lora", "pretrain": "pretrain",
    "finetune_adapter": "adapter", "finetune_adapter_v2": "adapter",
}  # fmt: skip
_OTHERS: Final = frozenset(
    {"chat", "generate", "serve", "evaluate", "download", "convert_to_litgpt", "convert_from_litgpt", "merge_lora"}
)


def _state_model(facts: FactReader) -> None:
    folder = text(facts.value("checkpoint_dir")) or text(facts.value("initial_checkpoint_dir"))
    key = "checkpoint_dir" if facts.given("checkpoint_dir") else "initial_checkpoint_dir"
    if folder is not None:
        if is_unknown(folder):
            facts.state("model_id", UNKNOWN, key)
            return
        parts = [part for part in folder.strip("/").split("/") if part not in (".", "..")]
        # litgpt downloads to checkpoints/<org>/<name>
        named = len(parts) >= 2 and (parts[0] == "checkpoints" or len(parts) == 2)
        facts.state("model_id", "/".join(parts[-2:]) if named else folder, key)
        facts.reference("model", key, base="cwd")
        return
    name = text(facts.value("model_name"))
    if name is not None:
        facts.state("model_id", UNKNOWN if is_unknown(name) else preset("litgpt", name.lower()) or name, "model_name")


def _state_precision(facts: FactReader) -> None:
    quantize = text(facts.value("quantize"))
    if quantize is not None:
        word = _QUANTIZATION.get(quantize.removeprefix("bnb."))
        facts.state("quantization", word or UNKNOWN, "quantize")
    value = facts.value("precision")
    found = _PRECISION.get(str(value)) if value is not None else None
    if found is not None:
        facts.state("weight_dtype", found[0], "precision")
        facts.state("compute_dtype", found[1], "precision")
    elif is_unknown(value):
        facts.state("weight_dtype", UNKNOWN, "precision")
        facts.state("compute_dtype", UNKNOWN, "precision")


def _devices(facts: FactReader) -> int | None:
    """All devices of the run; None where they are not known."""
    devices = integer(facts.value("devices")) if facts.given("devices") else 1
    nodes = integer(facts.value("num_nodes")) if facts.given("num_nodes") else 1
    return devices * nodes if devices and nodes and devices > 0 and nodes > 0 else None


def _state_batch(facts: FactReader) -> None:
    train = facts.under("train")
    train.integer("micro_batch_size", "micro_batch_size", low=1)
    train.integer("global_batch_size", "global_batch_size", low=1)
    train.number("epochs", "epochs", low=0)
    train.integer("max_steps", "max_steps", low=1)
    train.integer("sequence_length", "max_seq_length", low=1)
    train.integer("warmup_steps", "lr_warmup_steps", low=0)
    train.number("max_grad_norm", "max_norm", low=0)
    micro, total = integer(train.value("micro_batch_size")), integer(train.value("global_batch_size"))
    devices = _devices(facts)
    if micro and total and devices and micro > 0 and total // devices // micro > 0:
        how = f"global_batch_size {total} / {devices} devices / micro_batch_size {micro}"
        origin = train.origin("global_batch_size")
        facts.reading.facts.state(
            "gradient_accumulation_steps", total // devices // micro, DerivedOrigin(how, (origin,))
        )
    elif facts.value("devices") == "auto":
        facts.state("gpus_per_node", UNKNOWN, "devices")
    facts.integer("gpus_per_node", "devices", low=1)
    facts.integer("nodes", "num_nodes", low=1)


def _state_optimizer(facts: FactReader) -> None:
    optimizer = facts.under("optimizer")
    name = text(facts.value("optimizer")) or text(optimizer.value("class_path"))
    route = ("class_path",) if optimizer.given("class_path") else ()
    if name is not None:
        settings = optimizer.under("init_args")
        word = _OPTIMIZERS.get(name, name.rpartition(".")[2].lower())
        if word == "adamw_torch" and settings.on("fused"):
            word = "adamw_torch_fused"
        optimizer.state("optimizer", UNKNOWN if is_unknown(name) else word, *route)
    optimizer.number("learning_rate", ("init_args", "lr"), low=0)
    optimizer.number("weight_decay", ("init_args", "weight_decay"), low=0)
    facts.number("learning_rate", "learning_rate", low=0)


def _state_method(facts: FactReader, command: str, arguments: bool) -> str:
    """What is trained: ``full``, ``lora``, ``pretrain``, ``adapter``."""
    kind = _FINETUNES.get(command, "")
    if not kind:
        adapts = any(facts.given(key) for key in ("lora_r", "lora_alpha", "lora_query"))
        kind = "lora" if adapts else "pretrain" if facts.given("model_name") or facts.given("tokenizer_dir") else "full"
    stated = facts.reading.facts
    if kind == "adapter":
        facts.state("method", UNKNOWN, *(("checkpoint_dir",) if facts.given("checkpoint_dir") else ()))
        return kind
    if kind == "lora":
        four = stated.value("quantization") in ("nf4", "nf4-double", "fp4", "fp4-double")
        key = "lora_r" if facts.given("lora_r") else "quantize" if facts.given("quantize") else "checkpoint_dir"
        facts.state("method", "qlora" if four else "lora", *((key,) if facts.given(key) else ()))
        if facts.integer("lora_rank", "lora_r", low=1) is None and not arguments:
            facts.default("lora_rank", 8, "litgpt")
        if facts.number("lora_alpha", "lora_alpha", low=0) is None and not arguments:
            facts.default("lora_alpha", 16.0, "litgpt")
        if facts.number("lora_dropout", "lora_dropout", low=0) is None and not arguments:
            facts.default("lora_dropout", 0.05, "litgpt")
        _state_targets(facts, arguments)
    else:
        key = "model_name" if facts.given("model_name") else "checkpoint_dir"
        facts.state("method", kind, *((key,) if facts.given(key) else ()))
    return kind


def _state_targets(facts: FactReader, arguments: bool) -> None:
    targets: list[str] = []
    said_by = ""
    for key, modules, default in _TARGETS:
        stated = boolean(facts.value(key))
        if stated is not None:
            said_by = said_by or key
        if default if stated is None else stated:
            targets.extend(modules)
    if said_by and targets:
        facts.state("lora_targets", targets, said_by)
    elif targets and not arguments:
        facts.default("lora_targets", targets, "litgpt")


def _state_strategy(facts: FactReader, kind: str) -> None:
    """More devices than one: FSDP, with checkpointed blocks in fine-tuning, within each node in pretraining."""
    devices = _devices(facts)
    if kind == "pretrain":
        facts.default("compile", True, "litgpt")
        facts.default("packing", True, "litgpt", "", "pretraining data is a stream of tokens")
        facts.default("gradient_checkpointing", "none", "litgpt")
    if devices is None:
        facts.default("gradient_checkpointing", UNKNOWN, "litgpt", "", "depends on devices")
        facts.default("fsdp", UNKNOWN, "litgpt", "", "depends on devices")
    elif devices == 1:
        facts.default("gradient_checkpointing", "none", "litgpt", "", "one device")
    else:
        facts.default(
            "fsdp", "hybrid_shard" if kind == "pretrain" else "full_shard", "litgpt", "", "more than one device"
        )
        # adapters: ModelParallelStrategy with fully_shard; the others: FSDPStrategy
        facts.default("fsdp_version", 2 if kind in ("lora", "adapter") else 1, "litgpt")
        facts.default("gradient_checkpointing", "full", "litgpt", "", "more than one device")


def read_litgpt(
    document: Document, root: Mapping, *, why: str = "", command: str = "", arguments: bool = False
) -> Reading:
    """A reading of a file, or of the flags of ``litgpt <command>`` (``arguments``: beside a file, without defaults)."""
    reading = Reading("litgpt", document, root, why=why, framework="litgpt")
    facts = FactReader(reading)
    if not arguments:
        reading.facts.state("framework", "litgpt", reading.origin())
    _state_model(facts)
    if command and command not in _FINETUNES:
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    _state_precision(facts)
    _state_batch(facts)
    _state_optimizer(facts)
    if arguments:
        return reading
    kind = _state_method(facts, command, arguments)
    _state_strategy(facts, kind)
    if not reading.facts.stated("micro_batch_size"):
        facts.default("micro_batch_size", 4 if kind == "pretrain" else 1, "litgpt")
    return reading


class LitGpt(Dialect):
    name = "litgpt"
    title = "litgpt"
    summary = "litgpt's YAML, and litgpt commands with flags"
    markers = frozenset({"checkpoint_dir", "out_dir", "logger_name", "lora_query", "lora_r"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        train = root.get("train")
        found = evidence(root, _SHAPE, most=len(_SHAPE))
        if isinstance(train, Mapping) and len(found) >= 4 and len(evidence(train, _TRAIN)) >= 2 and "out_dir" in root:
            return Recognition(84, because(found[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_litgpt(document, root)

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        words = started.arguments
        if started.name != "litgpt" or not words:
            return
        command = words[0].text.replace("-", "_")
        if command not in _FINETUNES and command not in _OTHERS:
            return
        rest = words[1:]
        if command == "finetune" and rest and rest[0].text in ("full", "lora", "adapter", "adapter_v2"):
            command, rest = f"finetune_{rest[0].text}", rest[1:]
        parsed = read_flags(rest)
        span = Span(min(w.span.start for w in [started.word, *words]), max(w.span.end for w in words))
        tree = nest_flags(parsed.mapping, span)
        named = "config" in tree
        key = "model_name" if command == "pretrain" else "checkpoint_dir"
        if parsed.positionals and key not in tree:
            word = parsed.positionals[0]
            tree = Mapping(span, [Entry(Scalar(word.span, key, word.raw), scalar_of(word)), *tree.entries])
        yield read_litgpt(launch.document, tree, why=f"litgpt {command}", command=command, arguments=named)


DIALECT = LitGpt()
