"""LLaMA-Factory's YAML: ``TrainingArguments`` with its own model, data and fine-tuning arguments.

Without ``pure_bf16`` it trains fp32 copies of whatever is trained (all parameters in full tuning, the adapters in
LoRA) and stores frozen weights in the compute dtype. Gradient checkpointing is on unless switched off.
Files of its rewritten trainer ("v1": ``model``, ``dist_config``, ``train_dataset``) are read too.

Names and defaults: llamafactory/hparams/*.py, llamafactory/model/adapter.py, llamafactory/v1/config/*.py, 0.7 to 0.9.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, OwnCommand, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.hf_training_args import (
    state_batch,
    state_defaults,
    state_kernels,
    state_precision,
    state_schedule,
    state_sharding,
)
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, attention, because, boolean, evidence, integer, scalar, text
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Origin, Reading
from cfglint.source.node import Document, Entry, Mapping, Route, Scalar, Sequence

_OWN = frozenset({
    "stage", "finetuning_type", "template", "cutoff_len", "lora_target", "dataset_dir", "overwrite_cache", "plot_loss",
    "infer_backend", "quantization_bit", "quantization_method", "flash_attn", "preprocessing_num_workers", "pref_beta",
    "pref_loss", "pure_bf16", "visual_inputs", "export_dir", "export_size", "export_device", "export_legacy_format",
    "use_galore", "use_badam", "use_apollo", "use_llama_pro", "use_unsloth", "neat_packing", "mask_history", "use_kt",
    "freeze_trainable_layers", "adapter_name_or_path", "additional_target", "image_max_pixels", "vllm_maxlen",
    "disable_gradient_checkpointing", "enable_liger_kernel", "reward_model", "ref_model", "shift_attn", "kt_optimize_rule",
})  # fmt: skip

_TELLING = ("stage", "finetuning_type", "template", "cutoff_len", "model_name_or_path", "infer_backend", "export_dir")
_V1 = ("dist_config", "train_dataset", "model_class", "kernel_config", "peft_config", "sample_backend", "init_config")

_STAGES = {"pt": "pretrain", "sft": "full", "rm": "reward", "ppo": "ppo", "dpo": "dpo", "kto": "kto"}

_LAYERWISE = (
    ("use_galore", "galore_adamw"),
    ("use_apollo", "apollo_adamw"),
    ("use_adam_mini", "adam_mini"),
    ("use_muon", "muon"),
    ("use_badam", "badam"),
)


def _state_method(facts: FactReader) -> None:
    stage = (text(facts.value("stage")) or "").strip().lower()
    base = _STAGES.get(stage, "full")
    if base == "dpo" and facts.value("pref_loss") in ("orpo", "simpo"):
        base = "orpo"
    kind = (text(facts.value("finetuning_type")) or "lora").strip().lower()
    if stage:
        facts.reading.context["trainer"] = stage
    facts.reading.context["finetuning_type"] = kind
    if is_unknown(facts.value("finetuning_type")) or is_unknown(facts.value("stage")):
        facts.state("method", UNKNOWN, "finetuning_type")
        return
    if kind == "freeze":
        # trains a few layers: no word of the vocabulary says so, and counting all parameters would be wrong
        facts.state("method", UNKNOWN, "finetuning_type")
        return
    adapter = ""
    if kind in ("lora", "oft"):
        four = facts.reading.facts.value("quantization") in ("nf4", "nf4-double", "fp4", "gptq-int4", "awq-int4")
        adapter = "qlora" if four else "dora" if facts.on("use_dora") and base == "full" else "lora"
    if base in ("full", "pretrain"):
        word = adapter or base
    else:
        word = f"{base}+{adapter}" if adapter else base
    if base in ("dpo", "kto") and facts.given("ref_model"):
        facts.state("reference", "model", "ref_model")  # beside adapters too
    if text(facts.value("finetuning_type")) is not None:
        facts.state("method", word, "finetuning_type")
    elif base != "full":
        facts.state("method", word, "stage")
    else:
        facts.default("method", word, "llamafactory", "", "finetuning_type is lora")


def _state_lora(facts: FactReader) -> None:
    rank = facts.integer("lora_rank", "lora_rank", low=1)
    if rank is None:
        facts.default("lora_rank", 8, "llamafactory")
        rank = 8
    if facts.number("lora_alpha", "lora_alpha", low=0) is None and isinstance(rank, int):
        facts.default("lora_alpha", float(2 * rank), "llamafactory", "", "twice the rank")
    if facts.number("lora_dropout", "lora_dropout", low=0) is None:
        facts.default("lora_dropout", 0.0, "llamafactory")
    if facts.names("lora_targets", "lora_target") is None:
        facts.default("lora_targets", ["all-linear"], "llamafactory")
    facts.names("lora_modules_to_save", "additional_target")


def _state_quantization(facts: FactReader) -> None:
    value = facts.value("quantization_bit")
    if is_unknown(value):
        facts.state("quantization", UNKNOWN, "quantization_bit")
    bits = integer(value)
    method = (text(facts.value("quantization_method")) or "bnb").lower()
    if bits == 4 and method in ("bnb", "bitsandbytes"):
        nested = boolean(facts.value("double_quantization")) is not False
        fp4 = (text(facts.value("quantization_type")) or "nf4").lower() == "fp4"
        facts.state("quantization", "fp4" if fp4 else "nf4-double" if nested else "nf4", "quantization_bit")
    elif bits == 8 and method in ("bnb", "bitsandbytes"):
        facts.state("quantization", "int8", "quantization_bit")
    elif bits is not None and method in ("hqq", "eetq"):
        facts.reading.context["quantization"] = f"{method}-int{bits}"
    if bits is not None:
        facts.default("upcast_unquantized", False, "llamafactory")


def _state_weights(facts: FactReader) -> None:
    """Frozen weights take the compute dtype; what is trained is fp32 unless ``pure_bf16``."""
    kind = facts.reading.context["finetuning_type"]
    pure = facts.on("pure_bf16")
    if pure:
        facts.state("weight_dtype", "bf16", "pure_bf16")
        facts.state("compute_dtype", "none", "pure_bf16")
        return
    compute = facts.reading.facts.value("compute_dtype")
    if kind == "full" and not facts.on("use_badam"):
        inputs: tuple[Origin, ...] = (facts.origin("finetuning_type"),)
        how = "finetuning_type full keeps trained weights in fp32 unless pure_bf16"
        facts.reading.facts.state("weight_dtype", "fp32", DerivedOrigin(how, inputs))
    elif compute in ("bf16", "fp16"):
        key = str(compute)
        inputs = (facts.origin(key),)
        how = f"frozen weights are stored in the compute dtype, {compute}"
        facts.reading.facts.state("weight_dtype", compute, DerivedOrigin(how, inputs))


def _state_attention(facts: FactReader) -> None:
    value = facts.value("flash_attn")
    if is_unknown(value):
        facts.state("attention", UNKNOWN, "flash_attn")
    elif (name := attention(value)) is not None:
        facts.state("attention", name, "flash_attn")
    elif boolean(value) is True:
        facts.state("attention", "flash2", "flash_attn")
    if not facts.reading.facts.value("attention"):
        facts.default("attention", "sdpa", "llamafactory", "", "flash_attn: auto")


def _state_checkpointing(facts: FactReader) -> None:
    off = boolean(facts.value("disable_gradient_checkpointing"))
    if off is not None:
        facts.state("gradient_checkpointing", "none" if off else "full", "disable_gradient_checkpointing")
    else:
        facts.default("gradient_checkpointing", "full", "llamafactory")


def _state_sequence(facts: FactReader) -> None:
    if facts.integer("sequence_length", "cutoff_len", low=1) is None:
        facts.default("sequence_length", 2048, "llamafactory", ">=0.9.1")
        facts.default("sequence_length", 1024, "llamafactory", "<0.9.1")
    if facts.on("neat_packing"):
        facts.state("packing", True, "neat_packing")
    if facts.boolean("packing", "packing") is None:
        pretrain = facts.value("stage") == "pt"
        facts.default("packing", pretrain, "llamafactory", "", "on for stage pt" if pretrain else "")


_MCORE_SIZES = (
    ("tensor_parallel_size", "tensor_model_parallel_size"), ("pipeline_parallel_size", "pipeline_model_parallel_size"),
    ("context_parallel_size", "context_parallel_size"), ("expert_parallel_size", "expert_model_parallel_size"),
)  # fmt: skip
"""Arguments of the Megatron adapter (``USE_MCA=1``), in whose files they stand beside the trainer's own."""


