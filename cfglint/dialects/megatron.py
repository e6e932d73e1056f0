"""Megatron-LM and its relatives: ``pretrain_*.py`` command lines, the functional tests' ``MODEL_ARGS``, Primus.

Command lines are known by their flags, so that forks with scripts of their own (Megatron-DeepSpeed, Pai-Megatron-Patch,
slime) are read too. Both spellings of a flag, ``--num-layers`` and ``--num_layers``, are one.

Names: Megatron-LM core 0.9 to 0.18 (``megatron/training/arguments.py``), Megatron-DeepSpeed, slime 0.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects import megatron_core, primus
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.carriers.shell import ARGUMENT_LIST
from cfglint.dialects.flags import flag_name, open_ended, read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, text, without_defaults
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Entry, Mapping, Scalar, Span

DISTINCTIVE: Final = frozenset({
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size", "num_attention_heads",
    "micro_batch_size", "global_batch_size", "train_iters", "train_samples", "lr_decay_style", "lr_decay_iters",
    "max_position_embeddings", "seq_length", "encoder_seq_length", "num_layers", "hidden_size", "ffn_hidden_size",
    "tokenizer_type", "use_distributed_optimizer", "sequence_parallel", "transformer_impl", "lr_warmup_fraction",
    "num_query_groups", "untie_embeddings_and_output_weights", "recompute_granularity", "clip_grad", "use_mcore_models",
    "distributed_backend", "lr_warmup_iters", "adam_beta2", "init_method_std", "no_load_optim", "save_interval", "split",
    "use_checkpoint_args", "normalization", "vocab_file", "merge_file", "data_path", "moe_token_dispatcher_type",
    "moe_router_topk", "megatron_to_hf_mode", "attention_softmax_in_fp32", "actor_num_gpus_per_node", "hf_checkpoint",
    "qkv_format", "num_layers_per_virtual_pipeline_stage", "pad_vocab_size_to", "decoder_num_layers", "target_tensor_parallel_size",
})  # fmt: skip

_OWN: Final = frozenset({
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "num_layers", "hidden_size",
    "use_mcore_models", "tokenizer_type", "lr_decay_style", "train_iters", "train_samples", "hf_checkpoint",
})  # fmt: skip
"""Flags of which a command must have two beside the others: the rest stand in many trainers' commands."""

NEEDED: Final = 3
"""Flags of :data:`DISTINCTIVE` that make a command Megatron's."""

_SCRIPT: Final = re.compile(r"(?:pretrain|finetune)_[a-z0-9_]+\.py")
"""Megatron's own scripts, which fork after fork keeps: they tell where the arguments cannot be seen."""

BOOLEANS: Final = frozenset({
    "bf16", "fp16", "swiglu", "squared_relu", "use_distributed_optimizer", "sequence_parallel", "disable_bias_linear",
    "untie_embeddings_and_output_weights", "group_query_attention", "use_flash_attn", "use_flash_attn_v2", "deepspeed",
    "recompute_activations", "checkpoint_activations", "deepspeed_activation_checkpointing", "finetune", "use_mcore_models",
    "overlap_grad_reduce", "overlap_param_gather", "use_rotary_position_embeddings", "qk_layernorm", "add_qkv_bias", "sft",
    "multi_latent_attention", "no_load_optim", "no_load_rng", "no_save_optim", "no_save_rng", "use_torch_fsdp2",
    "use_megatron_fsdp", "use_custom_fsdp", "cross_entropy_loss_fusion", "moe_grouped_gemm", "mock_data", "eod_mask_loss",
    "optimizer_cpu_offload", "no_weight_tying", "embed_layernorm", "colocate", "use_dynamic_batch_size",
    "no_masked_softmax_fusion", "no_position_embedding", "apply_layernorm_1p", "attention_softmax_in_fp32", "log_throughput",
    "tensorboard_log", "no_gradient_accumulation_fusion", "use_checkpoint_args", "auto_detect_ckpt_format", "cpu_optimizer",
    "no_rope_fusion", "no_bias_swiglu_fusion", "no_async_tensor_model_parallel_allreduce", "distribute_saved_activations",
    "universal_checkpoint", "no_pipeline_parallel", "log_timers_to_tensorboard", "log_validation_ppl_to_tensorboard",
})  # fmt: skip

