"""TRL's configs: a trainer's ``…Config`` with the keys of ``ModelConfig`` and ``ScriptArguments`` beside it.

The trainer is known from keys that only it has; where a file has none (``beta`` and ``max_length`` are shared by DPO,
ORPO, CPO and KTO) the names of its output and its data decide, and DPO, by far the most used of them, comes last.
Recipes of open-r1 and the alignment handbook are TRL configs with keys of their own.

Names and defaults: trl/trainer/*_config.py, 0.7 to 1.16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, OwnCommand, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.hf_training_args import (
    TRAINING_ARGUMENTS,
    adapter_switch,
    state_batch,
    state_checkpointing,
    state_defaults,
    state_kernels,
    state_loading_default,
    state_lora,
    state_method,
    state_model,
    state_precision,
    state_quantization,
    state_schedule,
    state_sharding,
)
from cfglint.dialects.launcher_arguments import state_accelerate
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, scalar, text
from cfglint.jobs.defaults import TRL_SFT_LOSS
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Route, Scalar
from cfglint.source.shell import Word

_TRAINER_KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("rloo", ("rloo_k", "reward_clip_range", "normalize_advantages", "num_mini_batches_rloo")),
    ("grpo", ("num_generations", "reward_funcs", "reward_weights", "epsilon_high", "scale_rewards", "num_iterations",
              "importance_sampling_level", "steps_per_generation", "vllm_mode", "generation_batch_size",
              "vllm_gpu_memory_utilization", "mask_truncated_completions", "top_entropy_quantile", "use_vllm")),
    ("ppo", ("num_ppo_epochs", "vf_coef", "cliprange", "cliprange_value", "kl_coef", "whiten_rewards",
             "response_length", "reward_model_path")),
    ("distillation", ("teacher_model_name_or_path", "lmbda", "seq_kd", "teacher_model_init_kwargs")),
    ("kto", ("desirable_weight", "undesirable_weight")),
    ("bco", ("prompt_sample_size", "min_density_ratio", "max_density_ratio")),
    ("cpo", ("cpo_alpha", "simpo_gamma")),
    ("online_dpo", ("reward_model_path_online", "judge", "missing_eos_penalty")),
    ("dpo", ("precompute_ref_log_probs", "ref_model_init_kwargs", "ref_adapter_name", "sync_ref_model", "rpo_alpha",
             "dpo_alpha", "f_divergence_type", "discopop_tau", "ld_alpha", "force_use_ref_model", "use_weighting",
             "reference_free", "dpop_lambda")),
    ("reward", ("center_rewards_coefficient",)),
    ("sft", ("packing", "dataset_text_field", "completion_only_loss", "assistant_only_loss", "max_seq_length",
             "packing_strategy", "eval_packing", "num_of_sequences", "dataset_kwargs", "neftune_noise_alpha")),
)  # fmt: skip
"""Keys only one trainer's config has, tried in this order: later trainers' keys occur in earlier ones' configs."""

_NAMES = (
    "online_dpo",
    "grpo",
    "rloo",
    "ppo",
    "orpo",
    "cpo",
    "simpo",
    "kto",
    "bco",
    "dpo",
    "apo",
    "ipo",
    "sft",
    "reward",
    "gkd",
)
_NAMED = {"simpo": "cpo", "apo": "dpo", "ipo": "dpo", "gkd": "distillation"}

_METHODS = {
    "sft": "full", "dpo": "dpo", "online_dpo": "dpo", "orpo": "orpo", "cpo": "cpo", "kto": "kto", "bco": "kto",
    "reward": "reward", "grpo": "grpo", "rloo": "rloo", "ppo": "ppo", "distillation": "distill", "gkd": "distill",
}  # fmt: skip
"""Trainer to the method whose models it holds in memory."""

_LEARNING_RATES = {
    "sft": 2e-5, "dpo": 1e-6, "kto": 1e-6, "orpo": 1e-6, "cpo": 1e-6, "grpo": 1e-6, "rloo": 1e-6,
    "distillation": 1e-6, "reward": 1e-4, "online_dpo": 5e-7, "ppo": 3e-6,
}  # fmt: skip

