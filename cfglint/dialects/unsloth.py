"""Unsloth's settings: its command line, Unsloth Studio's YAML, and the flat files that scripts around it read.

A model is loaded in 4 bit unless told otherwise, adapters are trained on all linear layers, checkpoints of activations wait on
the host (``use_gradient_checkpointing: unsloth``), and the loss is fused with the last projection. The trainer is TRL's.

Names and defaults: unsloth 2026.8 (``unsloth-cli.py``, ``unsloth_cli``, ``studio/backend/assets/configs``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects import hf_training_args as trainer
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import read_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, text, without_defaults, word
from cfglint.jobs.facts import UNKNOWN, Reading, Reference
from cfglint.source.node import Document, Mapping, Scalar, Span

FRAMEWORK: Final = "unsloth"
BOOLEANS: Final = frozenset({
    "load_in_4bit", "use_rslora", "use_dora", "packing", "save_model", "save_gguf", "push_model", "push_gguf", "full_finetuning",
    "load_in_8bit", "bf16", "fp16",
})  # fmt: skip
LINEAR: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_LOADING: Final = (
    "load_in_4bit", "load_in_8bit", "full_finetuning", "random_state", "use_rslora", "finetune_language_layers", "fast_inference",
    "finetune_vision_layers", "loftq_config", "max_lora_rank", "r", "lora_alpha",
)  # fmt: skip
"""Arguments of ``FastLanguageModel.from_pretrained`` and ``get_peft_model``."""


def _is_studio(root: Mapping) -> list[str]:
    """Unsloth Studio's files: ``training`` and ``lora`` side by side, in its own names."""
    training, lora = root.get("training"), root.get("lora")
    if not isinstance(training, Mapping) or not isinstance(lora, Mapping):
        return []
    own = evidence(
        training, ("training_type", "train_on_completions", "random_seed", "batch_size", "max_seq_length"), 5
    )
    if len(own) >= 3 and evidence(lora, ("use_rslora", "use_loftq", "finetune_language_layers", "lora_r")):
        return [f"training.{key}" for key in own[:2]] + ["lora"]
    return []


def _is_flat(root: Mapping) -> list[str]:
    """Settings of a script around ``FastLanguageModel``: its own value of a switch, or the arguments of its two functions."""
    checkpointing = root.get("use_gradient_checkpointing")
    said = isinstance(checkpointing, Scalar) and checkpointing.value == "unsloth"
    model = evidence(root, ("model_name", "model_name_or_path", "model", "base_model"), 1)
    loading = evidence(root, _LOADING, most=len(_LOADING))
    if said and model and loading:
        return [*model, "use_gradient_checkpointing", loading[0]]
    named = root.get(model[0]) if model else None
    owner = isinstance(named, Scalar) and isinstance(named.value, str) and named.value.lower().startswith("unsloth/")
    both = evidence(root, ("r", "lora_r")) and evidence(root, ("lora_alpha",)) and evidence(root, ("load_in_4bit",))
    if owner and both and evidence(root, ("max_seq_length", "use_gradient_checkpointing")):
        return [*model, "max_seq_length", "lora_alpha"]
    return []


def _state_adapters(facts: FactReader, lora: FactReader, full: bool | None, said_by: str) -> None:
    quantization = facts.reading.facts.value("quantization")
    if full is True:
        facts.state("method", "full", said_by)
        return
    if lora.integer("lora_rank", "r", "lora_r", "lora_rank", low=1) is None:
        facts.default("lora_rank", 16, FRAMEWORK)
    method = "qlora" if quantization == "nf4" else "dora" if lora.on("use_dora") else "lora"
    if full is False:
        facts.state("method", method, said_by)
    elif lora.given("r") or lora.given("lora_r") or lora.given("lora_alpha"):
        facts.reading.facts.state(
            "method", method, lora.origin(next(k for k in ("r", "lora_r", "lora_alpha") if lora.given(k)))
        )
    else:
        facts.default("method", method, FRAMEWORK, "", "adapters on all linear layers")
    lora.number("lora_alpha", "lora_alpha", low=0)
    lora.number("lora_dropout", "lora_dropout", low=0)
    if lora.names("lora_targets", "target_modules", "lora_target_modules") is None:
        facts.default("lora_targets", list(LINEAR), FRAMEWORK)


def _state_checkpointing(facts: FactReader, *keys: str) -> None:
    for key in keys:
        value = facts.value(key)
        if is_unknown(value):
            facts.state("gradient_checkpointing", UNKNOWN, key)
        elif value == "unsloth":
            facts.state("gradient_checkpointing", "full", key)
        elif word(facts.node(key)) == "none":
            facts.state("gradient_checkpointing", "none", key)
        elif (on := boolean(value)) is not None:
            facts.state("gradient_checkpointing", "full" if on else "none", key)
    facts.default("gradient_checkpointing", "full", FRAMEWORK, "", "use_gradient_checkpointing is unsloth")


def _state_loading(facts: FactReader, quantizes: bool, full: bool | None) -> None:
    """``dtype: null`` is bf16 where the GPU has it; without a word a model is loaded in 4 bit, unless all of it is trained."""
    dtype = facts.dtype("weight_dtype", "dtype")
    if dtype is None:
        facts.default("weight_dtype", "bf16", FRAMEWORK, "", "dtype is None")
    if full:
        return
    on = boolean(facts.value("load_in_4bit"))
    if on is not None:
        if on:
            facts.state("quantization", "nf4", "load_in_4bit")
    elif facts.on("load_in_8bit"):
        facts.state("quantization", "int8", "load_in_8bit")
    elif quantizes:
        facts.default("quantization", "nf4", FRAMEWORK, "", "load_in_4bit is true")