SEVERAL: Final = frozenset({"recompute_modules"})
"""Arguments that take several words."""

_PARTLY: Final = ("freeze_LM", "freeze_ViT", "freeze_lm", "freeze_vit", "model_provider")
"""Arguments of the multimodal examples: they freeze the language model or the encoder, or build another model."""
_WHOLE_MODELS: Final = ("gpt", "mamba", "hybrid", "bert", "t5")

_FINETUNES: Final = frozenset({"finetune", "sft"})


def renamed(mapping: Mapping) -> Mapping:
    """``--num-layers: 12`` as ``num_layers: 12``, every value at its own place."""
    entries = [
        Entry(Scalar(entry.key.span, flag_name(entry.name), entry.key.raw), entry.value, entry.merged)
        for entry in mapping.entries
    ]
    return Mapping(mapping.span, entries)


def read_arguments(reading: Reading, facts: FactReader, *, script: str = "") -> None:
    """State what Megatron's arguments say, on a command line or in a test's file."""
    megatron_core.state_core(facts)
    if facts.on("bf16") and facts.on("deepspeed") and integer(facts.value("zero_stage")) == 0:
        # DeepSpeed's BF16_Optimizer shards states over data parallelism as stage 1 does (runtime/engine.py)
        facts.reading.facts.state(
            "zero_stage", 1, DerivedOrigin("BF16_Optimizer shards like stage 1", (facts.origin("zero_stage"),))
        )
    facts.integer("zero_stage", "zero_stage", low=0)
    if facts.on("cpu_optimizer"):
        facts.state("offload_optimizer", "cpu", "cpu_optimizer")
    facts.integer("gpus_per_node", "actor_num_gpus_per_node", low=1)
    facts.integer("nodes", "actor_num_nodes", low=1)
    partly = next((key for key in _PARTLY if facts.on(key) or (key == "model_provider" and facts.given(key))), None)
    if partly == "model_provider" and text(facts.value(partly)) in _WHOLE_MODELS:
        partly = None
    estimator = text(facts.value("advantage_estimator"))
    if partly is not None:
        facts.state("method", UNKNOWN, partly)
    elif estimator is not None:
        # slime trains by reinforcement from rollouts
        facts.state("method", "ppo" if estimator == "ppo" else "grpo", "advantage_estimator")
    elif any(facts.on(key) for key in _FINETUNES) or text(facts.value("train_mode")) == "finetune":
        key = next((key for key in (*sorted(_FINETUNES), "train_mode") if facts.given(key)), "train_mode")
        facts.state("method", "full", key)
    elif script.startswith("pretrain"):
        facts.default("method", "pretrain", "megatron", "", script)
    if facts.given("rampup_batch_size"):
        reading.context["rampup_batch_size"] = True
    if facts.given("num_layers"):
        megatron_core.state_dimensions(facts)
    _state_slime(facts)
    megatron_core.state_expert_tensor_default(facts)
    stated = reading.facts.stated
    for fact, value in (
        ("gradient_checkpointing", "none"), ("tensor_parallel_size", 1), ("pipeline_parallel_size", 1), ("max_grad_norm", 1.0),
        ("optimizer", "adamw_torch_fused"), ("precision_aware_optimizer", False),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "megatron")
    if not stated("weight_dtype"):
        facts.default("weight_dtype", "fp32", "megatron", "", "neither bf16 nor fp16 is on")
        facts.default("master_weights", False, "megatron", "", "neither bf16 nor fp16 is on")
    if not stated("zero_stage") and facts.given("deepspeed_config"):
        facts.default("zero_stage", UNKNOWN, "megatron-deepspeed", "", "the DeepSpeed file says how states are sharded")
    if not stated("zero_stage") and not stated("fsdp"):
        facts.default("zero_stage", 0, "megatron", "", "use_distributed_optimizer is off")