_LEARNING_RATES_SINCE = {"reward": "0.24", "ppo": "0.29"}
"""First release with these defaults, where it is not 0.12; transformers' own before."""

_CHUNKED_SINCE = "1.15"
"""First release whose trainers score tokens tile by tile (``add_fused_lm_head``), so that the logits never exist at once:
in the job file's words `fused_linear`, not torchtune's `chunked`, which keeps them."""
_CHUNKED = frozenset({"dpo", "kto", "grpo", "rloo"})

_PREPARES_UNTIL = {"dpo": "0.29", "rloo": "0.27"}
"""First release whose trainer no longer calls prepare_model_for_kbit_training; 0.26 for the others."""

_ONLY_TRL = frozenset(
    {"dataset_name", "dataset_config", "dataset_mixture", "dataset_train_split", "dataset_test_split", "dataset_streaming",
     "use_peft", "max_prompt_length", "max_completion_length", "lora_task_type", "use_bnb_nested_quant", "beta",
     "loss_type", "padding_free", "dataset_num_proc", "dataset_splits", "dataset_configs"}
    | {key for _, keys in _TRAINER_KEYS for key in keys}
) - {"neftune_noise_alpha", "use_vllm", "judge", "max_seq_length", "lmbda", "vllm_gpu_memory_utilization"}  # fmt: skip

_EXAMPLE_SCRIPTS = frozenset({
    "dataset_config_name", "block_size", "train_file", "validation_file", "test_file", "max_source_length",
    "preprocessing_num_workers", "max_train_samples", "max_eval_samples", "pad_to_max_length", "task_name", "do_train",
    "overwrite_cache", "tokenizer_name", "config_name", "use_fast_tokenizer", "text_column", "source_lang",
})  # fmt: skip
"""Keys of transformers' example scripts, which also name their data with ``dataset_name``."""

_DATASETS = frozenset({"dataset_name", "dataset_mixture", "dataset_mixer"})

_OTHERS = frozenset({
    "dataset_mix_dir", "dataset_mixer_list", "with_tracking", "use_slow_tokenizer", "finetuning_type", "tuner_type",
    "train_type", "base_model", "rlhf_type", "_target_", "actor_rollout_ref", "policy",
    "trainer", "rollout_batch_size", "actor_train", "apiVersion", "kind", "jobs", "training_data_path", "conversation_template", "dataset_path_list",
})  # fmt: skip
"""Keys of trainers that share names with TRL: open-instruct, LLaMA-Factory, ms-swift, Axolotl, verl …"""


_SFT_LOSSES: Final = frozenset({"nll", "dft", "chunked_nll"})
"""``loss_type`` of ``SFTConfig``; the other trainers have others (``trl/trainer/*_config.py``)."""


def trainer_of(facts: FactReader, hint: str = "") -> tuple[str, str | None]:
    """The trainer and the key that shows it (None: nothing does)."""
    if hint:
        return hint, None
    if text(facts.value("loss_type")) in _SFT_LOSSES:
        return "sft", "loss_type"
    preference = facts.has("beta", "loss_type", "max_prompt_length", "max_completion_length")
    for trainer, keys in _TRAINER_KEYS:
        if trainer == "sft" and preference:
            continue
        for key in keys:
            if facts.given(key):
                return trainer, key
    words = " ".join(
        str(value).lower()
        for key in ("output_dir", "hub_model_id", "run_name", "wandb_project", "dataset_name")
        if isinstance(value := facts.value(key), str)
    )
    named = next((n for n in _NAMES if re.search(rf"(?<![a-z]){n}(?![a-z])", words)), None)
    if preference:
        trainer = _NAMED.get(named or "", named or "dpo")
        shown = next(
            key for key in ("beta", "loss_type", "max_prompt_length", "max_completion_length") if facts.given(key)
        )
        return (trainer if trainer != "sft" else "dpo"), shown
    if named in ("dpo", "apo", "ipo", "orpo", "kto", "grpo", "reward") and named is not None:
        return _NAMED.get(named, named), None
    return "sft", None


