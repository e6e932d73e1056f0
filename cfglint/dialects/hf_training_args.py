"""Hugging Face ``TrainingArguments`` in JSON, YAML or flags, with the arguments scripts around ``Trainer`` add.

Scripts add a model (``model_name_or_path``), a sequence length, an adapter (``use_lora``, ``lora_r``), a quantization
(``load_in_4bit``): transformers' own examples, open-instruct, LMFlow, FastChat and their descendants agree on most
names. TRL and LLaMA-Factory subclass ``TrainingArguments`` and are read with the functions of this module.

Names and defaults: transformers/training_args.py, 4.44 to 5.24.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.deepspeed import state_deepspeed
from cfglint.dialects.fsdp import is_setting, state_fsdp_defaults, state_fsdp_options, state_fsdp_settings
from cfglint.dialects.schema import is_unknown, load_schema
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, number, scalar, text
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document, Mapping, Route

TRAINING_ARGUMENTS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "per_device_eval_batch_size", "num_train_epochs",
    "lr_scheduler_type", "evaluation_strategy", "eval_strategy", "save_strategy", "logging_strategy", "warmup_ratio",
    "gradient_checkpointing", "save_total_limit", "logging_steps", "learning_rate", "max_grad_norm", "weight_decay",
    "warmup_steps", "save_steps", "eval_steps", "max_steps", "output_dir", "overwrite_output_dir", "report_to",
    "bf16", "fp16", "tf32", "optim", "deepspeed", "fsdp", "fsdp_config", "remove_unused_columns", "do_train", "do_eval",
    "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "ddp_find_unused_parameters", "adam_beta1",
    "adam_beta2", "adam_epsilon", "dataloader_num_workers", "push_to_hub", "hub_model_id", "run_name", "seed",
    "gradient_checkpointing_kwargs", "activation_checkpointing", "group_by_length", "per_gpu_train_batch_size",
    "neftune_noise_alpha", "torch_compile", "use_liger_kernel", "include_num_input_tokens_seen", "lr_scheduler_kwargs",
    "dataloader_pin_memory", "ddp_timeout", "logging_first_step", "hub_strategy", "eval_on_start", "optim_args", "prediction_loss_only",
)  # fmt: skip
"""Fields of ``TrainingArguments``, the most telling first."""

_ONLY_HERE = frozenset({
    "per_device_train_batch_size", "per_device_eval_batch_size", "per_gpu_train_batch_size", "num_train_epochs",
    "lr_scheduler_type", "evaluation_strategy", "overwrite_output_dir", "gradient_checkpointing_kwargs",
    "ddp_find_unused_parameters", "neftune_noise_alpha",
})  # fmt: skip

_SCRIPT_KEYS = frozenset({
    "model_name_or_path", "model_name", "model_id", "model_type", "adapter", "task", "dtype", "torch_dtype", "device_map",
    "attn_implementation", "max_seq_length", "max_length", "block_size", "model_max_length", "dataset_name",
    "dataset_config_name", "train_file", "validation_file", "tokenizer_name", "trust_remote_code", "use_peft", "use_lora",
    "lora_r", "lora_rank", "lora_alpha", "lora_dropout", "lora_target_modules", "load_in_4bit", "load_in_8bit",
    "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant", "packing", "use_flash_attention_2",
    "max_train_samples", "max_eval_samples", "preprocessing_num_workers", "low_cpu_mem_usage", "config_name", "lora",
    "use_qlora", "q_lora", "lora_enable", "peft", "use_flash_attn", "use_flash_attention", "flash_attn", "max_seq_len",
    "seq_length", "sequence_length", "cutoff_len", "max_source_length", "max_target_length", "zero_stage", "mixed_precision",
    "model_init_kwargs", "quantization_config", "peft_method", "r", "target_modules", "streaming", "num_samples",
    "max_samples", "tokenizer_name_or_path", "model_revision", "use_fast_tokenizer", "compute_metrics", "pad_token",
    "eos_token", "special_tokens", "tokenizer", "data_collator", "modules_to_save", "lora_modules_to_save",
})  # fmt: skip
"""Arguments that scripts around ``Trainer`` commonly add."""

_ANYWHERE = frozenset({
    "seed", "output_dir", "run_name", "report_to", "max_steps", "learning_rate", "weight_decay", "save_steps",
    "eval_steps", "warmup_steps", "deepspeed", "logging_steps", "optim",
})  # fmt: skip
"""Fields of ``TrainingArguments`` that stand in many other programs' files too."""