def _state_rest(facts: FactReader) -> None:
    """Fused kernels, and the trainer's precision."""
    trainer.state_precision(facts)
    for fact, value, note in (
        ("compute_dtype", "bf16", "where the GPU has it"), ("loss_kernel", "fused_linear", ""), ("optimizer", "adamw_8bit", ""),
    ):  # fmt: skip
        if not facts.reading.facts.stated(fact):
            facts.default(fact, value, FRAMEWORK, "", note)


class Unsloth(Dialect):
    name = "unsloth"
    title = "Unsloth"
    summary = "Unsloth's command line, Unsloth Studio's YAML, and flat settings of scripts around FastLanguageModel"
    markers = frozenset(
        {"use_rslora", "use_loftq", "finetune_language_layers", "train_on_completions", "training_type"}
    )
    programs = frozenset({"unsloth"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        found = _is_studio(root)
        if found:
            return Recognition(86, because(found))
        if evidence(root, ("finetuning_type", "train_type", "swift_version", "datasets", "stage")):
            return None
        found = _is_flat(root)
        return Recognition(66, because(found)) if found else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield _read_studio(document, root) if _is_studio(root) else _read_flat(document, root)

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``unsloth-cli.py`` with flags; ``unsloth train --config FILE`` with flags over the file's."""
        name = basename(started.name)
        words = started.arguments
        script = started.script and name == "unsloth-cli.py"
        if not script and not (name == "unsloth" and words and words[0].text == "train"):
            return
        parsed = read_flags(words if script else words[1:], BOOLEANS)
        every = [started.word, *words]
        parsed.mapping.span = Span(min(w.span.start for w in every), max(w.span.end for w in every))
        if script:
            reading = _read_flat(launch.document, parsed.mapping, script=True)
            reading.context["standalone"] = True
        else:
            reading = _read_command(launch.document, parsed.mapping)
        reading.why = name if script else "unsloth train"
        yield reading


def _begin(document: Document, root: Mapping) -> tuple[Reading, FactReader]:
    reading = Reading("unsloth", document, root, framework=FRAMEWORK)
    reading.facts.state("framework", FRAMEWORK, reading.origin())
    return reading, FactReader(reading)


def _read_flat(document: Document, root: Mapping, *, script: bool = False) -> Reading:
    reading, facts = _begin(document, root)
    facts.model("model_name", "model_name_or_path", "model", "base_model")
    if script and not facts.given("model_name"):
        facts.default("model_id", "unsloth/llama-3-8b", FRAMEWORK)
    trainer.state_batch(facts)
    trainer.state_schedule(facts)
    trainer.state_sequence(facts)
    # the command's switch is off unless given; ``from_pretrained`` quantizes unless told not to
    full = boolean(facts.value("full_finetuning"))
    _state_loading(facts, quantizes=not script, full=full)
    _state_adapters(facts, facts, full, "full_finetuning")
    _state_checkpointing(facts, "use_gradient_checkpointing", "gradient_checkpointing")
    _state_rest(facts)
    for fact, value in (
        (("micro_batch_size", 2), ("gradient_accumulation_steps", 4), ("sequence_length", 2048)) if script else ()
    ):
        if not reading.facts.stated(fact):
            facts.default(fact, value, FRAMEWORK)
    return reading


def _read_studio(document: Document, root: Mapping) -> Reading:
    reading, facts = _begin(document, root)
    training = facts.under("training")
    if facts.model("model", "model_name") is None:
        # a preset of the studio's: which model it is for, its file name says
        reading.role = "part"
        reading.context["trains"] = False
    kind = text(training.value("training_type"))
    full = None if kind is None or is_unknown(kind) else kind.lower().startswith("full")
    _state_training(training)
    _state_loading(training, quantizes=True, full=full)
    _state_adapters(training, facts.under("lora"), full, "training_type")
    _state_checkpointing(training, "gradient_checkpointing")
    _state_rest(training)
    return reading


def _state_training(training: FactReader) -> None:
    training.integer("micro_batch_size", "batch_size", low=1)
    training.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    training.integer("sequence_length", "max_seq_length", low=1)
    training.integer("max_steps", "max_steps", low=1)
    if (integer(training.value("num_epochs")) or 0) > 0:
        training.number("epochs", "num_epochs", low=0)
    training.boolean("packing", "packing")
    trainer.state_schedule(training)
    for fact, value in (("micro_batch_size", 2), ("gradient_accumulation_steps", 4), ("sequence_length", 2048)):
        if not training.reading.facts.stated(fact):
            training.default(fact, value, FRAMEWORK)


def _read_command(document: Document, flags: Mapping) -> Reading:
    """``unsloth train``: the studio's names, flat."""
    reading, facts = _begin(document, flags)
    facts.model("model")
    for key in ("config", "c"):
        value = text(facts.value(key))
        if value is not None and not is_unknown(value):
            reading.references.append(Reference("config", value, reading.origin(key), base="cwd"))
            reading.context["config"] = True
    kind = text(facts.value("training_type"))
    full = None if kind is None or is_unknown(kind) else kind.lower().startswith("full")
    _state_training(facts)
    _state_loading(facts, quantizes=not facts.on("no_load_in_4bit"), full=full)
    _state_adapters(facts, facts, full, "training_type")
    _state_checkpointing(facts, "gradient_checkpointing")
    _state_rest(facts)
    if reading.context.get("config"):
        reading.facts = without_defaults(reading.facts)
        reading.role = "arguments"
    return reading


DIALECT = Unsloth()
