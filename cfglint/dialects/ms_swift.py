"""ms-swift: ``swift sft``, ``pt`` and ``rlhf`` with flags or a file of the same names, and ``megatron sft`` likewise.

Arguments are transformers' ``TrainingArguments`` with swift's own for model, tuner, template and quantization; ``megatron``
takes Megatron's names beside them. ``--deepspeed zero3`` and ``--fsdp fsdp2`` name presets that swift ships. The weights' dtype
is also the autocast dtype. One process that sees several GPUs splits the layers over them (``device_map``).

Names and defaults: ms-swift 2.0 to main of 2026-08 (``swift/arguments``, ``swift/megatron/arguments``, ``swift/cli/main.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects import megatron_core
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.flags import open_ended, read_flags
from cfglint.dialects.hf_training_args import (
    state_batch,
    state_checkpointing,
    state_kernels,
    state_schedule,
    state_sharding,
)
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import (
    FactReader,
    attention,
    because,
    boolean,
    dtype,
    evidence,
    integer,
    number,
    text,
    without_defaults,
)
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, FileOrigin, Reading
from cfglint.source.node import Document, Mapping, Span
from cfglint.source.shell import Word

TRAINS: Final = frozenset({"sft", "pt", "rlhf"})
_COMMANDS: Final = frozenset({
    *TRAINS, "infer", "export", "deploy", "eval", "app", "rollout", "sample", "merge-lora", "web-ui", "app-ui", "ui",
})  # fmt: skip
_SCRIPTS: Final = {"llm_sft.py": "sft", "llm_dpo.py": "rlhf", "llm_infer.py": "infer", "llm_export.py": "export"}
"""Scripts of releases before the command line."""

SEVERAL: Final = frozenset({
    "dataset", "val_dataset", "target_modules", "lora_target_modules", "modules_to_save", "reward_funcs", "reward_weights",
    "adapters", "freeze_parameters", "trainable_parameters", "report_to", "external_plugins", "cached_dataset", "model_name",
    "eval_dataset", "vllm_server_host", "vllm_server_port", "callbacks", "columns", "model_author", "reward_model",
    "recompute_modules",
})  # fmt: skip

_OWN: Final = frozenset({
    "tuner_type", "train_type", "sft_type", "rlhf_type", "tuner_backend", "split_dataset_ratio", "dataset_num_proc",
    "model_author", "attn_impl", "load_data_args", "swift_version", "padding_free", "loss_scale", "truncation_strategy",
    "model_id_or_path", "freeze_vit", "freeze_aligner", "quant_bits", "quant_method", "add_non_thinking_prefix",
})  # fmt: skip

_TUNERS: Final = ("tuner_type", "train_type", "sft_type")
_PRESETS: Final = {
    "zero0": (0, False, False), "zero1": (1, False, False), "zero2": (2, False, False), "zero3": (3, False, False),
    "zero2_offload": (2, True, False), "zero3_offload": (3, True, True), "default-zero2": (2, False, False),
    "default-zero3": (3, False, False),
}  # fmt: skip
"""``swift/config/*.json``: stage, whether the optimizer is on the host, whether parameters are."""

_RLHF: Final = {
    "dpo": "dpo", "orpo": "orpo", "simpo": "orpo", "kto": "kto", "cpo": "orpo", "rm": "reward", "ppo": "ppo", "grpo": "grpo",
    "gkd": "distill",
}  # fmt: skip
_EMBEDS: Final = frozenset({"embedding", "reranker", "generative_reranker", "seq_cls"})


class MsSwift(Dialect):
    name = "ms-swift"
    title = "ms-swift"
    summary = "swift and megatron commands with their arguments, and the same in YAML or JSON"
    markers = frozenset(
        {"tuner_type", "train_type", "split_dataset_ratio", "dataset_num_proc", "model_author", "attn_impl"}
    )

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "actor_rollout_ref" in root or "base_model" in root:
            return None
        own = [key for key in root.index if key in _OWN]
        tuner = evidence(root, (*_TUNERS, "rlhf_type"))
        if tuner and ("model" in root or "model_id_or_path" in root or "model_type" in root or len(own) >= 3):
            return Recognition(82, because([*tuner[:1], *[k for k in own if k not in tuner][:2]]))
        if isinstance(root.get("ENV"), Mapping) and evidence(root, ("load_data_args", "max_new_tokens", "adapters")):
            return Recognition(
                70, because(["ENV", *evidence(root, ("load_data_args", "adapters", "max_new_tokens"), 2)])
            )
        return Recognition(75, because(own[:3])) if len(own) >= 3 and "model" in root else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_swift(document, root, "sft" if _is_run(root) else "infer", megatron=_is_megatron(root))

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        found = _command(started)
        if found is None:
            return
        command, megatron, rest = found
        parsed = read_flags(rest, several=SEVERAL)
        words = [started.word, *started.arguments]
        parsed.mapping.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        named = any(word.text.endswith((".yaml", ".yml", ".json")) for word in parsed.positionals[:1])
        why = f"{'megatron' if megatron else 'swift'} {command}"
        reading = read_swift(launch.document, parsed.mapping, command, megatron=megatron, why=why, arguments=named)
        if open_ended(parsed.positionals):
            reading.facts = without_defaults(reading.facts)
        if reading.role != "part" and not megatron:
            _state_split_over_devices(reading, started, launch)
        yield reading


def _command(started: Program) -> tuple[str, bool, list[Word]] | None:
    """The command (``sft``), whether it is Megatron's, and its words; None where the program is not swift's."""
    words = started.arguments
    if started.script:
        name = basename(started.name)
        if name in _SCRIPTS:
            return _SCRIPTS[name], False, words
        parts = started.word.text.replace("\\", "/").split("/")
        if len(parts) >= 3 and parts[-3] == "swift" and parts[-2] == "cli":
            return name.removesuffix(".py").replace("_", "-"), False, words
        if len(parts) >= 4 and parts[-4] == "swift" and parts[-2] == "_megatron":
            return name.removesuffix(".py"), True, words
        return None
    if started.module:
        if started.name.startswith("swift.cli._megatron."):
            return started.name.rpartition(".")[2], True, words
        return (
            (started.name.rpartition(".")[2].replace("_", "-"), False, words)
            if started.name.startswith("swift.cli.")
            else None
        )
    if started.name in ("swift", "megatron") and words and words[0].text.replace("_", "-") in _COMMANDS:
        return words[0].text.replace("_", "-"), started.name == "megatron", words[1:]
    return None


def _is_run(root: Mapping) -> bool:
    signs = (
        "per_device_train_batch_size",
        "num_train_epochs",
        "learning_rate",
        "micro_batch_size",
        "max_steps",
        "lora_rank",
        "rlhf_type",
    )
    return bool(evidence(root, signs)) and "load_data_args" not in root


def _is_megatron(root: Mapping) -> bool:
    return "micro_batch_size" in root and "per_device_train_batch_size" not in root


def read_swift(
    document: Document,
    root: Mapping,
    command: str,
    *,
    megatron: bool = False,
    why: str = "",
    arguments: bool = False,
) -> Reading:
    """A reading of a file or of a command's flags; ``arguments``: the flags stand beside a file and bring no defaults."""
    framework = "megatron" if megatron else "ms-swift"
    reading = Reading("ms-swift", document, root, why=why, framework=framework)
    facts = FactReader(reading)
    reading.context["command"] = command
    if not arguments:
        reading.facts.state("framework", framework, reading.origin())
    if facts.model("model", "model_id_or_path") is None and not arguments:
        if (converted := _converted(facts)) is not None:
            facts.state("model_id", converted, "load")
        elif facts.given("model_type"):
            facts.text("model_id", "model_type")
    if command not in TRAINS:
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    _state_quantization(facts)
    _state_method(facts, command, megatron, arguments)
    _state_reference(facts, arguments)
    _state_lengths(facts)
    _state_rollout(facts, arguments)
    if megatron:
        _state_megatron(facts, arguments)
    else:
        _state_trainer(facts, arguments)
    return reading


def _converted(facts: FactReader) -> str | None:
    """The model of a Megatron checkpoint that is named as ``swift export --to_mcore`` is taught to: ``Qwen3-8B-mcore``."""
    load = text(facts.value("load"))
    if load is None or is_unknown(load) or not load.rstrip("/").endswith("-mcore"):
        return None
    return load.rstrip("/").removesuffix("-mcore")


def _state_quantization(facts: FactReader) -> None:
    for key in ("quant_bits", "quantization_bit"):
        bits = integer(facts.value(key))
        method = text(facts.value("quant_method")) or "bnb"
        if bits is None or method != "bnb":
            continue
        if bits == 4:
            fp4 = text(facts.value("bnb_4bit_quant_type")) == "fp4"
            nested = boolean(facts.value("bnb_4bit_use_double_quant")) is not False
            facts.state("quantization", "fp4" if fp4 else "nf4-double" if nested else "nf4", key)
        elif bits == 8:
            facts.state("quantization", "int8", key)


def _state_method(facts: FactReader, command: str, megatron: bool, arguments: bool) -> None:
    base, said_by = ("pretrain" if command == "pt" else "full"), ""
    kind = text(facts.value("rlhf_type"))
    if kind is not None:
        base, said_by = _RLHF.get(kind.lower(), "dpo"), "rlhf_type"
    tuner_key = next((key for key in _TUNERS if facts.given(key)), "")
    tuner = (text(facts.value(tuner_key)) or "").lower() if tuner_key else "full" if megatron else "lora"
    if is_unknown(tuner):
        facts.state("method", UNKNOWN, tuner_key)
        return
    if tuner not in ("full", "lora", "qlora", "adalora", "longlora", "lora_llm"):
        # other tuners train something else of another size
        facts.state("method", UNKNOWN, tuner_key)
        return
    adapter = ""
    if tuner != "full":
        four = facts.reading.facts.value("quantization") in ("nf4", "nf4-double", "fp4")
        adapter = "qlora" if four else "dora" if facts.on("use_dora") and base in ("full", "pretrain") else "lora"
        _state_lora(facts, arguments)
    word = (adapter or base) if base in ("full", "pretrain") else f"{base}+{adapter}" if adapter else base
    if text(facts.value("task_type")) in _EMBEDS:
        facts.reading.context["task"] = facts.value("task_type")
    where = tuner_key or said_by
    if where:
        facts.state("method", word, where)
    elif not arguments:
        facts.default("method", word, "ms-swift", "", f"tuner_type is {tuner}")


def _state_lora(facts: FactReader, arguments: bool) -> None:
    facts.integer("lora_rank", "lora_rank", low=1)
    facts.number("lora_alpha", "lora_alpha", low=0)
    facts.number("lora_dropout", "lora_dropout", "lora_dropout_p", low=0)
    facts.names("lora_targets", "target_modules", "lora_target_modules")
    facts.names("lora_modules_to_save", "modules_to_save", "lora_modules_to_save")
    if [name.lower() for name in facts.reading.facts.value("lora_targets") or []] == ["auto"]:
        facts.reading.facts.state_first("lora_targets", UNKNOWN, facts.origin("target_modules"))
    if arguments:
        return
    stated = facts.reading.facts.stated
    for fact, value in (
        ("lora_rank", 8),
        ("lora_alpha", 32.0),
        ("lora_dropout", 0.05),
        ("lora_targets", ["all-linear"]),
    ):
        if not stated(fact):
            facts.default(fact, value, "ms-swift")


def _state_reference(facts: FactReader, arguments: bool) -> None:
    """GRPO's reference (``swift/arguments/rlhf_args.py``): none with ``beta: 0``, which is 0.04 unless stated."""
    if text(facts.value("rlhf_type")) != "grpo":
        return
    facts.integer("completion_length", "max_completion_length", low=1)
    if not facts.weighed_reference("beta") and not arguments:
        adapters = "+" in (text(facts.reading.facts.value("method")) or "")
        facts.default("reference", "adapter" if adapters else "model", "ms-swift", "", "beta is 0.04")


def _state_rollout(facts: FactReader, arguments: bool) -> None:
    """vLLM in the trainer's processes (``swift/rlhf_trainers/args_mixin.py``): awake all the time unless told to sleep."""
    if not facts.on("use_vllm") or text(facts.value("vllm_mode")) != "colocate" or facts.on("async_generate"):
        return
    share = facts.number("rollout_gpu_memory_utilization", "vllm_gpu_memory_utilization", low=0)
    if share is None and not arguments:
        facts.default("rollout_gpu_memory_utilization", 0.9, "ms-swift", "", "vllm_gpu_memory_utilization")
    level = integer(facts.value("sleep_level"))
    if level is not None:
        facts.state("rollout_sleeps", level > 0, "sleep_level")
    if facts.on("offload_model") and facts.on("offload_optimizer"):
        facts.state("trainer_sleeps", True, "offload_model")


def _state_lengths(facts: FactReader) -> None:
    """``max_length`` bounds prompt and answer together, with generation the prompt alone."""
    prompt, answer = integer(facts.value("max_length")), integer(facts.value("max_completion_length"))
    generates = text(facts.value("rlhf_type")) in ("grpo", "gkd", "ppo")
    if generates and prompt is not None and answer is not None and prompt > 0 and answer > 0:
        inputs = (facts.origin("max_length"), facts.origin("max_completion_length"))
        how = f"max_length {prompt} + max_completion_length {answer}"
        facts.reading.facts.state("sequence_length", prompt + answer, DerivedOrigin(how, inputs))
    elif not generates:
        facts.integer("sequence_length", "max_length", low=1)
    facts.boolean("packing", "packing")
    name = text(facts.value("attn_impl"))
    kernel = attention(name) or {"flash_attention": "flash2"}.get(name or "")
    if kernel is not None:
        facts.state("attention", kernel, "attn_impl")
    elif facts.on("use_flash_attn"):
        facts.state("attention", "flash2", "use_flash_attn")


def _state_trainer(facts: FactReader, arguments: bool) -> None:
    stated = facts.reading.facts.stated
    for key in ("torch_dtype", "dtype"):
        word = dtype({"bf16": "bf16", "AUTO": None}.get(str(facts.value(key)), facts.value(key)))
        if word is not None:
            facts.state("weight_dtype", word, key)
            facts.state("compute_dtype", "none" if word == "fp32" else word, key)
            break
    for key in ("fp16", "bf16"):
        if facts.on(key):
            facts.state("compute_dtype", key, key)
    state_batch(facts)
    facts.integer("micro_batch_size", "batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "acc_steps", low=1)
    facts.number("epochs", "max_epochs", low=0)
    state_schedule(facts)
    state_checkpointing(facts)
    state_kernels(facts)
    _state_sharding(facts)
    facts.integer("context_parallel_size", "sequence_parallel_size", low=1)
    if (frozen := boolean(facts.value("freeze_vit"))) is not None:
        facts.state("trains_vision", not frozen, "freeze_vit")
    for key in ("val_dataset", "split_dataset_ratio"):
        given = facts.given(key) and number(facts.value(key)) != 0
        if given and not stated("evaluates") and facts.value("eval_strategy") not in ("no", False):
            facts.state(
                "evaluates", True, key
            )  # eval_strategy follows save_strategy where there is a set to evaluate on
    if facts.on("use_galore"):
        facts.reading.facts.state_first("optimizer", "galore_adamw", facts.origin("use_galore"))
    if arguments:
        return
    if not stated("weight_dtype"):
        facts.default("weight_dtype", UNKNOWN, "ms-swift", "", "the checkpoint's dtype")
    for fact, value in (
        ("micro_batch_size", 1), ("gradient_checkpointing", "full"), ("weight_decay", 0.1), ("lr_scheduler", "cosine"),
        ("max_grad_norm", 1.0), ("loss_kernel", "torch"),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "ms-swift")
    if not stated("gradient_accumulation_steps"):
        facts.default("gradient_accumulation_steps", UNKNOWN, "ms-swift", "", "16 / (batch × processes)")
    if not stated("learning_rate"):
        adapter = "lora" in str(facts.reading.facts.value("method"))
        facts.default("learning_rate", 1e-4 if adapter else 1e-5, "ms-swift")
    if not stated("epochs") and not stated("max_steps"):
        facts.default("epochs", 3.0, "ms-swift")


def _state_sharding(facts: FactReader) -> None:
    preset = text(facts.value("deepspeed"))
    if preset in _PRESETS:
        stage, optimizer, parameters = _PRESETS[preset]
        # its settings are swift's own file: the engine's casts follow from there being one
        facts.reading.context["deepspeed"] = preset
        facts.state("zero_stage", stage, "deepspeed")
        facts.state("offload_optimizer", "cpu" if optimizer else "none", "deepspeed")
        facts.state("offload_parameters", "cpu" if parameters else "none", "deepspeed")
        return
    if text(facts.value("fsdp")) == "fsdp2":
        facts.state("fsdp", "full_shard", "fsdp")
        facts.state("fsdp_version", 2, "fsdp")
        facts.state("gradient_checkpointing", "full", "fsdp")
        return
    if (preset or "").endswith(".json") or facts.mapping("deepspeed") is not None:
        state_sharding(facts)


def _state_megatron(facts: FactReader, arguments: bool) -> None:
    megatron_core.state_core(facts)
    facts.number("epochs", "num_train_epochs", "max_epochs", low=0)
    word = dtype(facts.value("torch_dtype"))
    if word in ("bf16", "fp16"):
        facts.state("weight_dtype", word, "torch_dtype")
        facts.state("compute_dtype", word, "torch_dtype")
    if arguments:
        return
    stated = facts.reading.facts.stated
    for fact, value in (
        ("micro_batch_size", 1), ("global_batch_size", 16), ("gradient_checkpointing", "selective"), ("zero_stage", 1),
        ("weight_dtype", "bf16"), ("compute_dtype", "bf16"), ("master_weights", True), ("attention", "flash2"),
        ("optimizer", "adamw_torch_fused"), ("lr_scheduler", "cosine"), ("weight_decay", 0.1), ("max_grad_norm", 1.0),
        ("loss_kernel", "triton"), ("trains_vision", False), ("expert_tensor_parallel_size", 1),
        ("precision_aware_optimizer", False),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "ms-swift")


def _state_split_over_devices(reading: Reading, started: Program, launch: Launch) -> None:
    """One process that sees several GPUs: ``device_map`` puts a share of the layers on each."""
    visible = launch.environment.get("CUDA_VISIBLE_DEVICES")
    several = [d for d in (visible.text if visible is not None and visible.known else "").split(",") if d.strip()]
    alone = not any(name in launch.environment for name in ("NPROC_PER_NODE", "NNODES"))
    outside = (
        launch.words
        and launch.words[0] is not started.word
        and basename(launch.words[0].text) not in ("python", "python3")
    )
    if visible is None or len(several) < 2 or not alone or outside:
        return
    origin = FileOrigin(launch.document, ("CUDA_VISIBLE_DEVICES",), visible.span, visible.span)
    how = f"one process splits the layers over {len(several)} GPUs"
    reading.facts.state("pipeline_parallel_size", len(several), DerivedOrigin(how, (origin,)))
    reading.context["device_map"] = len(several)


DIALECT = MsSwift()