_OPEN_INSTRUCT = ("dataset_mixer_list", "dataset_mix_dir", "with_tracking", "use_slow_tokenizer")
"""Keys of open-instruct's arguments."""

_TRAINS_SOMETHING = frozenset({
    "adapter", "use_peft", "use_lora", "lora_r", "lora_rank", "lora_alpha", "lora_enable", "q_lora", "peft", "data_collator",
    "packing", "train_file", "modules_to_save", "lora_target_modules",
})  # fmt: skip
"""Those of them that only training has."""

STRANGE_SHARE = 3
"""One key in so many may be a script's own beside a model and a trainer's arguments."""

SMALL_FILE = 40
"""Keys up to which a file without telling keys is held against the whole table of arguments."""

_FOREIGN = frozenset({
    "finetuning_type", "train_type", "tuner_type", "tuner_backend", "rlhf_type", "swift_version", "_target_",
    "defaults", "actor_rollout_ref", "rollout_batch_size", "policy", "trainer", "recipe", "actor_train", "models",
    "apiVersion", "kind", "jobs", "steps",
})  # fmt: skip
"""Keys that show another trainer which borrows names from ``TrainingArguments``."""

_SEQUENCE_LENGTHS = (
    "max_seq_length", "max_length", "block_size", "model_max_length", "max_seq_len", "cutoff_len", "seq_length",
    "sequence_length", "max_source_length",
)  # fmt: skip
_LORA_RANKS = ("lora_r", "lora_rank", "r")
_PARTIAL = re.compile(
    r"(^|_)(freeze|frozen)(_|$)|(^|_)lora(_dim|_rank|_r)?$|^only_optimize|^freeze|^unfreeze|^tune_|tunable"
    r"|^pre_seq_len$|^num_virtual_tokens$"
)
"""Arguments by which scripts of their own train a part of a model: ``freeze_llm``, ``use_llm_lora 16``, ``lora_dim``,
``mm_tunable_parts``, ``pre_seq_len`` (P-tuning)."""
_ADAPTER_SWITCHES = ("use_peft", "use_lora", "use_peft_lora", "lora", "use_qlora", "q_lora", "lora_enable", "peft")
_ADAPTER_WORDS = ("adapter", "peft", "peft_method", "peft_type", "finetuning_method", "tuning_type")
"""Keys by which scripts name the kind of adapter: ``adapter: lora``."""


def state_model(facts: FactReader, *keys: str) -> None:
    """The model, its code, the dtype it is loaded in and its attention kernel."""
    facts.model(*(keys or ("model_name_or_path", "model_name", "model_id", "model")))
    facts.boolean("trust_remote_code", "trust_remote_code")
    state_weight_dtype(facts, "dtype", "torch_dtype", "model_dtype")
    if facts.attention("attention", "attn_implementation", "attn_implementation_internal") is None:
        for key in ("use_flash_attention_2", "use_flash_attn", "use_flash_attention", "flash_attn"):
            if facts.on(key):
                facts.state("attention", "flash2", key)


def state_weight_dtype(facts: FactReader, *keys: str) -> None:
    """``auto`` is the checkpoint's own dtype: stated as unknown, with ``weight_dtype`` in the reading's context."""
    stated = facts.dtype("weight_dtype", *keys)
    if stated is UNKNOWN and any(facts.value(key) == "auto" for key in keys):
        facts.reading.context["weight_dtype"] = "auto"


def state_precision(facts: FactReader) -> None:
    """``fp16`` comes before ``bf16`` where both are on; both off leaves the launcher's word (Accelerate) in force."""
    for key in ("fp16", "bf16"):
        value = facts.value(key)
        if is_unknown(value):
            facts.state("compute_dtype", UNKNOWN, key)
        elif boolean(value) is True:
            facts.state("compute_dtype", key, key)
    facts.dtype("compute_dtype", "mixed_precision")
    facts.boolean("tf32", "tf32")


SYNC_EACH_BATCH = ("accelerator_config", "gradient_accumulation_kwargs", "sync_each_batch")


