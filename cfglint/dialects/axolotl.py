"""Axolotl's YAML.

Axolotl loads the model in the dtype that the precision keys name, so ``bf16: true`` also decides what the weights are
stored in. ``bf16: auto``, its default, is bf16 on every GPU that has it and fp16 elsewhere.

Names and defaults: axolotl/utils/schemas/*.py, axolotl/utils/config/__init__.py, axolotl/loaders/model.py, 0.5 to 0.19.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, OwnCommand, Recognition
from cfglint.dialects.carriers.command import Program
from cfglint.dialects.deepspeed import state_deepspeed
from cfglint.dialects.fsdp import state_fsdp_defaults, state_fsdp_options, state_fsdp_settings
from cfglint.dialects.hf_training_args import SYNC_EACH_BATCH, state_saving, state_schedule
from cfglint.dialects.launcher_arguments import state_processes
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, number, text, texts
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, Reading
from cfglint.source.node import Document, Mapping, Route, Sequence
from cfglint.source.shell import Word

_TELLING = ("base_model", "sequence_len", "micro_batch_size", "num_epochs", "adapter", "sample_packing", "val_set_size")

_OWN = frozenset({
    "base_model", "base_model_config", "sequence_len", "micro_batch_size", "num_epochs", "val_set_size",
    "sample_packing", "pad_to_sequence_len", "lora_target_linear", "lora_model_dir", "dataset_prepared_path",
    "saves_per_epoch", "evals_per_epoch", "tokenizer_type", "special_tokens", "eval_sample_packing", "strict",
    "chat_template", "datasets", "gptq", "flash_attention", "wandb_watch", "wandb_log_model", "rl",
})  # fmt: skip

_ATTENTION_FLAGS = (
    ("xformers_attention", "xformers"), ("flex_attention", "flex"), ("flash_attention", "flash2"),
    ("sdp_attention", "sdpa"), ("eager_attention", "eager"),
)  # fmt: skip
"""Switches of releases before ``attn_implementation``, in Axolotl's own order of precedence."""

_RL = {
    "dpo": "dpo", "ipo": "dpo", "kto_pair": "dpo", "orpo": "orpo", "simpo": "orpo", "kto": "kto", "grpo": "grpo",
    "gdpo": "grpo",
}  # fmt: skip

_OPTIMIZERS = {
    "ao_adamw_4bit": "adamw_torch_4bit", "ao_adamw_8bit": "adamw_torch_8bit", "optimi_adamw": "optimi_adamw",
}  # fmt: skip


def _state_precision(facts: FactReader) -> None:
    bf16, fp16 = facts.value("bf16"), facts.value("fp16")
    if bf16 == "full":
        facts.state("compute_dtype", "none", "bf16")
        facts.state("weight_dtype", "bf16", "bf16")
    elif boolean(bf16) is True:
        facts.state("compute_dtype", "bf16", "bf16")
        facts.state("weight_dtype", "bf16", "bf16")
    elif is_unknown(bf16) and boolean(fp16) is not True:
        facts.reading.context["bf16_auto"] = bf16 == "auto"
        facts.state("compute_dtype", UNKNOWN, "bf16")
        facts.state("weight_dtype", UNKNOWN, "bf16")
    for key, name in (("bfloat16", "bf16"), ("fp16", "fp16"), ("float16", "fp16")):
        if facts.on(key):
            facts.state("compute_dtype", name, key)
            facts.state("weight_dtype", name, key)
    if facts.on("fp8"):
        facts.state("fp8_linear", True, "fp8")
    auto = bf16 == "auto" or (bf16 is None and "bf16" not in _keys(facts))
    stated = facts.reading.facts
    if auto and stated.value("compute_dtype") is None:
        for fact in ("compute_dtype", "weight_dtype"):
            facts.default(fact, "bf16", "axolotl", "", "bf16: auto on a GPU that has bf16")
    elif not stated.stated("compute_dtype"):
        facts.default("compute_dtype", "none", "axolotl")
        if facts.on("load_in_8bit"):
            facts.state("weight_dtype", "fp16", "load_in_8bit")
        facts.default("weight_dtype", "fp32", "axolotl", "", "neither bf16 nor fp16 is on")
    if facts.value("tf32") != "auto":
        facts.boolean("tf32", "tf32")


def _keys(facts: FactReader) -> set[str]:
    root = facts.reading.root
    return set(root.index) if isinstance(root, Mapping) else set()