def named_trainer(root: Mapping) -> str | None:
    """The trainer that a script's own ``trainer`` key names: ``SFT``, ``GRPOTrainer``."""
    word = text(scalar(root.get("trainer")))
    name = (word or "").strip().lower().replace("-", "_").removesuffix("trainer").strip("_ ")
    return _NAMED.get(name, name) if name in _NAMES else None


def _state_length(facts: FactReader, trainer: str) -> None:
    """Prompt and completion of trainers that sample are bounded one by one; the others have one bound for both."""
    if trainer in ("grpo", "rloo", "online_dpo", "distillation"):
        prompt, completion = integer(facts.value("max_prompt_length")), integer(facts.value("max_completion_length"))
        if prompt is not None and completion is not None and prompt > 0 and completion > 0:
            inputs = tuple(
                facts.reading.origin(*facts.prefix, key) for key in ("max_prompt_length", "max_completion_length")
            )
            origin = DerivedOrigin(f"{prompt} prompt + {completion} completion tokens", inputs)
            facts.reading.facts.state("sequence_length", prompt + completion, origin)
        elif facts.given("max_prompt_length") or facts.given("max_completion_length"):
            facts.reading.facts.state("sequence_length", UNKNOWN, facts.origin("max_completion_length"))
        return
    node = facts.node("max_length")
    if isinstance(node, Scalar) and node.value is None:
        # null: sequences are not cut
        facts.state("sequence_length", UNKNOWN, "max_length")
    facts.integer("sequence_length", "max_length", "max_seq_length", low=1)


def _state_length_default(facts: FactReader, trainer: str) -> None:
    stated = facts.reading.facts.stated
    if stated("sequence_length"):
        return
    if trainer == "sft":
        facts.default("sequence_length", 1024, "trl", ">=0.15")
        facts.default("sequence_length", 1024, "trl", "<0.15", "the smaller of the tokenizer's limit and 1024")
    elif trainer in ("dpo", "orpo", "cpo", "kto", "bco", "reward"):
        facts.default("sequence_length", 1024, "trl", ">=0.14")
        facts.default("sequence_length", 512, "trl", "<0.14")
    elif trainer in ("grpo", "rloo"):
        # no bound on the prompt since 0.28; 512 + 256 tokens before
        facts.default("sequence_length", UNKNOWN, "trl", ">=0.26", "prompts are not cut")
        facts.default("sequence_length", 768, "trl", "<0.26")


def _state_loss_default(facts: FactReader, trainer: str) -> None:
    if trainer in _CHUNKED:
        facts.default("loss_kernel", "fused_linear", "trl", f">={_CHUNKED_SINCE}")
        facts.default("loss_kernel", "torch", "trl", f"<{_CHUNKED_SINCE}")
    if trainer != "sft":
        return
    whole = {"nll": "torch", "dft": "selective"}.get(text(facts.value("loss_type")) or "")
    for releases, kernel in TRL_SFT_LOSS:
        facts.default("loss_kernel", kernel if whole is None or kernel == "fused_linear" else whole, "trl", releases)


def _state_trl_defaults(facts: FactReader, trainer: str) -> None:
    """Where TRL departs from ``TrainingArguments``; stated before the defaults of those."""
    stated = facts.reading.facts.stated
    rate = _LEARNING_RATES.get(trainer)
    if not stated("learning_rate") and rate is not None:
        since = _LEARNING_RATES_SINCE.get(trainer, "0.12")
        facts.default("learning_rate", rate, "trl", f">={since}")
        facts.default("learning_rate", 5e-5, "trl", f"<{since}")
    if not stated("gradient_checkpointing"):
        facts.default("gradient_checkpointing", "full", "trl", ">=0.22")
        facts.default("gradient_checkpointing", "none", "trl", "<0.22")
    off = boolean(facts.value("bf16")) is False
    if not stated("compute_dtype"):
        if not off:
            facts.default("compute_dtype", "bf16", "trl", ">=0.19", "unless fp16 is on")
            facts.default("compute_dtype", "none", "trl", "<0.19")
        else:
            facts.default("compute_dtype", "none", "trl")
    if not stated("weight_dtype"):
        facts.default("weight_dtype", "fp32", "trl", ">=0.27")
        state_loading_default(facts)
    if not stated("loss_kernel"):
        _state_loss_default(facts, trainer)
    if stated("quantization"):
        since = _PREPARES_UNTIL.get(trainer, "0.26")
        facts.default("upcast_unquantized", False, "trl", f">={since}")
        facts.default("upcast_unquantized", True, "trl", f"<{since}")
    if facts.on("packing") and not facts.on("padding_free") and trainer == "sft":
        whole = text(facts.value("packing_strategy")) != "wrapped"
        facts.default("padding_free", whole, "trl", ">=0.19", "packing keeps whole samples")
        facts.default("padding_free", False, "trl", "<0.19")
    if not stated("packing") and trainer == "sft":
        facts.default("packing", False, "trl")
    _state_length_default(facts, trainer)