def state_batch(facts: FactReader) -> None:
    facts.integer(
        "micro_batch_size", "per_device_train_batch_size", "per_gpu_train_batch_size", "per_device_batch_size", low=1
    )
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    facts.boolean("reduces_each_micro_step", SYNC_EACH_BATCH)
    facts.number("epochs", "num_train_epochs", low=0)
    facts.integer("max_steps", "max_steps", low=1)
    state_evaluation(facts)
    state_saving(facts)


def state_evaluation(facts: FactReader) -> None:
    """Whether and how the run stops to evaluate. ``do_eval`` alone is an evaluation at the end, by the script."""
    for key in ("eval_strategy", "evaluation_strategy"):
        value = facts.value(key)
        if is_unknown(value):
            facts.state("evaluates", UNKNOWN, key)
        elif isinstance(value, (str, bool)):
            on = value if isinstance(value, bool) else value.strip().lower().rpartition(".")[2] != "no"
            facts.state("evaluates", on, key)
    for key in ("do_eval", "eval_on_start"):
        if facts.on(key):
            facts.reading.facts.state_first("evaluates", True, facts.origin(key))
    facts.integer("eval_micro_batch_size", "per_device_eval_batch_size", "per_gpu_eval_batch_size", low=1)
    facts.boolean("use_cache", "use_cache")


def state_saving(facts: FactReader) -> None:
    """Whether checkpoints are written, and with the optimizer's states."""
    value = facts.value("save_strategy")
    if value is False or (isinstance(value, str) and value.strip().lower().rpartition(".")[2] == "no"):
        facts.state("saves", False, "save_strategy")
    if facts.on("save_only_model"):
        facts.state("saves_optimizer", False, "save_only_model")


def state_schedule(facts: FactReader) -> None:
    facts.optimizer("optimizer", "optim")
    if facts.on("adafactor"):
        facts.state("optimizer", "adafactor", "adafactor")
    facts.number("learning_rate", "learning_rate", low=0)
    facts.text("lr_scheduler", "lr_scheduler_type", "lr_scheduler")
    facts.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", "max_grad_norm", low=0)
    facts.number("warmup_ratio", "warmup_ratio", low=0)
    steps = number(facts.value("warmup_steps"))
    if steps is not None and 0 < steps < 1:
        # transformers 5 takes a share of all steps here
        facts.state("warmup_ratio", steps, "warmup_steps")
    else:
        facts.integer("warmup_steps", "warmup_steps", low=0)


def state_checkpointing(facts: FactReader) -> None:
    """``gradient_checkpointing`` and the name transformers 5 gives it; every n-th layer only is selective."""
    for key in ("activation_checkpointing", "gradient_checkpointing"):
        value = facts.value(key)
        if is_unknown(value):
            facts.state("gradient_checkpointing", UNKNOWN, key)
        on = boolean(value)
        if on is None:
            continue
        stride = integer(facts.value(f"{key}_kwargs", "every_n_layers"))
        word = "none" if not on else "selective" if stride is not None and stride > 1 else "full"
        facts.state("gradient_checkpointing", word, key)
        if word == "selective":
            facts.state("checkpoint_every", stride, f"{key}_kwargs", "every_n_layers")


def state_kernels(facts: FactReader) -> None:
    if (number(facts.value("label_smoothing_factor")) or 0) > 0:
        # labels are kept from the model, which then returns all logits (``Trainer.compute_loss``), Liger or not
        facts.state("loss_kernel", "smoothed", "label_smoothing_factor")
    for key in ("use_liger_kernel", "use_liger", "use_liger_loss", "enable_liger_kernel"):
        if not facts.on(key):
            continue
        if boolean(facts.value("liger_kernel_config", "fused_linear_cross_entropy")) is False:
            if facts.on("liger_kernel_config", "cross_entropy"):
                facts.state("loss_kernel", "triton", "liger_kernel_config", "cross_entropy")
        else:
            facts.state("loss_kernel", "fused_linear", key)
        if key != "use_liger_loss":
            kernels = (("rms_norm", "norm"), ("rope", "rotary"), ("swiglu", "mlp"))
            on = [name for kernel, name in kernels if boolean(facts.value("liger_kernel_config", kernel)) is not False]
            facts.state("block_kernels", on, key)
    for key in ("torch_compile_backend", "torch_compile_mode"):
        if facts.given(key):
            facts.state("compile", True, key)
    facts.boolean("compile", "torch_compile")


