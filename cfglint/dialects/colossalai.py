"""ColossalAI's training scripts: Colossal-LLaMA, ColossalChat and the examples, whose ``--plugin`` says how a model is shared.

``zero2`` is a low-level ZeRO optimizer over data parallelism, ``gemini`` shards parameters in chunks as ZeRO-3 does, ``3d`` and
``moe`` are tensor, pipeline and expert parallel with ZeRO beneath. All cast the model to ``--mixed_precision`` and keep fp32 copies.
Configurations of older releases are Python and are not read.

Names and defaults: ColossalAI 0.3 to main of 2026-04 (``applications/ColossalChat/examples/training_scripts``,
``applications/Colossal-LLaMA/train.py``, ``colossalai/booster/plugin``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import open_ended, read_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, integer, text, without_defaults
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Entry, Mapping, Scalar, Span

FRAMEWORK: Final = "colossalai"
PLUGINS: Final = frozenset({
    "ddp", "torch_ddp", "torch_ddp_fp16", "torch_fsdp", "gemini", "gemini_auto", "gemini_cuda", "gemini_cpu", "zero1", "zero2",
    "zero2_cpu", "low_level_zero", "3d", "3d_cpu", "hybrid_parallel", "moe", "fsdp", "fsdp_cpu",
})  # fmt: skip
BOOLEANS: Final = frozenset({
    "grad_checkpoint", "use_grad_checkpoint", "use_flash_attn", "use_wandb", "zero_cpu_offload", "disable_loss_mask", "padding_free",
    "enable_sequence_parallelism", "disable_reference_model", "freeze_non_embeds_params", "skip_save_each_epoch", "fp8", "g", "x",
    "use_fp8", "use_fp8_comm", "initial_optimizer_states", "pad_token_id_is_eos",
})  # fmt: skip
SEVERAL: Final = frozenset({"dataset", "eval_dataset", "prompt_dataset", "pretrain_dataset"})
MODELS: Final = ("pretrain", "pretrained", "model_name", "model_path", "model_name_or_path")
_TASKS: Final = {
    "train_dpo": "dpo", "train_orpo": "orpo", "train_kto": "kto", "train_rm": "reward", "train_ppo": "ppo", "train_grpo": "grpo",
    "benchmark_ppo": "ppo",
}  # fmt: skip
_SHORT: Final = {"p": "plugin", "b": "batch_size", "l": "max_length", "g": "grad_checkpoint"}
"""One-letter flags of the benchmarks."""


def _spelled_out(flags: Mapping) -> Mapping:
    entries = [
        Entry(Scalar(entry.key.span, _SHORT[entry.name], entry.key.raw), entry.value) if entry.name in _SHORT else entry
        for entry in flags.entries
    ]
    return Mapping(flags.span, entries)


def _state_plugin(facts: FactReader, plugin: str) -> None:
    """How parameters, gradients and states are shared, and where they wait."""
    stage = 2 if plugin.startswith("zero2") else 1 if plugin == "zero1" else None
    if plugin.startswith("gemini"):
        facts.state("zero_stage", 3, "plugin")
        if plugin in ("gemini_auto", "gemini_cpu"):
            facts.state("offload_optimizer", UNKNOWN if plugin == "gemini_auto" else "cpu", "plugin")
    elif plugin in ("3d", "3d_cpu", "hybrid_parallel", "moe"):
        for fact, key in (
            ("tensor_parallel_size", "tp"), ("pipeline_parallel_size", "pp"), ("expert_parallel_size", "ep"),
        ):  # fmt: skip
            facts.integer(fact, key, low=1)
        if facts.integer("zero_stage", "zero_stage", "zero", low=0) is None:
            facts.state("zero_stage", UNKNOWN, "plugin")  # the scripts' own defaults differ
        if facts.on("enable_sequence_parallelism") and text(facts.value("sp_mode")) in ("ring_attn", "all_to_all"):
            facts.integer("context_parallel_size", "sp", low=1)
        if facts.on("zero_cpu_offload") or plugin == "3d_cpu":
            facts.state("offload_optimizer", "cpu", "zero_cpu_offload" if facts.on("zero_cpu_offload") else "plugin")
    elif plugin in ("torch_fsdp", "fsdp", "fsdp_cpu"):
        facts.state("fsdp", "full_shard", "plugin")
        facts.state("fsdp_version", 1, "plugin")
    elif stage is not None:
        facts.state("zero_stage", stage, "plugin")
        if plugin == "zero2_cpu":
            facts.state("offload_optimizer", "cpu", "plugin")
    elif plugin in ("ddp", "torch_ddp", "torch_ddp_fp16"):
        facts.state("zero_stage", 0, "plugin")
    else:
        facts.state("zero_stage", UNKNOWN, "plugin")


def _state_batch(facts: FactReader, pipelined: bool) -> None:
    """``batch_size`` is that of one data-parallel rank; a pipeline cuts it into micro-batches."""
    whole = integer(facts.value("batch_size"))
    part = integer(facts.value("microbatch_size"))
    steps = integer(facts.value("accumulation_steps"))
    if pipelined and whole and part and whole % part == 0:
        facts.integer("micro_batch_size", "microbatch_size", low=1)
        inputs = (facts.origin("batch_size"), facts.origin("microbatch_size"))
        how = f"batch_size {whole} / microbatch_size {part}" + (f" × accumulation_steps {steps}" if steps else "")
        facts.reading.facts.state(
            "gradient_accumulation_steps", whole // part * (steps or 1), DerivedOrigin(how, inputs)
        )
        return
    facts.integer("micro_batch_size", "micro_batch_size", "batch_size", "train_batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "accumulation_steps", low=1)


def _state_method(facts: FactReader, script: str) -> None:
    base = next((method for part, method in _TASKS.items() if script.startswith(part)), "full")
    rank = integer(facts.value("lora_rank"))
    if rank is not None and rank > 0:
        facts.state("method", "lora" if base == "full" else f"{base}+lora", "lora_rank")
        facts.integer("lora_rank", "lora_rank", low=1)
        facts.number("lora_alpha", "lora_alpha", low=0)
    elif facts.given("lora_config"):
        facts.state("method", UNKNOWN, "lora_config")  # a JSON file of its own says which adapters, if any
    else:
        facts.default("method", base, FRAMEWORK, "", script)


class ColossalAi(Dialect):
    name = "colossalai"
    title = "ColossalAI"
    summary = "ColossalAI's training scripts, started by `colossalai run` or torchrun"
    programs = frozenset({"colossalai"})

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        if not started.script:
            return
        parsed = read_flags(started.arguments, BOOLEANS, SEVERAL)
        if "plugin" not in parsed.mapping:
            parsed.mapping = _spelled_out(parsed.mapping)
        plugin = parsed.mapping.get("plugin")
        word = getattr(plugin, "value", None)
        if not isinstance(word, str) or not (
            word in PLUGINS or (is_unknown(word) and "grad_checkpoint" in parsed.mapping)
        ):
            return
        words = [started.word, *started.arguments]
        parsed.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        script = basename(started.name)
        reading = Reading(self.name, launch.document, parsed.mapping, why=f"{script} --plugin", framework=FRAMEWORK)
        reading.context["standalone"] = True
        facts = FactReader(reading)
        reading.facts.state("framework", FRAMEWORK, reading.origin())
        facts.model(*MODELS)
        _state_plugin(facts, word)
        kind = facts.dtype("weight_dtype", "mixed_precision")
        if kind is None:
            facts.default("weight_dtype", "bf16", FRAMEWORK, "", "mixed_precision is bf16")
        facts.default("compute_dtype", "none", FRAMEWORK, "", "the plugin casts the model")
        facts.default("master_weights", True, FRAMEWORK, "", "the optimizer keeps fp32 copies")
        _state_batch(facts, (integer(facts.value("pp")) or 1) > 1)
        facts.integer("sequence_length", "max_len", "max_length", low=1)
        facts.number("learning_rate", "lr", low=0)
        facts.number("weight_decay", "weight_decay", low=0)
        facts.number("max_grad_norm", "grad_clip", low=0)
        facts.integer("warmup_steps", "warmup_steps", low=0)
        facts.number("epochs", "max_epochs", "num_epochs", low=0)
        key = next((key for key in ("grad_checkpoint", "use_grad_checkpoint") if facts.on(key)), None)
        if key is not None:
            facts.state("gradient_checkpointing", "full", key)
        else:
            facts.default("gradient_checkpointing", "none", FRAMEWORK)
        if facts.on("use_flash_attn"):
            facts.state("attention", "flash2", "use_flash_attn")
        facts.default("optimizer", "adamw_torch_fused", FRAMEWORK, "", "HybridAdam")
        _state_method(facts, script)
        if open_ended(parsed.positionals):
            reading.facts = without_defaults(reading.facts)
        yield reading


DIALECT = ColossalAi()