def _state_adapter(facts: FactReader, trainer: str, shown: str | None) -> None:
    switch = adapter_switch(facts)
    method = _METHODS.get(trainer, "full")
    if switch is None or switch[0] not in ("use_peft", "use_lora", "use_qlora"):
        # TRL passes over lora_r and its like unless use_peft is on
        facts.reading.context["adapters_on"] = False
        if shown is not None and method != "full":
            facts.state("method", method, shown)
        else:
            facts.default("method", method, "trl", "", "use_peft is off")
        return
    facts.reading.context["adapters_on"] = switch[1]
    state_method(facts, method, *([shown] if shown is not None and method != "full" else []))
    if switch[1]:
        state_lora(facts)
        for fact, value in (("lora_rank", 16), ("lora_alpha", 32.0), ("lora_dropout", 0.05)):
            if not facts.reading.facts.stated(fact):
                facts.default(fact, value, "trl")


def _state_reference(facts: FactReader, trainer: str) -> None:
    """Where the reference's log-probabilities come from, as far as the file says; the releases' defaults are the estimate's.

    TRL loads a reference for DPO and KTO unless adapters can be switched off (``reference_free`` only passes over what it
    says), and for GRPO and RLOO where ``beta`` is not 0 (``dpo_trainer.py``, ``grpo_trainer.py``).
    """
    if trainer in ("dpo", "kto", "bco"):
        if facts.on("precompute_ref_log_probs"):
            facts.state("reference", "precomputed", "precompute_ref_log_probs")
        elif facts.on("force_use_ref_model"):
            facts.state("reference", "model", "force_use_ref_model")
    elif trainer in ("grpo", "rloo"):
        facts.weighed_reference("beta")
        facts.integer("completion_length", "max_completion_length", low=1)
        if not facts.reading.facts.stated("completion_length"):
            facts.default("completion_length", 512, "trl", ">=1.10")
            facts.default("completion_length", 256, "trl", "<1.10")


def _state_generation(facts: FactReader, trainer: str) -> None:
    """What trainers that sample hold besides the policy: for the estimators and rules, in the context."""
    context: dict[str, Any] = {}
    for key in (
        "num_generations", "use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size",
        "vllm_enable_sleep_mode", "beta", "max_prompt_length", "max_completion_length", "steps_per_generation",
        "generation_batch_size", "num_iterations", "precompute_ref_log_probs", "sync_ref_model", "loss_type",
    ):  # fmt: skip
        if facts.given(key):
            context[key] = facts.value(key)
    if context:
        facts.reading.context["trainer_settings"] = context
    if facts.on("use_vllm") and text(facts.value("vllm_mode")) == "colocate":
        if facts.number("rollout_gpu_memory_utilization", "vllm_gpu_memory_utilization", low=0) is None:
            facts.default("rollout_gpu_memory_utilization", 0.3, "trl", "", "vllm_gpu_memory_utilization")
        facts.boolean("rollout_sleeps", "vllm_enable_sleep_mode")


