"""open-instruct's commands: ``finetune.py``, ``dpo*.py`` under accelerate, ``grpo_fast.py`` under Ray.

Its files of arguments have the names of transformers' ``TrainingArguments`` and are read as such. Its loops are its own: a model
is loaded in bf16 and trained with fused AdamW under DeepSpeed, or without it in fp32 under autocast. In reinforcement learning
``num_learners_per_node`` GPUs of each node train and the rest generate.

Names and defaults: open-instruct main of 2026-08 (``open_instruct/finetune.py``, ``dpo_utils.py``, ``grpo_utils.py``, ``grpo_fast.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects import hf_training_args as trainer
from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import open_ended, read_flags
from cfglint.dialects.values import FactReader, integer, without_defaults
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Mapping, Scalar, Sequence, Span

FRAMEWORK: Final = "open-instruct"
_METHODS: Final = {
    "finetune": "full", "olmo_core_finetune": "full", "dpo": "dpo", "dpo_tune": "dpo", "dpo_tune_cache": "dpo",
    "reward_modeling": "reward", "grpo": "grpo", "grpo_fast": "grpo", "grpo_vllm_thread_ray_gtrl": "grpo",
    "ppo_fast": "ppo", "ppo_vllm_thread_ray_gtrl": "ppo", "ppo_vllm_thread": "ppo", "online_dpo_vllm_thread": "dpo",
}  # fmt: skip
"""Scripts of ``open_instruct/``, with what they train for."""
_SIGNS: Final = (
    "dataset_mixer_list",
    "dataset_mixer",
    "with_tracking",
    "dataset_transform_fn",
    "dataset_mixer_list_splits",
)
BOOLEANS: Final = frozenset({
    "use_flash_attn", "gradient_checkpointing", "with_tracking", "use_lora", "use_qlora", "packing", "single_gpu_mode",
    "deepspeed_offload_param", "deepspeed_offload_optimizer", "offload_optimizer", "offload_param", "use_8bit_optimizer",
    "use_liger_kernel", "fused_optimizer", "dpo_use_paged_optimizer", "vllm_sync_backend", "add_bos", "gather_whole_model",
    "apply_verifiable_reward", "colocate_train_vllm_inference_mode", "non_stop_penalty",
})  # fmt: skip
SEVERAL: Final = frozenset({
    "dataset_mixer_list", "dataset_mixer_eval_list", "dataset_mixer_list_splits", "num_learners_per_node", "report_to",
    "oe_eval_tasks", "dataset_transform_fn", "dataset_target_columns", "stop_strings", "actor_num_gpus_per_node", "tools",
})  # fmt: skip
_PATH: Final = re.compile(r"(?:.*/)?open_instruct/(\w+)\.py")


def _script(started: Program, keys: Mapping) -> str | None:
    """The script's name, known by its folder or by arguments that no other trainer has."""
    if started.module:
        name = started.name.removeprefix("open_instruct.") if started.name.startswith("open_instruct.") else ""
        return name if name in _METHODS else None
    match = _PATH.fullmatch(started.word.text)
    if match is not None:
        return match.group(1) if match.group(1) in _METHODS else None
    name = basename(started.name).removesuffix(".py")
    return name if name in _METHODS and sum(sign in keys for sign in _SIGNS) >= 2 else None


def _state_learners(facts: FactReader) -> None:
    """``--num_learners_per_node 8 8``: one number for each node; where they differ no count holds for all."""
    node = facts.node("num_learners_per_node")
    key = "num_learners_per_node"
    if node is None:
        facts.integer("gpus_per_node", "actor_num_gpus_per_node", low=1)
        return
    items = node.items if isinstance(node, Sequence) else [node]
    counts = [integer(item.value) if isinstance(item, Scalar) else None for item in items]
    if counts and all(count == counts[0] and count for count in counts):
        facts.state("gpus_per_node", counts[0], key)
        facts.state("nodes", len(counts), key)
    else:
        facts.state("gpus_per_node", UNKNOWN, key)