def _state_elsewhere(facts: FactReader) -> None:
    """What the trainer hands to another engine, whose memory is not counted here."""
    for fact, key in _MCORE_SIZES:
        facts.integer(fact, key, low=1)
    for key, words in (
        ("use_kt", "KTransformers computes the experts on the host: the GPUs' share is not counted"),
        ("use_badam", "BAdam trains one block at a time: what a block needs is not counted"),
        ("use_mca", "Megatron trains this run: its memory is not counted"),
        *((key, "Megatron trains this run: its memory is not counted") for _, key in _MCORE_SIZES),
    ):
        if facts.given(key) and boolean(facts.value(key)) is not False:
            facts.reading.context.setdefault("held_elsewhere", (key, words))


def read_llamafactory(
    document: Document, root: Mapping, *, base: Route = (), why: str = "", serve: bool = False
) -> Reading:
    """A reading of a LLaMA-Factory configuration or of ``llamafactory-cli``'s flags.

    ``serve``: the command is not ``train`` (``chat``, ``api``, ``export``): no training facts are stated.
    """
    reading = Reading("llamafactory", document, root, base=base, why=why, framework="llamafactory")
    facts = FactReader(reading)
    reading.facts.state("framework", "llamafactory", reading.origin())
    facts.model("model_name_or_path")
    facts.boolean("trust_remote_code", "trust_remote_code")
    facts.reference("adapter", "adapter_name_or_path", base="cwd")
    if (frozen := boolean(facts.value("freeze_vision_tower"))) is not None:
        facts.state("trains_vision", not frozen, "freeze_vision_tower")
    if serve or not _trains(root):
        reading.role = "part"
        reading.context["trains"] = False
        _state_quantization(facts)
        return reading
    state_precision(facts)
    state_batch(facts)
    for key, name in _LAYERWISE:
        if facts.on(key):
            facts.state("optimizer", name, key)
    state_schedule(facts)
    _state_checkpointing(facts)
    _state_attention(facts)
    state_kernels(facts)
    state_sharding(facts)
    _state_sequence(facts)
    _state_quantization(facts)
    _state_method(facts)
    if reading.context["finetuning_type"] == "lora":
        _state_lora(facts)
    _state_weights(facts)
    _state_elsewhere(facts)
    if facts.on("fp8"):
        reading.facts.state_first("fp8_linear", True, facts.origin("fp8"))
    state_defaults(facts)
    return reading