def read_trl(document: Document, root: Mapping, *, base: Route = (), why: str = "", hint: str = "") -> Reading:
    """A reading of a TRL config or of the flags of a TRL script. ``hint``: the trainer the command names (``dpo``)."""
    reading = Reading("trl", document, root, base=base, why=why, framework="trl")
    facts = FactReader(reading)
    named = named_trainer(root) if isinstance(root, Mapping) and not base else None
    trainer, shown = trainer_of(facts, hint.strip().lower().replace("-", "_") or named or "")
    reading.context["trainer"] = trainer
    if named is not None:
        reading.context["script"] = "names its trainer"  # with keys of its own
    reading.facts.state("framework", "trl", reading.origin())
    state_model(facts)
    inner = facts.under("model_init_kwargs")
    inner.dtype("weight_dtype", "dtype", "torch_dtype")
    inner.attention("attention", "attn_implementation")
    state_precision(facts)
    state_batch(facts)
    state_schedule(facts)
    state_checkpointing(facts)
    state_kernels(facts)
    if trainer == "sft" and facts.value("loss_type") == "chunked_nll":
        facts.state("loss_kernel", "checkpointed", "loss_type")
    state_sharding(facts)
    _state_length(facts, trainer)
    facts.boolean("packing", "packing")
    facts.boolean("padding_free", "padding_free")
    facts.boolean("activation_offloading", "activation_offloading")
    state_quantization(facts)
    _state_adapter(facts, trainer, shown)
    _state_generation(facts, trainer)
    _state_reference(facts, trainer)
    _state_trl_defaults(facts, trainer)
    state_defaults(facts)
    return reading


TRAINERS: Final = frozenset({"sft", "dpo", "kto", "orpo", "grpo", "rloo", "reward", "ppo", "cpo"})
"""``trl <name>``, and TRL's own scripts ``<name>.py``."""


class Trl(Dialect):
    name = "trl"
    title = "TRL"
    summary = "TRL's SFT, DPO, GRPO and other configs, recipes of open-r1 and the alignment handbook"
    schema = "trl"
    scripts = frozenset(f"{name}.py" for name in TRAINERS)
    markers = frozenset({
        "dataset_name", "dataset_mixture", "use_peft", "max_prompt_length", "max_completion_length", "num_generations",
        "reward_funcs", "dataset_train_split", "dataset_test_split", "dataset_text_field", "per_device_train_batch_size",
        "dataset_mixer", "precompute_ref_log_probs",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if named_trainer(root) is not None:
            beside = [key for key in root.index if key in _ONLY_TRL or key in TRAINING_ARGUMENTS]
            return Recognition(40, because(["trainer", *beside[:2]])) if beside else None
        if root.index.keys() & _OTHERS:
            return None
        own = [key for key in root.index if key in _ONLY_TRL]
        if own == ["dataset_name"] and root.index.keys() & _EXAMPLE_SCRIPTS:
            return None
        if "train_file" in root and not root.index.keys() & _DATASETS:
            return None  # a script of its own: TRL's takes data by the name of a dataset
        mixer = isinstance(root.get("dataset_mixer"), Mapping)
        arguments = evidence(root, TRAINING_ARGUMENTS)
        model = evidence(root, ("model_name_or_path",))
        several = bool(model) and len(own) >= 3
        if not (own or mixer) or (not several and (not arguments or len(model) + len(arguments) < 2)):
            return None
        telling = evidence(root, ("per_device_train_batch_size", "learning_rate", "output_dir"), most=1)
        known = len(own) + sum(key in TRAINING_ARGUMENTS for key in root.index)
        if not model and "per_device_train_batch_size" not in root and (len(own) < 2 or known * 2 < len(root)):
            return None
        if not telling and len(own) < (2 if model else 3):
            return None
        return Recognition(65, because([*model, *(own or ["dataset_mixer"])[:1], *telling]))

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_trl(document, root)

    def own_command(self, started: Program) -> OwnCommand | None:
        """``trl sft …`` and ``python -m trl.scripts.sft``."""
        if started.module:
            task = started.name.removeprefix("trl.scripts.")
            return OwnCommand(started.arguments, task) if task != started.name and task in TRAINERS else None
        first = started.arguments[0].text if started.arguments else ""
        return OwnCommand(started.arguments[1:], first) if started.name == "trl" and first in TRAINERS else None

    def read_flags(self, document: Document, flags: Mapping, task: str) -> Iterator[Reading]:
        yield read_trl(document, flags, hint=task)

    def state_launcher(self, reading: Reading, flags: Mapping, positionals: list[Word]) -> None:
        state_accelerate(reading, flags)


DIALECT = Trl()
