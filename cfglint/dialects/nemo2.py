"""NeMo 2's command, ``nemo llm pretrain --factory llama31_8b a.b=c``, and Megatron-Bridge's recipes with overrides.

A recipe is Python; its name says the model, and those for pretraining that are in the catalogue bring their parallel sizes and
batch. Of the others only what the command overrides is known, and no verdict is given. Both train with Megatron-Core: 16-bit
parameters, fp32 copies, the distributed optimizer.

Names: NeMo 2.0 to 2.4 (``nemo/collections/llm``), nemo-run 0.3 to 0.11 (``nemo_run/cli``), Megatron-Bridge 0.2 to main
(``scripts/training/run_recipe.py``, ``src/megatron/bridge/recipes``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.catalog.presets import preset
from cfglint.catalog.recipes import recipe
from cfglint.dialects import megatron_core
from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import is_override, nested
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import boolean, integer, text
from cfglint.jobs.facts import UNKNOWN, FileOrigin, Reading
from cfglint.source.node import Mapping, Scalar, Span

_TASKS: Final = ("pretrain", "finetune", "train")
_FACTORY: Final = re.compile(r"(\w+)\s*(?:\((.*)\))?", re.DOTALL)
_ARGUMENT: Final = re.compile(r"(\w+)\s*=\s*('[^']*'|\"[^\"]*\"|[^,()]+)")
_BRIDGE: Final = re.compile(r"(\w+?)_(?:pretrain|finetune|sft|peft)(?:_\w*)?_config")
_BRIDGE_KEYS: Final = (
    "train.",
    "model.",
    "optimizer.",
    "scheduler.",
    "checkpoint.",
    "dataset.",
    "ddp.",
    "mixed_precision",
    "peft.",
)
_BRIDGE_SIGNS: Final = frozenset({
    "train.train_iters", "train.micro_batch_size", "train.global_batch_size", "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size", "model.seq_length", "checkpoint.save_interval", "scheduler.lr_warmup_iters",
})  # fmt: skip
"""Overrides of which a command must have two, where it names no recipe."""


def read_nemo2(started: Program, launch: Launch) -> Iterator[Reading]:
    """``nemo llm pretrain`` and ``finetune``; ``python -m nemo.…`` is a script of one's own and not read."""
    words = started.arguments
    if started.name != "nemo" or len(words) < 2 or words[0].text != "llm" or words[1].text not in _TASKS:
        return
    task = words[1].text
    flags = read_flags(
        words[2:], frozenset({"y", "yes", "dryrun", "repl", "detach", "tail", "direct", "no_confirm", "v"})
    )
    span = Span(started.word.span.start, max(word.span.end for word in words))
    overrides = [word for word in flags.positionals if is_override(word)]
    reading = _begin(launch, nested(overrides, span), f"nemo llm {task}")
    facts = ResolvingReader(reading)
    trainer, data = facts.under("trainer"), facts.under("data")
    megatron_core.state_parallel(trainer.under("strategy"))
    megatron_core.state_batch(data)
    megatron_core.state_memory(facts.under("model", "config"))
    trainer.integer("gpus_per_node", "devices", low=1)
    trainer.integer("nodes", "num_nodes", low=1)
    trainer.integer("max_steps", "max_steps", low=1)
    facts.number("learning_rate", ("optim", "config", "lr"), ("optim", "lr"), low=0)
    _state_factory(facts, flags.mapping, launch)
    scheme = text(facts.value("peft"))
    if scheme is not None and not is_unknown(scheme):
        facts.state("method", {"lora": "lora", "dora": "dora", "none": "full"}.get(scheme.lower(), UNKNOWN), "peft")
    else:
        facts.default("method", "pretrain" if task == "pretrain" else "lora", "nemo", "", f"{task}_recipe")
    _state_recipe(facts, text(reading.context.get("recipe")), pretrains=task == "pretrain")
    yield reading


_BRIDGE_TOOL: Final = re.compile(
    r"hf_to_megatron_generate_\w+\.py|hf_megatron_roundtrip\w*\.py|convert_checkpoints\w*\.py|convert\.sh"
)
"""Converting and generating (``examples/conversion``, ``scripts/conversion``): no training."""


def _read_tool(started: Program, launch: Launch) -> Iterator[Reading]:
    flags = read_flags(started.arguments)
    names = {
        name.replace("hf_model_id", "hf_model").replace("hf_model_path", "hf_model") for name in flags.mapping.index
    }
    if "hf_model" not in names:
        return
    words = [started.word, *started.arguments]
    flags.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
    reading = _begin(launch, flags.mapping, basename(started.word.text), layout="megatron-bridge")
    reading.role = "part"
    reading.context["trains"] = False
    facts = ResolvingReader(reading)
    for fact, key in (("tensor_parallel_size", "tp"), ("pipeline_parallel_size", "pp"), ("expert_parallel_size", "ep")):
        facts.integer(fact, key, low=1)
    yield reading