def _trains(root: Mapping) -> bool:
    """Whether a file starts training: chat, API, export and evaluation files do not."""
    if root.keys() and (set(root.keys()) & {"export_dir", "infer_backend", "n_shot"}):
        return "do_train" in root or "per_device_train_batch_size" in root
    signs = ("do_train", "per_device_train_batch_size", "learning_rate", "stage", "num_train_epochs", "dataset")
    return any(key in root for key in signs)


_ENGINE_ARGUMENTS = {
    "model_name_or_path": "model",
    "trust_remote_code": "trust_remote_code",
    "infer_dtype": "dtype",
    "vllm_maxlen": "max_model_len",
    "vllm_gpu_util": "gpu_memory_utilization",
    "vllm_enforce_eager": "enforce_eager",
    "vllm_max_lora_rank": "max_lora_rank",
}
"""Keys of chat and API files to vLLM's arguments (llamafactory/chat/vllm_engine.py, 0.7.1 to 0.9.5)."""
_MAX_LORA_RANK = 32
"""Where ``vllm_max_lora_rank`` is not stated (llamafactory/hparams/model_args.py)."""


def _served(document: Document, root: Mapping) -> Iterator[Reading]:
    """The vLLM engine that a chat or API file starts, over every device there is."""
    from cfglint.dialects.vllm import DIALECT

    entries = [
        Entry(Scalar(entry.key.span, _ENGINE_ARGUMENTS[name], entry.key.raw), entry.value)
        for name, entry in root.index.items()
        if name in _ENGINE_ARGUMENTS and scalar(entry.value) not in (False, None)  # what the engine takes by itself
    ]
    more = root.get("vllm_config")
    entries += more.entries if isinstance(more, Mapping) else []
    adapter = root.entry("adapter_name_or_path")
    path = text(scalar(adapter.value)) if adapter is not None else None
    if adapter is not None and path is not None:
        place = adapter.value.span
        modules = Sequence(place, [Scalar(place, f"default={path}", path)])
        for name, value in (("enable_lora", Scalar(place, True, "true")), ("lora_modules", modules)):
            entries.append(Entry(Scalar(adapter.key.span, name, adapter.key.raw), value))
        if "vllm_max_lora_rank" not in root:
            rank = Scalar(place, _MAX_LORA_RANK, str(_MAX_LORA_RANK))
            entries.append(Entry(Scalar(adapter.key.span, "max_lora_rank", adapter.key.raw), rank))
    for reading in DIALECT.read(document, Mapping(root.span, entries)):
        reading.facts.state("tensor_parallel_size", UNKNOWN, reading.origin("model"))
        yield reading