def state_sharding(facts: FactReader) -> None:
    """DeepSpeed (a path, or its settings in place), FSDP, and the parallel sizes of ``parallelism_config``."""
    for key in ("deepspeed", "deepspeed_config"):
        settings = facts.mapping(key)
        if settings is not None:
            facts.reading.context["deepspeed"] = settings
            state_deepspeed(facts.under(key))
        elif is_unknown(facts.value(key)):
            facts.state("zero_stage", UNKNOWN, key)
        elif text(facts.value(key)) is not None:
            facts.reference("deepspeed", key, base="cwd")
    facts.integer("zero_stage", "zero_stage", low=0)
    on = state_fsdp_options(facts)
    if on:
        if facts.mapping("fsdp_config") is not None:
            state_fsdp_settings(facts.under("fsdp_config"))
        else:
            facts.reference("fsdp", "fsdp_config", base="cwd")
        state_fsdp_defaults(facts, "transformers", ((2, ">=5.10"), (1, "<5.10")))
    sizes = facts.under("parallelism_config")
    for fact, key in (
        ("tensor_parallel_size", "tp_size"),
        ("context_parallel_size", "cp_size"),
        ("context_parallel_size", "sp_size"),
    ):
        sizes.integer(fact, key, low=2)
    facts.integer("tensor_parallel_size", "tp_size", low=1)


def state_sequence(facts: FactReader, *keys: str) -> None:
    facts.integer("sequence_length", *(keys or _SEQUENCE_LENGTHS), low=1)
    facts.boolean("packing", "packing")


def state_quantization(facts: FactReader) -> None:
    """bitsandbytes at load time. The names of its settings differ: ``use_bnb_nested_quant`` is TRL's."""
    nested = any(
        facts.on(key)
        for key in ("use_bnb_nested_quant", "bnb_4bit_use_double_quant", "use_nested_quant", "double_quant")
    )
    kind = text(facts.value("bnb_4bit_quant_type")) or text(facts.value("quant_type")) or "nf4"
    for key in ("load_in_4bit", "use_4bit", "use_4bit_quantization", "use_qlora", "q_lora"):
        value = facts.value(key)
        if is_unknown(value):
            facts.state("quantization", UNKNOWN, key)
        elif boolean(value) is True:
            fp4 = kind.lower() == "fp4"
            facts.state("quantization", "fp4" if fp4 else "nf4-double" if nested else "nf4", key)
    for key in ("load_in_8bit", "use_8bit", "use_8bit_quantization"):
        if facts.on(key):
            facts.state("quantization", "int8", key)
    for route in (("quantization_config",), ("model_init_kwargs", "quantization_config")):
        inner = facts.under(*route)
        if inner.on("load_in_4bit"):
            double = "nf4-double" if inner.on("bnb_4bit_use_double_quant") else "nf4"
            fp4 = (text(inner.value("bnb_4bit_quant_type")) or "").lower() == "fp4"
            inner.state("quantization", "fp4" if fp4 else double, "load_in_4bit")
        elif inner.on("load_in_8bit"):
            inner.state("quantization", "int8", "load_in_8bit")
    bits = integer(facts.value("bits"))
    if bits in (4, 8):
        facts.state("quantization", "int8" if bits == 8 else "nf4-double" if nested else "nf4", "bits")


def state_lora(facts: FactReader) -> None:
    facts.integer("lora_rank", *_LORA_RANKS, low=1)
    facts.number("lora_alpha", "lora_alpha", low=0)
    facts.number("lora_dropout", "lora_dropout", low=0)
    facts.names("lora_targets", "lora_target_modules", "target_modules")
    facts.names("lora_modules_to_save", "lora_modules_to_save", "modules_to_save")


def adapter_switch(facts: FactReader) -> tuple[str, bool] | None:
    """The key that says whether adapters are trained, and what it says; None where no key does."""
    for key in _ADAPTER_SWITCHES:
        value = boolean(facts.value(key))
        if value is not None and (value or key in ("use_peft", "use_lora", "use_peft_lora")):
            return key, value
    for key in _ADAPTER_WORDS:
        if (text(facts.value(key)) or "").strip().lower() in ("lora", "qlora", "dora", "rslora", "adalora"):
            return key, True
    for key in ("lora_r", "lora_rank", *(("r",) if facts.given("lora_alpha") else ())):
        if facts.given(key):
            return key, True
    return None