def read_bridge_command(started: Program, launch: Launch) -> Iterator[Reading]:
    """``run_recipe.py --recipe NAME a.b=c``, the recipes' own scripts with overrides, and the tools beside them."""
    if _BRIDGE_TOOL.fullmatch(basename(started.word.text)):
        yield from _read_tool(started, launch)
        return
    if not started.script:
        return
    overrides = [
        word for word in started.arguments if word.text.lstrip("+~").startswith(_BRIDGE_KEYS) and is_override(word)
    ]
    keys = {word.text.lstrip("+").partition("=")[0] for word in overrides}
    flags = read_flags([word for word in started.arguments if word not in overrides], frozenset({"peft", "dryrun"}))
    named = text(_value(flags.mapping, "recipe"))
    known = _BRIDGE.fullmatch(named or "")
    runs_recipe = basename(started.name) == "run_recipe.py" and "recipe" in flags.mapping.index
    if not (runs_recipe or (known and overrides)) and len(keys & _BRIDGE_SIGNS) < 2:
        return
    words = [started.word, *started.arguments]
    span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
    reading = _begin(
        launch, nested(overrides, span), f"{basename(started.name)} with overrides", layout="megatron-bridge"
    )
    facts = ResolvingReader(reading)
    megatron_core.state_parallel(facts.under("model"))
    megatron_core.state_batch(facts.under("train"))
    megatron_core.state_batch(facts.under("model"))
    facts.integer("sequence_length", ("dataset", "seq_length"), ("dataset", "sequence_length"), low=1)
    megatron_core.state_memory(facts.under("model"))
    megatron_core.state_schedule(facts.under("optimizer"))
    megatron_core.state_schedule(facts.under("scheduler"))
    megatron_core.state_optimizer_precision(facts.under("ddp"))
    for section in ("ddp", "optimizer"):
        if (on := boolean(facts.value(section, "use_distributed_optimizer"))) is not None:
            facts.state("zero_stage", 1 if on else 0, section, "use_distributed_optimizer")
    precision = text(facts.value("mixed_precision"))
    if (word := megatron_core.precision_word((precision or "").partition("_")[0])) is not None:
        facts.state("weight_dtype", word, "mixed_precision")
        facts.state("compute_dtype", word, "mixed_precision")
    if known is not None and (entry := flags.mapping.entry("recipe")) is not None:
        origin = FileOrigin(launch.document, ("recipe",), entry.key.span, entry.value.span)
        reading.facts.state("model_id", preset("nemo", known.group(1)) or UNKNOWN, origin)
        task = "pretrain" if "_pretrain" in known.group(0) else "lora" if "_peft" in known.group(0) else "full"
        reading.facts.state("method", task if task != "full" or "_sft" in known.group(0) else UNKNOWN, origin)
    _state_recipe(facts, None, pretrains=False)
    yield reading


def _begin(launch: Launch, root: Mapping, why: str, layout: str = "nemo2") -> Reading:
    reading = Reading("nemo", launch.document, root, why=why, framework="nemo")
    reading.context.update(standalone=True, layout=layout)
    reading.facts.state("framework", "nemo", reading.origin())
    return reading


def _value(mapping: Mapping, key: str) -> str | None:
    node = mapping.get(key)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _state_factory(facts: ResolvingReader, flags: Mapping, launch: Launch) -> None:
    """``--factory "llama31_8b(num_nodes=2, peft_scheme='none')"``."""
    entry = flags.entry("factory")
    written = _value(flags, "factory")
    match = _FACTORY.fullmatch(written.strip()) if written is not None else None
    if entry is None or match is None:
        return
    origin = FileOrigin(launch.document, ("factory",), entry.key.span, entry.value.span)
    reading = facts.reading
    reading.context["recipe"] = match.group(1)
    reading.facts.state("model_id", preset("nemo", match.group(1)) or UNKNOWN, origin)
    for key, raw in _ARGUMENT.findall(match.group(2) or ""):
        value = raw.strip().strip("'\"")
        count = integer(value)
        fact = {"num_nodes": "nodes", "num_gpus_per_node": "gpus_per_node", "seq_length": "sequence_length"}.get(key)
        if fact is not None and count:
            reading.facts.state(fact, count, origin)
        elif key == "peft_scheme":
            reading.facts.state(
                "method", {"lora": "lora", "dora": "dora", "none": "full", "None": "full"}.get(value, UNKNOWN), origin
            )
        elif key == "packed_sequence":
            reading.facts.state("packing", value == "True", origin)


def _state_recipe(facts: ResolvingReader, name: str | None, *, pretrains: bool) -> None:
    """What the recipe of that name holds; where it is not known, that settings are held where no file shows them."""
    known = recipe("nemo", name) if name is not None and pretrains else None
    for fact, value in (known or {}).items():
        if not facts.reading.facts.stated(fact):
            facts.default(fact, value, "nemo", "2.x", f"recipe {name}")
    for fact, value in (
        ("weight_dtype", "bf16"), ("compute_dtype", "bf16"), ("master_weights", True), ("zero_stage", 1),
        ("gradient_checkpointing", "none"), ("optimizer", "adamw_torch_fused"),
    ):  # fmt: skip
        if known is not None and not facts.reading.facts.stated(fact):
            facts.default(fact, value, "nemo", "2.x", f"recipe {name}")
    if known is None:
        words = "the recipe is Python and holds settings that are not known here: no verdict"
        facts.reading.context["held_elsewhere"] = ("recipe", words)