def _state_rollouts(facts: FactReader) -> None:
    """Prompts and answers are packed into rows of ``pack_length`` tokens."""
    if facts.integer("sequence_length", "pack_length", low=1) is not None:
        facts.state("packing", True, "pack_length")
    else:
        prompt = integer(facts.value("max_prompt_token_length")) or integer(facts.value("max_prompt_length"))
        answer = integer(facts.value("response_length"))
        if prompt and answer:
            first = "max_prompt_token_length" if facts.given("max_prompt_token_length") else "max_prompt_length"
            inputs = (facts.origin(first), facts.origin("response_length"))
            how = f"{first} {prompt} + response_length {answer}"
            facts.reading.facts.state("sequence_length", prompt + answer, DerivedOrigin(how, inputs))
    prompts = integer(facts.value("num_unique_prompts_rollout"))
    samples = integer(facts.value("num_samples_per_prompt_rollout"))
    parts = integer(facts.value("num_mini_batches")) or 1
    if prompts and samples and prompts * samples % parts == 0:
        inputs = (facts.origin("num_unique_prompts_rollout"), facts.origin("num_samples_per_prompt_rollout"))
        how = f"{prompts} prompts × {samples} samples / {parts} mini-batches"
        facts.reading.context["unpadded"] = True
        facts.reading.facts.state("global_batch_size", prompts * samples // parts, DerivedOrigin(how, inputs))


def _state_sharding(facts: FactReader) -> None:
    facts.integer("zero_stage", "deepspeed_stage", "zero_stage", low=0)
    for fact, keys in (
        ("offload_optimizer", ("deepspeed_offload_optimizer", "offload_optimizer")),
        ("offload_parameters", ("deepspeed_offload_param", "offload_param")),
    ):
        for key in keys:
            if facts.on(key):
                facts.state(fact, "cpu", key)
    facts.integer("context_parallel_size", "sequence_parallel_size", low=2)
    facts.integer("tensor_parallel_size", "tensor_parallel_degree", low=2)


def _state_optimizer(facts: FactReader) -> None:
    facts.number("learning_rate", "learning_rate", low=0)
    facts.text("lr_scheduler", "lr_scheduler_type")
    facts.number("weight_decay", "weight_decay", low=0)
    facts.number("warmup_ratio", "warmup_ratio", low=0)
    if facts.on("use_8bit_optimizer"):
        facts.state("optimizer", "adamw_8bit", "use_8bit_optimizer")
    elif facts.on("dpo_use_paged_optimizer"):
        facts.state("optimizer", "paged_adamw_32bit", "dpo_use_paged_optimizer")
    else:
        facts.default("optimizer", "adamw_torch_fused", FRAMEWORK, "", "fused_optimizer is true")
    clip = facts.value("clip_grad_norm") if facts.given("clip_grad_norm") else None
    if isinstance(clip, (int, float)) and clip > 0:
        facts.number("max_grad_norm", "clip_grad_norm", low=0)


class OpenInstruct(Dialect):
    name = "open-instruct"
    title = "open-instruct"
    summary = "open-instruct's commands (its YAML has the names of transformers' TrainingArguments and is read as such)"

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        if not (started.script or started.module):
            return
        parsed = read_flags(started.arguments, BOOLEANS, SEVERAL)
        script = _script(started, parsed.mapping)
        if script is None:
            return
        words = [started.word, *started.arguments]
        parsed.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        reading = Reading(
            self.name, launch.document, parsed.mapping, why=f"open_instruct {script}", framework=FRAMEWORK
        )
        facts = FactReader(reading)
        reading.facts.state("framework", FRAMEWORK, reading.origin())
        trainer.state_model(facts, "model_name_or_path")
        _state_sharding(facts)
        base = _METHODS[script]
        learns = base in ("grpo", "ppo")
        if learns:
            _state_learners(facts)
            _state_rollouts(facts)
        facts.integer("micro_batch_size", "per_device_train_batch_size", low=1)
        if not learns:
            facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
            facts.boolean("reduces_each_micro_step", "sync_each_batch")
            facts.integer("sequence_length", "max_seq_length", "max_token_length", low=1)
        facts.number("epochs", "num_train_epochs", "num_epochs", low=0)
        facts.integer("max_steps", "max_train_steps", low=1)
        facts.boolean("packing", "packing")
        trainer.state_checkpointing(facts)
        trainer.state_kernels(facts)
        _state_optimizer(facts)
        trainer.state_quantization(facts)
        if facts.on("use_lora") or facts.on("use_qlora"):
            trainer.state_lora(facts)
            trainer.state_method(facts, base)
        else:
            facts.default("method", base, FRAMEWORK, "", script)
        facts.default("weight_dtype", "bf16", FRAMEWORK, "", "torch_dtype of from_pretrained")
        if reading.facts.value("gradient_checkpointing") is None:
            facts.default("gradient_checkpointing", "none", FRAMEWORK)
        if learns:
            facts.default("compute_dtype", "bf16", FRAMEWORK, "", "DeepSpeed's settings")
            facts.default("zero_stage", 0, FRAMEWORK, "", "deepspeed_stage")
        if open_ended(parsed.positionals):
            reading.facts = without_defaults(reading.facts)
        yield reading


DIALECT = OpenInstruct()