def read_v1(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    """A reading of the rewritten trainer's file."""
    reading = Reading("llamafactory", document, root, base=base, why=why, framework="llamafactory")
    facts = FactReader(reading)
    reading.context["layout"] = "v1"
    reading.facts.state("framework", "llamafactory", reading.origin())
    facts.model("model")
    facts.boolean("trust_remote_code", "trust_remote_code")
    if "micro_batch_size" not in root and "learning_rate" not in root and "train_dataset" not in root:
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    facts.integer("micro_batch_size", "micro_batch_size", low=1)
    facts.integer("global_batch_size", "global_batch_size", low=1)
    facts.integer("sequence_length", "cutoff_len", low=1)
    facts.number("learning_rate", "learning_rate", low=0)
    facts.integer("max_steps", "max_steps", low=1)
    facts.number("epochs", "num_train_epochs", low=0)
    facts.number("max_grad_norm", "max_grad_norm", low=0)
    if (on := boolean(facts.value("enable_activation_checkpointing"))) is not None:
        facts.state("gradient_checkpointing", "full" if on else "none", "enable_activation_checkpointing")
    if facts.on("bf16"):
        facts.state("compute_dtype", "bf16", "bf16")
    engine = (text(facts.value("dist_config", "name")) or "").lower()
    if engine == "deepspeed":
        facts.reference("deepspeed", "dist_config", "config_file", base="cwd")
    elif engine.startswith("fsdp"):
        facts.state("fsdp", "full_shard", "dist_config", "name")
        facts.state("fsdp_version", 2, "dist_config", "name")
    facts.integer("expert_parallel_size", ("dist_config", "ep_size"), low=1)
    facts.integer("context_parallel_size", "cp_size", ("dist_config", "cp_size"), low=1)
    if "liger" in (text(facts.value("kernel_config", "name")) or "").lower():
        facts.state("loss_kernel", "fused_linear", "kernel_config", "name")
    adapter = facts.under("peft_config")
    bits = integer(facts.value("quant_config", "quantization_bit"))
    if bits in (4, 8):
        facts.state("quantization", "nf4-double" if bits == 4 else "int8", "quant_config", "quantization_bit")
    if (text(adapter.value("name")) or "").lower() == "lora":
        adapter.state("method", "qlora" if bits == 4 else "lora", "name")
        adapter.integer("lora_rank", "r", low=1)
        adapter.number("lora_alpha", "lora_alpha", low=0)
        adapter.number("lora_dropout", "lora_dropout", low=0)
        adapter.names("lora_targets", "target_modules")
    elif not facts.given("peft_config"):
        facts.default("method", "full", "llamafactory", "", "no peft_config")
    stated = reading.facts.stated
    for fact, value in (
        ("micro_batch_size", 1), ("sequence_length", 2048), ("gradient_checkpointing", "full"), ("max_grad_norm", 1.0),
        ("learning_rate", 1e-4), ("loss_kernel", "torch"), ("optimizer", "adamw_torch"),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "llamafactory")
    if not stated("epochs") and not stated("max_steps"):
        facts.default("epochs", 3.0, "llamafactory")
    return reading


def _is_v1(root: Mapping) -> bool:
    return "model" in root and len(evidence(root, _V1)) >= 1 and "model_name_or_path" not in root


class LlamaFactory(Dialect):
    name = "llamafactory"
    title = "LLaMA-Factory"
    summary = "LLaMA-Factory's YAML"
    schema = "llamafactory"
    scripts = frozenset({"train_bash.py", "train.py", "train_sft.py"})
    markers = frozenset({
        "stage", "finetuning_type", "template", "cutoff_len", "lora_target", "model_name_or_path", "overwrite_cache",
        "plot_loss", "preprocessing_num_workers", "infer_backend", "per_device_train_batch_size", "dataset_dir",
    })  # fmt: skip

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "model_name_or_path" in root:
            own = [key for key in root.index if key in _OWN]
            stage = text(scalar(root.get("stage")))
            if "finetuning_type" in root or ("stage" in root and ("template" in root or stage in _STAGES)):
                return Recognition(85, because(evidence(root, _TELLING)))
            if "template" in root and len(own) >= 2:
                return Recognition(80, because(evidence(root, _TELLING)))
            if "export_dir" in root and len(own) >= 3:
                return Recognition(78, because(evidence(root, ("model_name_or_path", "export_dir", "export_size"))))
            return None
        if "finetuning_type" in root and len([key for key in root.index if key in _OWN]) >= 2:
            return Recognition(75, because(evidence(root, _TELLING)))
        if _is_v1(root):
            found = evidence(root, _V1)
            named = any(isinstance(root.get(key), Mapping) and "name" in _inner(root, key) for key in found)
            if named and (len(found) >= 2 or len(root) <= 4):
                return Recognition(82, because(["model", *found[:2]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = read_v1(document, root) if _is_v1(root) else read_llamafactory(document, root)
        yield reading
        if reading.context.get("trains") is False and text(scalar(root.get("infer_backend"))) == "vllm":
            yield from _served(document, root)

    def own_command(self, started: Program) -> OwnCommand | None:
        """``llamafactory-cli train FILE`` and ``python -m llamafactory.cli``."""
        if started.module:
            return OwnCommand(started.arguments) if started.name == "llamafactory.cli" else None
        first = started.arguments[0].text if started.arguments else ""
        known = started.name in ("llamafactory-cli", "lmf") and first == "train"
        return OwnCommand(started.arguments[1:]) if known else None


def _inner(root: Mapping, key: str) -> Mapping:
    found = root.get(key)
    return found if isinstance(found, Mapping) else Mapping(root.span)


DIALECT = LlamaFactory()