def _state_slime(facts: FactReader) -> None:
    """slime: the model is a Hugging Face checkpoint; bf16 and the distributed optimizer are always on, answers bound the length.

    ``slime/backends/megatron_utils/arguments.py`` and ``slime/utils/arguments.py``, main of 2026-08.
    """
    if not facts.given("hf_checkpoint") or not any(facts.given(key) for key in _SLIME):
        return
    stated = facts.reading.facts.stated
    if not stated("model_id") and facts.text("model_id", "hf_checkpoint") is not None:
        facts.reference("model", "hf_checkpoint", base="cwd")
    if not facts.on("fp16"):
        for fact, value in (("weight_dtype", "bf16"), ("compute_dtype", "bf16"), ("master_weights", True)):
            facts.reading.facts.state(fact, value, DerivedOrigin("slime sets bf16 where fp16 is not given"))
    facts.reading.facts.state("zero_stage", 1, DerivedOrigin("slime sets use_distributed_optimizer"))
    if facts.on("use_dynamic_batch_size"):
        facts.state(
            "micro_batch_size", UNKNOWN, "use_dynamic_batch_size"
        )  # sequences are packed up to a number of tokens
        tokens = integer(facts.value("max_tokens_per_gpu"))
        if tokens is not None:
            facts.reading.context["tokens_per_micro_batch"] = tokens
    share = facts.number("rollout_gpu_memory_utilization", "sglang_mem_fraction_static", low=0)
    if share is not None and facts.on("colocate"):
        # both are moved to the host in turn where no flag says otherwise
        for fact, key in (("rollout_sleeps", "offload_rollout"), ("trainer_sleeps", "offload_train")):
            facts.state(fact, not (facts.on(f"no_{key}") or boolean(facts.value(key)) is False), "colocate")
    if facts.integer("sequence_length", "rollout_max_context_len", low=1) is None:
        prompt, answer = (
            integer(facts.value("rollout_max_prompt_len")),
            integer(facts.value("rollout_max_response_len")),
        )
        if prompt and answer:
            how = f"rollout_max_prompt_len {prompt} + rollout_max_response_len {answer}"
            inputs = (facts.origin("rollout_max_prompt_len"), facts.origin("rollout_max_response_len"))
            facts.reading.facts.state("sequence_length", prompt + answer, DerivedOrigin(how, inputs))


_SLIME: Final = ("rollout_batch_size", "actor_num_gpus_per_node", "num_rollout", "rollout_num_gpus")


