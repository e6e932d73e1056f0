"""Lightning's command line: a YAML of ``trainer``, ``model`` and ``data``, each built by jsonargparse.

What is trained is the user's own ``LightningModule``: which parameters it trains is not known, nor how it names its arguments;
those that most modules around language models have are read. Only files that show a language model are taken.

Names: Lightning 2.0 to 2.6 (``lightning/pytorch/cli.py``, ``trainer/trainer.py``, ``strategies``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.megatron_core import precision_word
from cfglint.dialects.overrides import nest_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, evidence, integer, scalar, text
from cfglint.jobs.facts import UNKNOWN, Reading, Reference
from cfglint.source.node import Document, Mapping, Scalar, Sequence, Span

FRAMEWORK: Final = "lightning"
_TRAINER: Final = (
    "accelerator", "strategy", "devices", "num_nodes", "precision", "max_epochs", "max_steps", "accumulate_grad_batches",
    "gradient_clip_val", "val_check_interval", "log_every_n_steps", "limit_val_batches", "callbacks", "logger", "enable_checkpointing",
)  # fmt: skip
_MODELS: Final = (
    "model_name_or_path", "pretrained_model_name_or_path", "model_name", "model_id", "base_model", "hf_model", "pretrained", "model_path",
    "pretrained_model", "checkpoint",
)  # fmt: skip
_LENGTHS: Final = (
    "max_length",
    "max_seq_length",
    "max_seq_len",
    "seq_len",
    "seq_length",
    "block_size",
    "sequence_length",
)
_BATCHES: Final = (
    "micro_batch_size",
    "train_batch_size",
    "per_device_train_batch_size",
    "batch_size",
    "batch_size_per_device",
)
_STRATEGIES: Final = {
    "fsdp": "full_shard", "fsdp_cpu_offload": "full_shard", "ddp": "none", "ddp_find_unused_parameters_true": "none",
    "ddp_spawn": "none", "ddp_notebook": "none",
}  # fmt: skip


def _arguments(root: Mapping, key: str) -> Mapping | None:
    """The arguments of ``model`` or ``data``: below ``init_args`` where a class is named, else the section itself."""
    section = root.get(key)
    if not isinstance(section, Mapping):
        return None
    inner = section.get("init_args")
    return inner if isinstance(inner, Mapping) else section


def _evidence(root: Mapping) -> list[str]:
    trainer = root.get("trainer")
    if not isinstance(trainer, Mapping) or len(evidence(trainer, _TRAINER)) < 2:
        return []
    model, data = _arguments(root, "model"), _arguments(root, "data")
    sections = [s for s in (root.get("model"), root.get("data")) if isinstance(s, Mapping)]
    classes = any("class_path" in section for section in sections)
    if model is None or not (classes or "seed_everything" in root or "ckpt_path" in root):
        return []
    named = [key for key in evidence(model, _MODELS, 1) if _is_hub_id(model.get(key))]
    if named:
        return ["trainer", f"model {named[0]}"]
    lengths = evidence(model, _LENGTHS, 1) or (evidence(data, _LENGTHS, 1) if data is not None else [])
    strategy = trainer.get("strategy")
    kind = strategy.get("class_path") if isinstance(strategy, Mapping) else strategy
    shards = (
        isinstance(kind, Scalar)
        and isinstance(kind.value, str)
        and any(part in kind.value.lower() for part in ("fsdp", "deepspeed", "modelparallel"))
    )
    return ["trainer", "trainer.strategy", lengths[0]] if lengths and shards else []


def _is_hub_id(node: object) -> bool:
    return (
        isinstance(node, Scalar)
        and isinstance(node.value, str)
        and node.value.count("/") == 1
        and " " not in node.value
    )


def _state_precision(trainer: ResolvingReader) -> None:
    """``bf16-true`` holds parameters in bf16; ``bf16-mixed`` and the older ``bf16`` keep fp32 under autocast."""
    value = trainer.value("precision")
    if is_unknown(value):
        trainer.state("compute_dtype", UNKNOWN, "precision")
        return
    word = precision_word(value)
    if word is None:
        return
    if word == "fp32" or (isinstance(value, str) and value.endswith("-true")):
        trainer.state("weight_dtype", word, "precision")
        trainer.state("compute_dtype", "none", "precision")
    else:
        trainer.state("weight_dtype", "fp32", "precision")
        trainer.state("compute_dtype", word, "precision")


def _state_strategy(trainer: ResolvingReader) -> None:
    name = text(trainer.value("strategy"))
    where: tuple[str, ...] = ("strategy",)
    settings = trainer.under("strategy", "init_args")
    if trainer.mapping("strategy") is not None:
        where = ("strategy", "class_path")
        name = (text(trainer.value(*where)) or "").rpartition(".")[2].removesuffix("Strategy").lower() or None
    if name is None or name == "auto":
        return
    if is_unknown(name):
        trainer.state("fsdp", UNKNOWN, *where)
        return
    if name.startswith("deepspeed"):
        stage = integer(settings.value("stage")) or next((s for s in (1, 2, 3) if f"stage_{s}" in name), 2)
        trainer.state("zero_stage", stage, *where)
        offloads = "offload" in name or settings.on("offload_optimizer")
        trainer.state("offload_optimizer", "cpu" if offloads else "none", *where)
        if stage == 3 and ("offload" in name or settings.on("offload_parameters")):
            trainer.state("offload_parameters", "cpu", *where)
        return
    if name == "modelparallel":
        settings.integer("tensor_parallel_size", "tensor_parallel_size", low=1)
        trainer.state("fsdp", "full_shard", *where)
        trainer.state("fsdp_version", 2, *where)
        return
    kind = _STRATEGIES.get(name)
    if kind is None:
        trainer.state("fsdp", UNKNOWN, *where)
        return
    stated = (text(settings.value("sharding_strategy")) or "").lower()
    trainer.state(
        "fsdp", stated if stated in ("full_shard", "shard_grad_op", "hybrid_shard", "no_shard") else kind, *where
    )
    if kind != "none":
        trainer.state("fsdp_version", 1, *where)
        if name.endswith("offload") or settings.on("cpu_offload"):
            for fact in ("offload_parameters", "offload_optimizer"):
                trainer.state(fact, "cpu", *where)
        if settings.given("activation_checkpointing_policy") or isinstance(
            settings.node("activation_checkpointing_policy"), (Mapping, Sequence)
        ):
            settings.state("gradient_checkpointing", "full", "activation_checkpointing_policy")


def _state_devices(trainer: ResolvingReader) -> None:
    node = trainer.node("devices")
    if isinstance(node, Sequence):
        trainer.state("gpus_per_node", len(node.items), "devices")
        return
    value = trainer.value("devices")
    count = integer(value)
    if isinstance(value, str) and "," in value:
        trainer.state("gpus_per_node", len([part for part in value.split(",") if part.strip()]), "devices")
    elif count is not None and count > 0:
        trainer.state("gpus_per_node", count, "devices")
    elif value is not None:
        trainer.state("gpus_per_node", UNKNOWN, "devices")  # auto and -1: all there are
    trainer.integer("nodes", "num_nodes", low=1)


class Lightning(Dialect):
    name = "lightning"
    title = "Lightning CLI"
    summary = "Lightning's YAML of trainer, model and data, where it shows a language model"
    markers = frozenset({"seed_everything", "class_path", "init_args", "accumulate_grad_batches", "gradient_clip_val"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "exp_manager" in root or "checkpoint_dir" in root or "defaults" in root:
            return None
        found = _evidence(root)
        return Recognition(64, because(found)) if found else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading(self.name, document, root, framework=FRAMEWORK)
        _read(reading)
        facts = ResolvingReader(reading)
        facts.default("gradient_accumulation_steps", 1, FRAMEWORK)
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``python main.py fit --config FILE --trainer.devices 4``."""
        words = started.arguments
        if not (started.script or started.module) or not words or words[0].text != "fit":
            return
        parsed = read_flags(words[1:])
        tree = nest_flags(parsed.mapping, Span(started.word.span.start, words[-1].span.end))
        named = text(scalar(tree.get("config") or tree.get("c")))
        if named is None or is_unknown(named):
            return
        reading = Reading(self.name, launch.document, tree, role="arguments", why="fit --config", framework=FRAMEWORK)
        key = "config" if "config" in tree else "c"
        reading.references.append(Reference("config", named, reading.origin(key), base="cwd"))
        _read(reading)
        yield reading