def _partial(facts: FactReader) -> str | None:
    """The key of a script's own argument that freezes parts of the model or adds adapters; None where none does."""
    root = facts.reading.root
    for key in root.index if isinstance(root, Mapping) else ():
        value = facts.value(key)
        if _PARTIAL.search(key) and (integer(value) or boolean(value) or is_unknown(value)):
            return key
        if key.endswith("tunable_parts") and isinstance(value, str) and value:
            return key
    return None


def state_method(facts: FactReader, base: str = "full", *said_by: str) -> None:
    """The method: what is trained for (``base``), and whether through adapters.

    ``said_by`` is the key that shows ``base``; where neither it nor an adapter key is there, ``Trainer`` trains all
    parameters of the model it is given.
    """
    facts_set = facts.reading.facts
    switch = adapter_switch(facts)
    if switch is not None and switch[1]:
        quantization = facts_set.value("quantization")
        adapter = "qlora" if quantization in ("nf4", "nf4-double", "fp4") else "lora"
        if facts.on("use_dora") and adapter == "lora" and base == "full":
            adapter = "dora"
        facts.state("method", adapter if base in ("full", "pretrain") else f"{base}+{adapter}", switch[0])
    elif said_by:
        facts.state("method", base, *said_by)
    elif switch is not None:
        facts.state("method", base, switch[0])
    elif (partly := _partial(facts)) is not None:
        # arguments of a script of its own: they train a part of the model, which part is not known here
        facts.state("method", UNKNOWN, partly)
    else:
        facts.default("method", base, facts.reading.framework or "transformers", "", "no adapter is named")


def state_defaults(facts: FactReader) -> None:
    """Defaults of ``TrainingArguments`` that decide memory and batch."""
    stated = facts.reading.facts.stated
    for fact, value in (
        ("micro_batch_size", 8),
        ("gradient_accumulation_steps", 1),
        ("learning_rate", 5e-5),
        ("lr_scheduler", "linear"),
        ("max_grad_norm", 1.0),
        ("weight_decay", 0.0),
        ("gradient_checkpointing", "none"),
        ("compute_dtype", "none"),
        ("loss_kernel", "torch"),
        ("compile", False),
    ):
        if not stated(fact):
            facts.default(fact, value, "transformers")
    if not stated("epochs") and not stated("max_steps"):
        facts.default("epochs", 3.0, "transformers")
    if not stated("optimizer"):
        # transformers 4.54 to 5 keep adamw_torch with torch before 2.8
        facts.default("optimizer", "adamw_torch_fused", "transformers", ">=4.54", "with torch >= 2.8")
        facts.default("optimizer", "adamw_torch", "transformers", "<4.54")


def state_loading_default(facts: FactReader) -> None:
    """``from_pretrained`` loads fp32 before transformers 5, and the checkpoint's own dtype since."""
    facts.default("weight_dtype", UNKNOWN, "transformers", ">=5", "the checkpoint's dtype")
    facts.default("weight_dtype", "fp32", "transformers", "<5")


def read_arguments(
    document: Document, root: Mapping, *, base: Route = (), why: str = "", framework: str = "transformers"
) -> Reading:
    """A reading of trainer arguments, wherever they stand: a file's mapping, or the flags of a command."""
    reading = Reading("hf-training-args", document, root, base=base, why=why, framework=framework)
    facts = FactReader(reading)
    reading.facts.state("framework", framework, reading.origin())
    state_model(facts)
    state_precision(facts)
    state_batch(facts)
    state_schedule(facts)
    state_checkpointing(facts)
    state_kernels(facts)
    state_sharding(facts)
    state_sequence(facts)
    state_quantization(facts)
    switch = adapter_switch(facts)
    if switch is None or switch[1]:
        state_lora(facts)
    _state_task(facts)
    if facts.has(*_OPEN_INSTRUCT):
        # its own training loop: transformers' defaults do not hold there
        reading.context["script"] = "open-instruct"
        return reading
    state_defaults(facts)
    if not reading.facts.stated("weight_dtype"):
        state_loading_default(facts)
    return reading


