"""OpenRLHF's commands: ``openrlhf.cli.train_sft``, ``train_dpo``, ``train_rm``, ``train_ppo_ray`` and their scripts.

DeepSpeed is set up from the flags: the engine casts the model to 16 bit and keeps fp32 masters. Releases of 2026 group the
flags (``--ds.zero_stage``); both spellings are read. A run with Ray states where its actor is placed.

Names and defaults: OpenRLHF 0.2 to main of 2026-08 (``openrlhf/cli/*.py``, ``openrlhf/utils/deepspeed``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import open_ended, read_flags
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, attention, because, dtype, evidence, integer, text
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Span

BOOLEANS: Final = frozenset({
    "bf16", "flash_attn", "gradient_checkpointing", "packing_samples", "adam_offload", "load_in_4bit", "apply_chat_template",
    "normalize_reward", "colocate_all_models", "colocate_actor_ref", "use_kl_loss", "load_checkpoint", "save_hf_ckpt",
    "enforce_eager", "vllm_enable_sleep", "deepspeed_enable_sleep", "use_liger_kernel", "overlap_comm", "pretrain_mode",
    "ds.packing_samples", "ds.adam_offload", "ds.load_in_4bit", "ds.use_liger_kernel", "ds.enable_sleep", "train.colocate_all",
    "model.gradient_checkpointing_enable", "actor.gradient_checkpointing_enable", "data.apply_chat_template", "ckpt.save_hf",
    "async_train", "train.async_enable",
    "vllm.enforce_eager", "vllm.enable_sleep", "algo.kl.use_loss", "ckpt.load_enable", "multiturn", "use_ms", "unpaired_preference",
})  # fmt: skip

SEVERAL: Final = frozenset({"target_modules", "adam_betas", "ds.lora.target_modules", "adam.betas"})

_TASKS: Final = {
    "train_sft": "full", "train_dpo": "dpo", "train_rm": "reward", "train_prm": "reward", "train_kto": "kto",
    "train_kd": "distill", "train_ppo": "ppo", "train_ppo_ray": "ppo",
}  # fmt: skip
_OTHERS: Final = frozenset({"batch_inference", "serve_rm", "lora_combiner", "interactive_chat"})
_ESTIMATORS: Final = {"gae": "ppo"}
_SCRIPT = re.compile(r"train_\w+")


def _task(started: Program) -> str | None:
    """``train_sft`` …, for a module of OpenRLHF or for a script of that name whose flags are its own."""
    if started.module:
        return started.name[len("openrlhf.cli.") :] if started.name.startswith("openrlhf.cli.") else None
    path = started.word.text
    if path.endswith(".py") and "openrlhf/cli/" in path:
        return basename(path)[:-3]
    name = basename(path).removesuffix(".py")
    if path.endswith(".py") and name in _TASKS:
        flags = {word.text.lstrip("-").partition("=")[0] for word in started.arguments if word.text.startswith("--")}
        if "plugin" in flags:
            return None  # ColossalChat's scripts have the same names
        if "pretrain" in flags and flags & {
            "zero_stage",
            "train_batch_size",
            "micro_train_batch_size",
            "accumulated_gradient",
        }:
            return name
    return None


def _state_lengths(facts: FactReader) -> None:
    pairs = (("prompt_max_len", "generate_max_len"), ("data.prompt_max_len", "rollout.max_new_tokens"))
    for first, second in pairs:
        prompt, answer = integer(facts.value(first)), integer(facts.value(second))
        if prompt is not None and answer is not None and prompt > 0 and answer > 0:
            how = f"{first} {prompt} + {second} {answer}"
            inputs = (facts.origin(first), facts.origin(second))
            facts.reading.facts.state("sequence_length", prompt + answer, DerivedOrigin(how, inputs))
    facts.integer("sequence_length", "max_len", "data.max_len", low=1)


def _state_precision(facts: FactReader) -> None:
    if facts.on("bf16"):
        facts.state("compute_dtype", "bf16", "bf16")
    for key in ("param_dtype", "ds.param_dtype"):
        word = dtype(facts.value(key))
        if word is not None:
            facts.state("compute_dtype", word, key)
    if facts.on("flash_attn"):
        facts.state("attention", "flash2", "flash_attn")
    for key in ("attn_implementation", "ds.attn_implementation"):
        kernel = attention(facts.value(key))
        if kernel is not None:
            facts.state("attention", kernel, key)


def _state_method(facts: FactReader, task: str) -> None:
    base = _TASKS.get(task, "full")
    for key in ("advantage_estimator", "algo.advantage.estimator"):
        estimator = text(facts.value(key))
        if estimator is not None and base == "ppo":
            base = _ESTIMATORS.get(estimator, "grpo")
    key = next((key for key in ("load_in_4bit", "ds.load_in_4bit") if facts.on(key)), "")
    if key:
        facts.state("quantization", "nf4-double", key)
    rank = next((name for name in ("lora_rank", "ds.lora.rank") if (integer(facts.value(name)) or 0) > 0), "")
    origin = facts.reading.origin()
    if not rank:
        pretrains = facts.on("pretrain_mode") or facts.on("model.pretrain_mode_enable")
        facts.reading.facts.state("method", "pretrain" if base == "full" and pretrains else base, origin)
        return
    adapter = "qlora" if key else "lora"
    facts.state("method", adapter if base == "full" else f"{base}+{adapter}", rank)
    facts.integer("lora_rank", rank, low=1)
    facts.number("lora_alpha", "lora_alpha", "ds.lora.alpha", low=0)
    facts.number("lora_dropout", "lora_dropout", "ds.lora.dropout", low=0)
    if facts.names("lora_targets", "target_modules", "ds.lora.target_modules") is None:
        facts.default("lora_targets", ["all-linear"], "openrlhf")


def _state_sharding(facts: FactReader) -> None:
    facts.integer("zero_stage", "zero_stage", "ds.zero_stage", low=0)
    facts.reading.context["deepspeed"] = "flags"
    for key in ("adam_offload", "ds.adam_offload"):
        if facts.on(key):
            facts.state("offload_optimizer", "cpu", key)
    facts.integer("tensor_parallel_size", "ds_tensor_parallel_size", "ds.tensor_parallel_size", low=1)
    facts.integer("context_parallel_size", "ring_attn_size", "ds.ring_attn_size", low=1)
    facts.integer("gpus_per_node", "actor_num_gpus_per_node", "actor.num_gpus_per_node", low=1)
    facts.integer("nodes", "actor_num_nodes", "actor.num_nodes", low=1)
    for key in ("gradient_checkpointing", "model.gradient_checkpointing_enable", "actor.gradient_checkpointing_enable"):
        if facts.on(key):
            facts.state("gradient_checkpointing", "full", key)
    for key in ("packing_samples", "ds.packing_samples"):
        if facts.on(key):
            # the samples of a micro-batch stand in one row without padding: no more tokens than they have
            facts.reading.context["unpadded"] = True
    for key in ("use_liger_kernel", "ds.use_liger_kernel"):
        if facts.on(key):
            facts.state("loss_kernel", "fused_linear", key)


def _state_rollout(facts: FactReader, whole: bool) -> None:
    """vLLM on the trainer's own devices: ``colocate_all_models``, without which its engines have devices of their own."""
    alone = facts.on("async_train") or facts.on("train.async_enable")
    if alone or not any(facts.on(key) for key in ("colocate_all_models", "train.colocate_all")):
        return
    keys = ("vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization")
    if facts.number("rollout_gpu_memory_utilization", *keys, low=0) is None and whole:
        facts.default("rollout_gpu_memory_utilization", 0.95, "openrlhf", "", keys[0])
    facts.boolean("rollout_sleeps", "vllm_enable_sleep", "vllm.enable_sleep")
    facts.boolean("trainer_sleeps", "deepspeed_enable_sleep", "ds.enable_sleep")