def _read(reading: Reading) -> None:
    facts = ResolvingReader(reading)
    reading.facts.state("framework", FRAMEWORK, reading.origin())
    trainer = facts.under("trainer")
    model, data = (
        facts.under(key, "init_args") if facts.mapping(key, "init_args") is not None else facts.under(key)
        for key in ("model", "data")
    )
    for key in _MODELS:
        if model.text("model_id", key) is not None:
            model.reference("model", key, base="cwd")
            break
    _state_devices(trainer)
    _state_precision(trainer)
    _state_strategy(trainer)
    trainer.integer("gradient_accumulation_steps", "accumulate_grad_batches", low=1)
    trainer.number("max_grad_norm", "gradient_clip_val", low=0)
    trainer.integer("max_steps", "max_steps", low=1)
    trainer.number("epochs", "max_epochs", low=0)
    for section in (data, model):
        section.integer("micro_batch_size", *_BATCHES, low=1)
        section.integer("sequence_length", *_LENGTHS, low=1)
    model.number("learning_rate", "learning_rate", "lr", low=0)
    model.number("weight_decay", "weight_decay", low=0)
    model.boolean("compile", "compile")
    model.integer("lora_rank", "lora_r", "lora_rank", low=1)
    rank = next((key for key in ("lora_r", "lora_rank") if model.given(key)), None)
    if rank is not None:
        model.number("lora_alpha", "lora_alpha", low=0)
        model.state("method", "lora", rank)
    elif reading.role == "run":
        facts.state("method", UNKNOWN, "model")
    if reading.role == "run":
        words = "the module is a program: what it trains and what it recomputes is not known here, no verdict"
        reading.context["held_elsewhere"] = ("model", words)


DIALECT = Lightning()
