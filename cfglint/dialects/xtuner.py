"""XTuner where it is data: configs of MMEngine in YAML or JSON, and ``xtuner train`` with DeepSpeed's presets.

Most XTuner configs are Python, which is not run and not read; a command that names one says how many processes there are and
which ZeRO stage. In a config the model's class is quantized as ``quantization_config`` says and tuned as ``lora`` says.

Names: XTuner 0.1 to 0.2 (``xtuner/tools/train.py``, ``xtuner/configs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, dtype, integer, text
from cfglint.jobs.facts import FileOrigin, Reading, Reference
from cfglint.source.node import Document, Mapping, Scalar, Span

FRAMEWORK: Final = "xtuner"
_PRESET: Final = re.compile(r"deepspeed_zero([123])(_offload)?")
"""Names of the files in ``xtuner/configs/deepspeed``."""
_PARTS: Final = ("train_dataloader", "optim_wrapper", "train_cfg", "param_scheduler", "default_hooks", "custom_hooks")
_CLASSES: Final = ("SupervisedFinetune", "xtuner.", "LLaVAModel", "DPO", "ORPO", "RewardModel")


def _evidence(root: Mapping) -> list[str]:
    model = root.get("model")
    kind = model.get("type") if isinstance(model, Mapping) else None
    if not isinstance(kind, Scalar) or not isinstance(kind.value, str) or not isinstance(model, Mapping):
        return []
    parts = [key for key in _PARTS if key in root]
    named = kind.value.startswith(_CLASSES) or ".xtuner." in kind.value
    return [f"model.type {kind.value}", *parts[:2]] if named and ("llm" in model or len(parts) >= 2) and parts else []


def _state_model(facts: ResolvingReader) -> None:
    llm = facts.under("model", "llm")
    if llm.text("model_id", "pretrained_model_name_or_path") is not None:
        llm.reference("model", "pretrained_model_name_or_path", base="cwd")
    llm.boolean("trust_remote_code", "trust_remote_code")
    llm.dtype("weight_dtype", "torch_dtype", "dtype")
    llm.attention("attention", "attn_implementation")
    quantization = llm.under("quantization_config")
    if quantization.on("load_in_4bit"):
        double = quantization.on("bnb_4bit_use_double_quant")
        quantization.state("quantization", "nf4-double" if double else "nf4", "load_in_4bit")
    elif quantization.on("load_in_8bit"):
        quantization.state("quantization", "int8", "load_in_8bit")
    base = {"DPO": "dpo", "ORPO": "orpo", "RewardModel": "reward"}.get(
        (text(facts.value("model", "type")) or "").rpartition(".")[2]
    )
    adapters = "qlora" if facts.reading.facts.value("quantization") in ("nf4", "nf4-double") else "lora"
    lora = facts.under("model", "lora")
    if lora.given("r"):
        lora.integer("lora_rank", "r", low=1)
        lora.number("lora_alpha", "lora_alpha", low=0)
        lora.number("lora_dropout", "lora_dropout", low=0)
        if lora.names("lora_targets", "target_modules") is None:
            lora.default("lora_targets", ["all-linear"], FRAMEWORK, "", "find_all_linear_names")
        lora.state("method", f"{base}+{adapters}" if base else adapters, "r")
    else:
        facts.state("method", base or "full", "model", "type")


def _state_training(facts: ResolvingReader) -> None:
    facts.integer("micro_batch_size", ("train_dataloader", "batch_size"), low=1)
    dataset = facts.under("train_dataloader", "dataset")
    if dataset.integer("sequence_length", "max_length", low=1) is None:
        facts.integer("sequence_length", "max_length", low=1)
    dataset.boolean("packing", "pack_to_max_length")
    wrapper = facts.under("optim_wrapper")
    wrapper.integer("gradient_accumulation_steps", "accumulative_counts", low=1)
    wrapper.number("learning_rate", ("optimizer", "lr"), low=0)
    wrapper.number("weight_decay", ("optimizer", "weight_decay"), low=0)
    wrapper.number("max_grad_norm", ("clip_grad", "max_norm"), low=0)
    name = text(wrapper.value("optimizer", "type"))
    if name is not None and name.rpartition(".")[2] == "AdamW":
        wrapper.state("optimizer", "adamw_torch", "optimizer", "type")
    kind = dtype(wrapper.value("dtype"))
    if kind is not None:
        wrapper.state("compute_dtype", kind, "dtype")
    facts.number("epochs", ("train_cfg", "max_epochs"), low=0)
    facts.integer("max_steps", ("train_cfg", "max_iters"), low=1)
    # DispatchHook and SupervisedFinetune switch it on (use_activation_checkpointing=True)
    if facts.value("model", "use_activation_checkpointing") is False:
        facts.state("gradient_checkpointing", "none", "model", "use_activation_checkpointing")
    else:
        facts.default("gradient_checkpointing", "full", FRAMEWORK, "", "use_activation_checkpointing")


class XTuner(Dialect):
    name = "xtuner"
    title = "XTuner"
    summary = "XTuner configs in YAML or JSON, and `xtuner train`; Python configs are not read"
    markers = frozenset({"optim_wrapper", "accumulative_counts", "pack_to_max_length", "default_hooks"})
    programs = frozenset({"xtuner"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        found = _evidence(root)
        return Recognition(82, because(found)) if found else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading(self.name, document, root, framework=FRAMEWORK)
        facts = ResolvingReader(reading)
        reading.facts.state("framework", FRAMEWORK, reading.origin())
        _state_model(facts)
        _state_training(facts)
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``xtuner train CONFIG --deepspeed deepspeed_zero2``; the config is a preset's name or a file."""
        words = started.arguments
        if started.name != "xtuner" or not words or words[0].text not in ("train", "dist_train"):
            return
        parsed = read_flags(words[1:], frozenset({"auto_scale_lr"}))
        every = [started.word, *words]
        parsed.mapping.span = Span(min(w.span.start for w in every), max(w.span.end for w in every))
        reading = Reading(self.name, launch.document, parsed.mapping, why="xtuner train", framework=FRAMEWORK)
        reading.context["standalone"] = True
        facts = ResolvingReader(reading)
        reading.facts.state("framework", FRAMEWORK, reading.origin())
        config = parsed.positionals[0] if parsed.positionals else None
        if config is not None and config.text.endswith((".yaml", ".yml", ".json")):
            origin = FileOrigin(launch.document, (config.text,), config.span, config.span)
            reading.references.append(Reference("config", config.text, origin, base="cwd"))
            reading.role = "arguments"
        named = text(facts.value("deepspeed"))
        preset = _PRESET.fullmatch(named or "")
        if preset is not None:
            facts.state("zero_stage", int(preset.group(1)), "deepspeed")
            facts.state("offload_optimizer", "cpu" if preset.group(2) else "none", "deepspeed")
            if preset.group(1) == "3":
                facts.state("offload_parameters", "cpu" if preset.group(2) else "none", "deepspeed")
            reading.context["deepspeed"] = "preset"
        elif named is not None and not is_unknown(named):
            facts.reference("deepspeed", "deepspeed", base="cwd")
        for variable, fact in (("NPROC_PER_NODE", "gpus_per_node"), ("NNODES", "nodes")):
            word = launch.environment.get(variable)
            count = integer(word.text) if word is not None and word.known else None
            if word is not None and count:
                reading.facts.state(fact, count, FileOrigin(launch.document, (variable,), word.span, word.span))
        yield reading


DIALECT = XTuner()