def sharding_part(root: Mapping) -> list[str]:
    """The keys of a file that holds FSDP settings alone, for ``fsdp_config`` to name; empty for every other file."""
    keys = [key for key in root.index if not key.startswith("_")]
    if set(keys) == {"fsdp", "fsdp_config"} and isinstance(root.get("fsdp_config"), Mapping):
        return keys
    own = any(key.startswith("fsdp_") or key == "transformer_layer_cls_to_wrap" for key in keys)
    return keys[:2] if len(keys) >= 2 and own and all(is_setting(key) for key in keys) else []


def read_sharding_part(document: Document, root: Mapping, *, why: str = "") -> Reading:
    reading = Reading("hf-training-args", document, root, role="part", why=why, framework="transformers")
    facts = FactReader(reading)
    state_fsdp_options(facts)
    state_fsdp_settings(facts.under("fsdp_config") if "fsdp_config" in root else facts)
    return reading


def _state_task(facts: FactReader) -> None:
    """open-instruct's and transformers' scripts show their task by a key of their own."""
    if facts.given("dpo_beta") or facts.given("dpo_loss_type"):
        facts.reading.context["trainer"] = "dpo"
        state_method(facts, "dpo", "dpo_beta" if facts.given("dpo_beta") else "dpo_loss_type")
    elif facts.given("config_overrides") or (facts.given("config_name") and not facts.given("model_name_or_path")):
        state_method(facts, "pretrain", "config_overrides" if facts.given("config_overrides") else "config_name")
    else:
        state_method(facts)


class HfTrainingArguments(Dialect):
    name = "hf-training-args"
    title = "Hugging Face TrainingArguments"
    summary = "Arguments of transformers' Trainer and of scripts around it, in JSON, YAML or flags"
    schema = "hf-training-args"
    markers = frozenset({
        "per_device_train_batch_size", "per_device_eval_batch_size", "num_train_epochs", "lr_scheduler_type",
        "evaluation_strategy", "eval_strategy", "save_strategy", "save_total_limit", "overwrite_output_dir",
        "gradient_checkpointing_kwargs", "ddp_find_unused_parameters", "model_name_or_path",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        keys = root.index.keys()
        if keys & _FOREIGN:
            return None
        found = evidence(root, TRAINING_ARGUMENTS, most=len(TRAINING_ARGUMENTS))
        model = evidence(root, ("model_name_or_path",))
        part = sharding_part(root)
        if part:
            return Recognition(55, because(part))
        if keys & _ONLY_HERE and (
            "per_device_train_batch_size" in root or (model and len(found) >= 3) or len(set(found) & _ONLY_HERE) >= 2
        ):
            return Recognition(60, because((found[:2] if model else found[:3]) + model))
        return self._small(root, found, model)

    def _small(self, root: Mapping, found: list[str], model: list[str]) -> Recognition | None:
        """A short file all of whose keys are trainer arguments, as people write them for one script."""
        named = scalar(root.get("deepspeed"))
        deepspeed = isinstance(named, str) and named.endswith(".json")
        if list(root.index) == ["deepspeed"]:
            return Recognition(30, "deepspeed") if deepspeed else None
        model = model or evidence(root, ("model_type",))
        loading = evidence(root, ("attn_implementation", "torch_dtype", "dtype")) if model else []
        telling = [key for key in found if key not in _ANYWHERE]
        script = [key for key in root.index if key in _TRAINS_SOMETHING] if model else []
        if not 2 <= len(root) <= SMALL_FILE or len(found) + len(model) + len(loading) + len(script) < 2:
            return None
        steps = len(found) >= 3 and "warmup_steps" in root and "max_steps" in root
        if not (
            model
            or deepspeed
            or (telling and len(found) >= 3)
            or len(telling) >= 2
            or root.index.keys() & _ONLY_HERE
            or steps
        ):
            return None
        if evidence(root, ("architectures", "hidden_size", "transformers_version")):
            return None
        schema = load_schema(self.schema or self.name)
        strange = [key for key in root.index if key not in _SCRIPT_KEYS and not schema.known(key)]
        few = len(strange) * STRANGE_SHARE <= len(root) and "model_name_or_path" in root and bool(telling or script)
        if not strange or few:
            return Recognition(35, because([*model, *(found or loading or script)[:2]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        if sharding_part(root):
            yield read_sharding_part(document, root)
        else:
            yield read_arguments(document, root)


DIALECT = HfTrainingArguments()