class Megatron(Dialect):
    name = "megatron"
    title = "Megatron-LM"
    summary = "Megatron-LM command lines and those of its forks (Megatron-DeepSpeed, slime …), functional tests' MODEL_ARGS, Primus experiments"
    markers = frozenset({"MODEL_ARGS", "ENV_VARS", "TEST_TYPE", "work_group", "exp_name", "modules"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        arguments = root.get("MODEL_ARGS")
        beside = evidence(root, ("ENV_VARS", "TEST_TYPE"))
        if isinstance(arguments, Mapping) and beside:
            return Recognition(92, because(["MODEL_ARGS", *beside]))
        module = primus.module_of(root, "megatron", "megatron_bridge")
        if module is not None:
            return Recognition(92, f"modules.{module}.framework")
        if _is_yaml_config(root):
            return Recognition(90, "language_model + model_parallel")
        found = sorted(set(root.index) & DISTINCTIVE & set(_PLAIN))
        if len(found) >= 4 and "tensor_model_parallel_size" in root and "policy" not in root:
            return Recognition(50, because(found[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        arguments = root.get("MODEL_ARGS")
        if isinstance(arguments, Mapping):
            yield _read_test(document, root, arguments)
            return
        module = primus.module_of(root, "megatron", "megatron_bridge")
        if module is not None:
            yield _read_primus(document, root, module)
            return
        if _is_yaml_config(root):
            yield _read_yaml_config(document, root)
            return
        reading = Reading("megatron", document, root, role="part", framework="megatron")
        reading.facts.state("framework", "megatron", reading.origin())
        reading.context["trains"] = False
        yield reading

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        """Lists of a model's arguments in a script that others source."""
        if not launch.words or launch.words[0].text != ARGUMENT_LIST:
            return
        parsed = read_flags(launch.words[1:], BOOLEANS, SEVERAL)
        keys = parsed.mapping.index.keys()
        if len(keys & DISTINCTIVE) < NEEDED or len(keys & _OWN) < 2:
            return
        reading = Reading("megatron", launch.document, parsed.mapping, role="part", framework="megatron")
        reading.why = because(sorted(keys & _OWN)[:3])
        reading.context["trains"] = False
        reading.facts.state("framework", "megatron", reading.origin())
        read_arguments(reading, FactReader(reading))
        yield reading

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        if not started.arguments or not (started.script or started.module):
            return
        parsed = read_flags(started.arguments, BOOLEANS, SEVERAL)
        keys = parsed.mapping.index.keys()
        if "yaml_cfg" in keys:
            yield _names_yaml_config(started, launch, parsed.mapping)
            return
        hidden = open_ended(parsed.positionals)
        enough = len(keys & DISTINCTIVE) >= NEEDED and len(keys & _OWN) >= 2
        own = bool(keys & DISTINCTIVE) or not keys  # a `finetune_*.py` of another project shows arguments of its own
        if not enough and not (hidden and own and _SCRIPT.fullmatch(basename(started.word.text))):
            return
        words = [started.word, *started.arguments]
        parsed.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        framework = "megatron-deepspeed" if "deepspeed" in keys else "megatron"
        why = because(sorted(keys & _OWN)[:3]) or basename(started.word.text)
        reading = Reading("megatron", launch.document, parsed.mapping, why=why, framework=framework)
        reading.context["standalone"] = True
        reading.facts.state("framework", framework, reading.origin())
        read_arguments(reading, FactReader(reading), script=basename(started.name))
        if hidden:
            reading.facts = without_defaults(reading.facts)
            reading.context["open_ended"] = True
        if not _trains(started, keys):
            reading.role = "part"
            reading.context["trains"] = False
        yield reading


_PLAIN: Final = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "num_attention_heads", "micro_batch_size", "num_layers",
    "global_batch_size", "hidden_size", "seq_length", "ffn_hidden_size", "train_iters", "max_position_embeddings",
)  # fmt: skip


def _trains(started: Program, keys: object) -> bool:
    """Checkpoint conversion, text generation, evaluation and preprocessing share the model's flags but train nothing."""
    name = basename(started.name).lower()
    other = (
        "convert",
        "hf2",
        "2hf",
        "checkpoint",
        "generat",
        "eval",
        "preprocess",
        "infer",
        "tools",
        "export",
        "server",
        "merge",
    )
    return not any(part in name for part in other)


def _read_test(document: Document, root: Mapping, arguments: Mapping) -> Reading:
    flags = renamed(arguments)
    reading = Reading("megatron", document, flags, base=("MODEL_ARGS",), framework="megatron")
    reading.facts.state("framework", "megatron", reading.origin())
    facts = ResolvingReader(reading)
    mode = root.get("MODE")
    if isinstance(mode, Scalar) and mode.value in ("inference", "rl"):
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    if any("." in key for key in flags.index):
        # a NeMo command in place of Megatron's: its keys are another program's
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    read_arguments(reading, facts, script="pretrain")
    return reading


_SECTIONS: Final = ("language_model", "model_parallel")


def _is_yaml_config(root: Mapping) -> bool:
    """Whether a file is one for ``--yaml-cfg``: arguments of the model and of parallelism in sections, the others beside them."""
    model, parallel = (root.get(key) for key in _SECTIONS)
    return (
        isinstance(model, Mapping)
        and isinstance(parallel, Mapping)
        and "num_layers" in model
        and "tensor_model_parallel_size" in parallel
    )


def _read_yaml_config(document: Document, root: Mapping) -> Reading:
    """``megatron/training/yaml_arguments.py``: the sections' arguments read as if they stood with the others."""
    entries = [entry for entry in root.entries if entry.name not in _SECTIONS]
    for key in _SECTIONS:
        section = root.get(key)
        entries.extend(section.entries if isinstance(section, Mapping) else ())
    gated = next((entry for entry in entries if entry.name == "activation_func"), None)
    if gated is not None and isinstance(gated.value, Scalar) and gated.value.value == "swiglu":
        entries.append(
            Entry(Scalar(gated.key.span, "swiglu", gated.key.raw), Scalar(gated.value.span, True, gated.value.raw))
        )
    reading = Reading("megatron", document, Mapping(root.span, entries), framework="megatron")
    reading.context["layout"] = "yaml-cfg"
    reading.facts.state("framework", "megatron", reading.origin())
    read_arguments(reading, FactReader(reading), script="pretrain")
    return reading


def _names_yaml_config(started: Program, launch: Launch, flags: Mapping) -> Reading:
    """``pretrain_gpt.py --yaml-cfg FILE``: all arguments stand in the file, which flags do not change."""
    words = [started.word, *started.arguments]
    flags.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
    reading = Reading("megatron", launch.document, flags, role="arguments", why="--yaml-cfg", framework="megatron")
    reading.facts.state("framework", "megatron", reading.origin())
    FactReader(reading).reference("config", "yaml_cfg", base="cwd")
    return reading


def _read_primus(document: Document, root: Mapping, module: str) -> Reading:
    reading = Reading("megatron", document, root, framework="megatron")
    reading.context["layout"] = "primus"
    primus.refer_to_bases(reading, root)
    whole = ResolvingReader(reading)
    settings = whole.under("modules", module)
    overrides = settings.under("overrides")
    reading.facts.state("framework", "megatron", reading.origin())
    megatron_core.state_core(overrides)
    megatron_core.state_expert_tensor_default(overrides)
    if overrides.mapping("lora") is not None and overrides.on("lora", "enabled"):
        megatron_core.state_lora(overrides.under("lora"))
        overrides.state("method", "lora", "lora", "enabled")
    elif text(overrides.value("stage")) == "sft" or (text(settings.value("config")) or "").startswith("sft"):
        overrides.state("method", "full", "stage") if overrides.given("stage") else settings.state(
            "method", "full", "config"
        )
    else:
        settings.state("method", "pretrain", "config")
    if not (overrides.given("num_layers") and _changes_size(overrides)):
        primus.state_preset(settings)
    stated = reading.facts.stated
    tuned = (text(settings.value("config")) or "").startswith("sft")
    for fact, value in (
        ("weight_dtype", "bf16"), ("compute_dtype", "bf16"), ("master_weights", True), ("gradient_checkpointing", "none"),
        ("zero_stage", 1), ("attention", "flash2"), ("micro_batch_size", 1 if tuned else 2), ("optimizer", "adamw_torch_fused"),
        ("sequence_length", 2048 if tuned else 1024), ("max_grad_norm", 1.0),
    ):  # fmt: skip
        if not stated(fact) and not (fact == "zero_stage" and stated("fsdp")):
            settings.default(fact, value, "megatron", "", "Primus' trainer configs")
    return reading


def _changes_size(overrides: ResolvingReader) -> bool:
    """Overrides that make another model of the preset (a few layers of a large one)."""
    return any(integer(overrides.value(key)) is not None for key in ("num_layers", "hidden_size", "num_experts"))


DIALECT = Megatron()