def _state_batch(facts: FactReader) -> None:
    facts.integer("micro_batch_size", "micro_batch_size", low=1)
    accumulation = facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    total, micro = integer(facts.value("batch_size")), integer(facts.value("micro_batch_size"))
    if accumulation is None and total is not None and micro and total >= micro > 0:
        origin = DerivedOrigin(f"batch_size {total} / micro_batch_size {micro}", (facts.reading.origin("batch_size"),))
        facts.reading.facts.state("gradient_accumulation_steps", total // micro, origin)
    facts.boolean("reduces_each_micro_step", SYNC_EACH_BATCH)
    facts.number("epochs", "num_epochs", low=0)
    facts.integer("max_steps", "max_steps", low=1)
    facts.integer("sequence_length", "sequence_len", low=1)
    facts.boolean("packing", "sample_packing")
    _state_evaluation(facts)
    state_saving(facts)


def _state_evaluation(facts: FactReader) -> None:
    """Axolotl evaluates where it has something to evaluate on: a share of the data, or test datasets."""
    strategy = facts.value("eval_strategy")
    if strategy is False or strategy == "no":
        facts.state("evaluates", False, "eval_strategy")
    elif (number(facts.value("val_set_size")) or 0) > 0:
        facts.state("evaluates", True, "val_set_size")
    elif isinstance(facts.node("test_datasets"), Sequence):
        facts.state("evaluates", True, "test_datasets")
    facts.integer("eval_micro_batch_size", "eval_batch_size", low=1)
    facts.integer("eval_sequence_length", "eval_sequence_len", low=1)


def _state_attention(facts: FactReader) -> None:
    if facts.attention("attention", "attn_implementation") is not None:
        return
    for key, name in _ATTENTION_FLAGS:
        if facts.on(key):
            facts.state("attention", name, key)


def _state_kernels(facts: FactReader) -> None:
    for key, name in (
        ("cut_cross_entropy", "fused_linear"), ("liger_fused_linear_cross_entropy", "fused_linear"),
        ("chunked_cross_entropy", "chunked"), ("liger_cross_entropy", "triton"), ("flash_attn_cross_entropy", "triton"),
        ("unsloth_cross_entropy_loss", "triton"),
    ):  # fmt: skip
        if facts.on(key):
            facts.state("loss_kernel", name, key)
    in_blocks = {
        "liger_rms_norm": "norm", "liger_rope": "rotary", "liger_glu_activation": "mlp", "liger_swiglu": "mlp",
    }  # fmt: skip
    used = [key for key in in_blocks if facts.on(key)]
    if used:
        facts.state("block_kernels", sorted({in_blocks[key] for key in used}), used[0])
    facts.boolean("tiled_mlp", "tiled_mlp")
    facts.integer("mlp_pieces", "tiled_mlp_num_shards", low=1)
    plugins = facts.node("plugins")
    if boolean(facts.value("cut_cross_entropy")) is None and isinstance(plugins, Sequence):
        for index, name in enumerate(texts(plugins) or []):
            if name.endswith("CutCrossEntropyPlugin"):
                facts.state("loss_kernel", "fused_linear", "plugins", index)
                facts.state("eval_loss_kernel", "fused_linear", "plugins", index)
    if facts.on("cut_cross_entropy"):  # the model's loss outside training too, which Liger's is not
        facts.state("eval_loss_kernel", "fused_linear", "cut_cross_entropy")
    switches = {"lora_mlp_kernel": "mlp", "lora_qkv_kernel": "qkv", "lora_o_kernel": "o"}
    given = [key for key in switches if boolean(facts.value(key)) is not None]
    if given:  # one that is stated, true or false, leaves the others off
        facts.state("lora_kernels", [switches[key] for key in given if facts.on(key)], given[0])
    value = facts.value("torch_compile")
    if value == "auto":
        facts.state("compile", UNKNOWN, "torch_compile")
    else:
        facts.boolean("compile", "torch_compile")


def _state_checkpointing(facts: FactReader) -> None:
    value = facts.value("gradient_checkpointing")
    if value in ("offload", "offload_disk", "unsloth"):
        facts.state("gradient_checkpointing", "full", "gradient_checkpointing")
        facts.reading.context["activation_offloading"] = value
        facts.state("activation_offloading", True, "gradient_checkpointing")
    elif is_unknown(value):
        facts.state("gradient_checkpointing", UNKNOWN, "gradient_checkpointing")
    elif (on := boolean(value)) is not None:
        facts.state("gradient_checkpointing", "full" if on else "none", "gradient_checkpointing")
    offloading = facts.value("activation_offloading")
    if offloading is not None and boolean(offloading) is not False:
        facts.reading.context["activation_offloading"] = offloading
        facts.state("activation_offloading", UNKNOWN if is_unknown(offloading) else True, "activation_offloading")


def _state_reference(facts: FactReader) -> None:
    """Where the reference's scores come from (axolotl ``core/builders/rl.py``, ``train.py``); TRL's own defaults else."""
    kind = facts.reading.context.get("trainer")
    if kind in ("dpo", "ipo", "kto"):
        if facts.on("precompute_ref_log_probs"):
            facts.state("reference", "precomputed", "precompute_ref_log_probs")
        elif facts.on("rl_adapter_ref_model"):
            facts.state("reference", "model", "rl_adapter_ref_model")
    elif kind in ("grpo", "gdpo"):
        facts.integer("completion_length", ("trl", "max_completion_length"), low=1)
        _ = facts.weighed_reference("trl", "beta") or facts.weighed_reference("rl_beta")


def _state_adapter(facts: FactReader) -> None:
    adapter = text(facts.value("adapter"))
    base, shown = "full", "adapter"
    if facts.given("rl"):
        kind = str(facts.value("rl")).strip().lower()
        facts.reading.context["trainer"] = kind
        base, shown = _RL.get(kind, "full"), "rl"
    elif facts.on("reward_model") or facts.on("process_reward_model"):
        base, shown = "reward", "reward_model" if facts.on("reward_model") else "process_reward_model"
    elif facts.given("pretraining_dataset"):
        base, shown = "pretrain", "pretraining_dataset"
    if adapter is None:
        if isinstance(facts.node("unfrozen_parameters"), Sequence):
            # trains a part of the model: no word of the vocabulary says so
            facts.state("method", UNKNOWN, "unfrozen_parameters")
        elif shown != "adapter":
            facts.state("method", base, shown)
        else:
            facts.default("method", "full", "axolotl", "", "adapter is not set")
        return
    word = adapter.strip().lower()
    if is_unknown(adapter):
        facts.state("method", UNKNOWN, "adapter")
        return
    if word not in ("lora", "qlora"):
        facts.reading.context["adapter"] = word
        word = "lora"
    if word == "lora" and (facts.on("peft_use_dora") or facts.on("lora_use_dora")) and base == "full":
        word = "dora"
    facts.state("method", word if base in ("full", "pretrain") else f"{base}+{word}", "adapter")
    _state_quantization(facts, word)
    facts.integer("lora_rank", "lora_r", low=1)
    facts.number("lora_alpha", "lora_alpha", low=0)
    facts.number("lora_dropout", "lora_dropout", low=0)
    if facts.on("lora_target_linear"):
        facts.state("lora_targets", ["all-linear"], "lora_target_linear")
    facts.names("lora_targets", "lora_target_modules")
    facts.names("lora_modules_to_save", "lora_modules_to_save")


def _state_quantization(facts: FactReader, adapter: str) -> None:
    """Axolotl quantizes only what an adapter trains; 4 bit is nf4 with double quantization unless said otherwise."""
    settings = facts.under("bnb_config_kwargs")
    if is_unknown(facts.value("load_in_4bit")):
        facts.state("quantization", UNKNOWN, "load_in_4bit")
    elif facts.on("load_in_4bit"):
        nested = boolean(settings.value("bnb_4bit_use_double_quant")) is not False
        fp4 = (text(settings.value("bnb_4bit_quant_type")) or "nf4").lower() == "fp4"
        facts.state("quantization", "fp4" if fp4 else "nf4-double" if nested else "nf4", "load_in_4bit")
    elif facts.on("load_in_8bit"):
        facts.state("quantization", "int8", "load_in_8bit")
    elif facts.on("gptq"):
        facts.state("quantization", "gptq-int4", "gptq")
    facts.boolean("quantize_experts", "quantize_moe_experts")
    if facts.reading.facts.value("quantization") in ("nf4", "nf4-double", "fp4", "int8"):
        facts.default("upcast_unquantized", False, "axolotl", "", "norms and embeddings are cast back")


def _state_sharding(facts: FactReader) -> None:
    settings = facts.mapping("deepspeed")
    if settings is not None:
        facts.reading.context["deepspeed"] = settings
        state_deepspeed(facts.under("deepspeed"))
    else:
        # measured on Axolotl's own examples: relative to where the command is run
        facts.reference("deepspeed", "deepspeed", base="cwd")
    facts.integer("fsdp_version", "fsdp_version", low=1)
    options = state_fsdp_options(facts)
    if facts.mapping("fsdp_config") is not None:
        state_fsdp_settings(facts.under("fsdp_config"))
    if options or facts.mapping("fsdp_config") is not None:
        state_fsdp_defaults(facts, "axolotl", ((1, ""),))
    for fact, keys in (
        ("tensor_parallel_size", ("tensor_parallel_size",)),
        ("context_parallel_size", ("context_parallel_size", "sequence_parallel_degree")),
        ("expert_parallel_size", ("expert_parallel_size",)),
    ):
        facts.integer(fact, *keys, low=1)


def _state_defaults(facts: FactReader) -> None:
    stated = facts.reading.facts.stated
    for fact, value in (
        ("sequence_length", 512), ("micro_batch_size", 1), ("gradient_accumulation_steps", 1), ("lr_scheduler", "cosine"),
        ("gradient_checkpointing", "none"), ("packing", False), ("weight_decay", 0.0), ("max_grad_norm", 1.0),
        ("loss_kernel", "torch"), ("compile", False),
    ):  # fmt: skip
        if not stated(fact):
            facts.default(fact, value, "axolotl")
    if not stated("epochs") and not stated("max_steps"):
        facts.default("epochs", 1.0, "axolotl")
    if not stated("optimizer"):
        facts.default("optimizer", "adamw_torch_fused", "axolotl")
    if not stated("attention"):
        facts.default("attention", "sdpa", "transformers")


def read_axolotl(document: Document, root: Mapping, *, base: Route = (), why: str = "") -> Reading:
    """A reading of an Axolotl configuration, or of the overrides on ``axolotl train``'s command line."""
    reading = Reading("axolotl", document, root, base=base, why=why, framework="axolotl")
    facts = FactReader(reading)
    reading.facts.state("framework", "axolotl", reading.origin())
    facts.model("base_model")
    facts.boolean("trust_remote_code", "trust_remote_code")
    _state_precision(facts)
    _state_batch(facts)
    name = text(facts.value("optimizer"))
    if name in _OPTIMIZERS:
        facts.state("optimizer", _OPTIMIZERS[name], "optimizer")
    else:
        facts.optimizer("optimizer", "optimizer")
    state_schedule(facts)
    _state_checkpointing(facts)
    _state_attention(facts)
    _state_kernels(facts)
    _state_adapter(facts)
    _state_reference(facts)
    _state_sharding(facts)
    if facts.given("lora_model_dir"):
        facts.reference("adapter", "lora_model_dir", base="cwd")
    _state_defaults(facts)
    if any("integrations.hatchery" in name for name in texts(facts.node("plugins")) or []):
        words = "the hatchery plugin trains on a remote service: no GPU here holds the model"
        reading.context["held_elsewhere"] = ("plugins", words)
    return reading


class Axolotl(Dialect):
    name = "axolotl"
    title = "Axolotl"
    summary = "Axolotl's YAML"
    schema = "axolotl"
    markers = _OWN - {"datasets", "special_tokens", "strict", "chat_template", "rl"}

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if "base_model" not in root and "base_model_config" not in root:
            return None
        own = [key for key in root.index if key in _OWN]
        sized = evidence(root, ("sequence_len", "micro_batch_size"))
        if sized and len(own) >= 3:
            return Recognition(88, because(evidence(root, _TELLING)))
        if len(own) >= 4 and "datasets" in root and "learning_rate" in root:
            return Recognition(80, because(evidence(root, _TELLING)))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_axolotl(document, root)

    def own_command(self, started: Program) -> OwnCommand | None:
        """``axolotl train FILE`` and ``python -m axolotl.cli.train FILE``."""
        if started.module:
            return OwnCommand(started.arguments) if started.name in ("axolotl.cli.train", "axolotl.cli.main") else None
        first = started.arguments[0].text if started.arguments else ""
        return (
            OwnCommand(started.arguments[1:])
            if started.name == "axolotl" and first in ("train", "preprocess")
            else None
        )

    def state_launcher(self, reading: Reading, flags: Mapping, positionals: list[Word]) -> None:
        state_processes(reading, flags, positionals)


DIALECT = Axolotl()