_ONLY_HERE: Final = frozenset({
    "colocate_all_models", "colocate_actor_ref", "vllm_num_engines", "actor_num_gpus_per_node", "ref_num_gpus_per_node",
    "micro_train_batch_size", "micro_rollout_batch_size", "vllm_sync_backend", "adam_offload", "prompt_max_len",
    "generate_max_len", "packing_samples", "remote_rm_url", "vllm_enable_sleep",
})  # fmt: skip
"""Flags no other trainer has, for files that wrappers write them to."""
_WITH_RAY: Final = frozenset({
    "colocate_all_models", "vllm_num_engines", "actor_num_gpus_per_node", "ref_num_gpus_per_node", "micro_rollout_batch_size",
    "vllm_enable_sleep",
})  # fmt: skip


class OpenRlhf(Dialect):
    name = "openrlhf"
    title = "OpenRLHF"
    summary = "OpenRLHF's commands, under deepspeed or Ray, and files of its flags"
    markers = frozenset({"pretrain"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        """Its flags as a file, as wrappers keep them."""
        found = evidence(root, tuple(sorted(_ONLY_HERE)))
        if "pretrain" not in root or len(found) < 2:
            return None
        return Recognition(45, because(["pretrain", *found[:2]]))

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        task = "train_ppo_ray" if root.index.keys() & _WITH_RAY else "train_sft"
        reading = Reading("openrlhf", document, root, why=f"openrlhf {task}", framework="openrlhf")
        reading.context.update(command=task)
        yield _read(reading, task, True)

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        task = _task(started)
        if task is None or (task not in _TASKS and task not in _OTHERS):
            return
        parsed = read_flags(started.arguments, BOOLEANS, SEVERAL)
        words = [started.word, *started.arguments]
        parsed.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        reading = Reading("openrlhf", launch.document, parsed.mapping, why=f"openrlhf {task}", framework="openrlhf")
        reading.context.update(standalone=True, command=task)
        yield _read(reading, task, not open_ended(parsed.positionals))


def _read(reading: Reading, task: str, whole: bool) -> Reading:
    facts = FactReader(reading)
    reading.facts.state("framework", "openrlhf", reading.origin())
    for key in ("pretrain", "model.model_name_or_path", "actor.model_name_or_path"):
        if facts.text("model_id", key) is not None:
            if is_unknown(facts.value(key)):
                reading.facts.state("model_id", UNKNOWN, facts.origin(key))
            else:
                facts.reference("model", key, base="cwd")
            break
    if task in _OTHERS:
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    _state_precision(facts)
    facts.integer("micro_batch_size", "micro_train_batch_size", "train.micro_batch_size", low=1)
    facts.integer("global_batch_size", "train_batch_size", "train.batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "accumulated_gradient", low=1)
    _state_lengths(facts)
    _state_method(facts, task)
    _state_sharding(facts)
    facts.number("learning_rate", "learning_rate", "actor_learning_rate", "adam.lr", "actor.adam.lr", low=0)
    facts.number("max_grad_norm", "max_norm", low=0)
    facts.number("epochs", "max_epochs", "train.max_epochs", low=0)
    if task == "train_ppo_ray":
        _state_rollout(facts, whole)
    if whole:
        _state_defaults(facts)
    return reading


def _state_defaults(facts: FactReader) -> None:
    stated = facts.reading.facts.stated
    for fact, value in (
        ("zero_stage", 2), ("gradient_checkpointing", "none"), ("optimizer", "adamw_torch_fused"), ("max_grad_norm", 1.0),
        ("loss_kernel", "torch"),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "openrlhf")
    if not stated("compute_dtype"):
        facts.default("compute_dtype", "bf16", "openrlhf", ">=0.9", "param_dtype")
        facts.default("compute_dtype", "none", "openrlhf", "<0.9", "bf16 is off")
    if not stated("micro_batch_size"):
        facts.default("micro_batch_size", 8, "openrlhf")


DIALECT = OpenRlhf()
