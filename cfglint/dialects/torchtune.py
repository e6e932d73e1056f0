"""torchtune's YAML, and ``tune run`` with its overrides.

A config is read by OmegaConf; what is built stands in ``_component_``. The model's builder names the architecture. All
of the model is held in ``dtype``, without autocast and without fp32 copies. Distributed recipes shard with FSDP 2
(``fully_shard``); which recipe a config is for stands on the command line, so that sharding is a default that a file
for one device does not have: torchtune's own file names and bitsandbytes' optimizers say so.

Names and defaults: torchtune 0.4 to 0.6 and main, ``recipes/*.py``, ``torchtune/models/*``, ``torchtune/_cli/run.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.catalog.presets import preset
from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import basename, program
from cfglint.dialects.flags import read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.launch import TORCHRUN_BOOLEANS, split_at_script, state_count, state_surroundings
from cfglint.dialects.overrides import nested
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, evidence, integer, number, text, texts
from cfglint.jobs.facts import UNKNOWN, DerivedOrigin, FileOrigin, Reading, Reference
from cfglint.source.node import Document, Mapping, Scalar, Sequence, Span

COMPONENT: Final = "_component_"

_TELLING = ("model", "tokenizer", "checkpointer", "dataset", "metric_logger", "loss", "optimizer")

_OPTIMIZERS: Final = {
    "torch.optim.SGD": "sgd", "torch.optim.Adam": "adamw_torch", "torch.optim.Adafactor": "adafactor",
    "bitsandbytes.optim.PagedAdamW": "paged_adamw_32bit", "bitsandbytes.optim.PagedAdamW32bit": "paged_adamw_32bit",
    "bitsandbytes.optim.PagedAdamW8bit": "paged_adamw_8bit", "bitsandbytes.optim.AdamW8bit": "adamw_8bit",
    "bitsandbytes.optim.PagedLion8bit": "paged_lion_8bit",
    "torchao.prototype.low_bit_optim.AdamW8bit": "adamw_torch_8bit", "torchao.optim.AdamW8bit": "adamw_torch_8bit",
    "torchao.prototype.low_bit_optim.AdamW4bit": "adamw_torch_4bit", "torchao.optim.AdamW4bit": "adamw_torch_4bit",
}  # fmt: skip
"""Optimizer classes whose arguments change nothing; see :func:`_state_optimizer` for the others."""

_LOSSES: Final = {
    "LinearCrossEntropyLoss": "chunked", "CEWithChunkedOutputLoss": "chunked", "CrossEntropyLoss": "torch",
    "LigerLinearCrossEntropyLoss": "fused_linear", "ForwardKLWithChunkedOutputLoss": "chunked", "SFTLoss": "torch",
}  # fmt: skip
"""``LinearCrossEntropyLoss`` projects chunk by chunk as well, but autograd keeps each chunk's logits until backward, as
with ``CEWithChunkedOutputLoss`` (torchtune/modules/loss/cross_entropy_loss.py).
"""

_PREFERENCE: Final = {"DPOLoss": "dpo", "RSOLoss": "dpo", "SimPOLoss": "orpo", "PPOLoss": "ppo"}
"""SimPO has no reference model, as ORPO has none."""

_LORA_NAMES: Final = {"output_proj": "o_proj"}

_DIMENSIONS: Final = {
    "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads",
    "embed_dim": "hidden_size", "intermediate_dim": "intermediate_size", "vocab_size": "vocab_size",
    "max_seq_len": "max_position_embeddings",
}  # fmt: skip
_GENERAL: Final = {"llama2": "llama", "llama3": "llama", "llama3_1": "llama", "mistral": "mistral"}
"""Builders that take the dimensions themselves, with transformers' name of the family."""

_DISTRIBUTED: Final = (
    "fsdp_cpu_offload", "fsdp_reshard_after_forward", "tensor_parallel_dim", "tensor_parallel_plan",
    "data_parallel_shard_dim", "data_parallel_replicate_dim", "context_parallel_dim", "custom_sharded_layers",
)  # fmt: skip

_SINGLE = re.compile(r"single_device|_single(?=[._])")


def builder_of(component: str) -> tuple[str, str]:
    """``torchtune.models.llama3.qlora_llama3_8b`` as (``llama3_8b``, ``qlora``); the second is empty without adapters."""
    name = component.rpartition(".")[2]
    for prefix in ("qlora_", "lora_"):
        if name.startswith(prefix):
            return name[len(prefix) :], prefix[:-1]
    return name, ""


def _state_model(facts: ResolvingReader) -> str:
    """The model, its adapters' kind (``""``, ``lora``, ``qlora``)."""
    component = text(facts.value("model", COMPONENT))
    if component is None:
        return ""
    if is_unknown(component):
        facts.state("model_id", UNKNOWN, "model", COMPONENT)
        return ""
    name, adapter = builder_of(component)
    known = preset("torchtune", name)
    if known is not None:
        facts.state("model_id", known, "model", COMPONENT)
    elif name in _GENERAL:
        config: dict[str, Any] = {"model_type": _GENERAL[name], "_name_or_path": name, "tie_word_embeddings": False}
        for key, field in _DIMENSIONS.items():
            value = integer(facts.value("model", key))
            if value is not None and value > 0:
                config[field] = value
        if {"num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"} <= config.keys():
            config.setdefault("intermediate_size", _feed_forward(config["hidden_size"]))
            facts.reading.context["model_config"] = config
            facts.state("model_id", name, "model", COMPONENT)
    else:
        facts.state("model_id", component, "model", COMPONENT)
    return adapter


def _feed_forward(hidden: int) -> int:
    """``scale_hidden_dim_for_mlp`` (torchtune/models/llama2/_component_builders.py)."""
    inner = 4 * int(2 * hidden / 3)
    return 256 * -(-inner // 256)


def _state_method(facts: ResolvingReader, adapter: str) -> None:
    quantized = adapter == "qlora" or facts.on("model", "quantize_base")
    if quantized:
        key = COMPONENT if adapter == "qlora" else "quantize_base"
        facts.state("quantization", "nf4-double", "model", key)
    if adapter and facts.on("model", "use_dora") and not quantized:
        kind = "dora"
    else:
        kind = "qlora" if quantized else adapter
    loss = (text(facts.value("loss", COMPONENT)) or "").rpartition(".")[2]
    base, route = _PREFERENCE.get(loss, ""), ("loss", COMPONENT)
    if facts.given("kd_loss") or facts.given("teacher_model"):
        base, route = (
            "distill",
            ("teacher_model", COMPONENT) if facts.given("teacher_model") else ("kd_loss", COMPONENT),
        )
        facts.reading.context["teacher"] = builder_of(text(facts.value("teacher_model", COMPONENT)) or "")[0]
    elif facts.given("policy_model") and facts.given("value_model"):
        base, route = "ppo", ("policy_model", COMPONENT)
    if base:
        facts.state("method", f"{base}+{kind}" if kind in ("lora", "qlora") else base, *route)
    elif facts.given("model", COMPONENT):
        facts.state("method", kind or "full", "model", COMPONENT)


def _state_lora(facts: ResolvingReader) -> None:
    model = facts.under("model")
    model.integer("lora_rank", "lora_rank", low=1)
    model.number("lora_alpha", "lora_alpha", low=0)
    model.number("lora_dropout", "lora_dropout", low=0)
    names = texts(model.node("lora_attn_modules"))
    if names is None:
        return
    targets = [_LORA_NAMES.get(name, name) for name in names]
    if model.on("apply_lora_to_mlp"):
        targets += ["gate_proj", "up_proj", "down_proj"]
    if model.on("apply_lora_to_output"):
        targets.append("lm_head")
    model.state("lora_targets", targets, "lora_attn_modules")


def _state_optimizer(facts: ResolvingReader) -> None:
    component = text(facts.value("optimizer", COMPONENT))
    if component is not None:
        name = _OPTIMIZERS.get(component)
        if component == "torch.optim.AdamW":
            name = "adamw_torch_fused" if facts.on("optimizer", "fused") else "adamw_torch"
        elif component == "torch.optim.SGD" and (number(facts.value("optimizer", "momentum")) or 0) > 0:
            name = "sgd_momentum"
        elif component == "bitsandbytes.optim.AdamW":
            name = "adamw_8bit" if integer(facts.value("optimizer", "optim_bits")) == 8 else "adamw_loop"
        elif name is None:
            name = component.rpartition(".")[2].lower()
        if is_unknown(component):
            facts.state("optimizer", UNKNOWN, "optimizer", COMPONENT)
        elif name:
            facts.state("optimizer", name, "optimizer", COMPONENT)
    facts.number("learning_rate", ("optimizer", "lr"), low=0)
    facts.number("weight_decay", ("optimizer", "weight_decay"), low=0)
    facts.boolean("optimizer_in_backward", "optimizer_in_bwd")
    scheduler = text(facts.value("lr_scheduler", COMPONENT)) or ""
    if scheduler.endswith("get_cosine_schedule_with_warmup"):
        facts.state("lr_scheduler", "cosine", "lr_scheduler", COMPONENT)
    facts.integer("warmup_steps", ("lr_scheduler", "num_warmup_steps"), low=0)
    facts.number("max_grad_norm", "clip_grad_norm", low=0)


def _state_batch(facts: ResolvingReader) -> None:
    facts.integer("micro_batch_size", "batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", low=1)
    epochs = facts.number("epochs", "epochs", low=0)
    steps = integer(facts.value("max_steps_per_epoch"))
    if steps is not None and steps > 0 and isinstance(epochs, float) and epochs.is_integer() and epochs > 0:
        origin = facts.origin("max_steps_per_epoch")
        how = f"max_steps_per_epoch {steps} × epochs {int(epochs)}"
        facts.reading.facts.state("max_steps", steps * int(epochs), DerivedOrigin(how, (origin,)))
    facts.integer("sequence_length", ("tokenizer", "max_seq_len"), ("dataset", "max_seq_len"), low=1)
    facts.boolean("packing", ("dataset", "packed"), "packed")
    if facts.given("dataset_val") and facts.given("run_val_every_n_steps"):
        facts.state("evaluates", True, "run_val_every_n_steps")
    facts.integer("eval_micro_batch_size", "batch_size_val", low=1)


def _state_memory(facts: ResolvingReader) -> None:
    apart = texts(facts.node("custom_sharded_layers"))
    if apart is not None:
        facts.state("fsdp_wraps_ends", {"tok_embeddings", "output"} <= set(apart), "custom_sharded_layers")
    on = boolean(facts.value("enable_activation_checkpointing"))
    mode = text(facts.value("ac_mode"))
    if mode in ("full", "selective"):
        facts.state("gradient_checkpointing", mode, "ac_mode")
        if mode == "selective":
            facts.integer("checkpoint_every", "ac_option", low=1)
    elif on is not None:
        facts.state("gradient_checkpointing", "full" if on else "none", "enable_activation_checkpointing")
    elif is_unknown(facts.value("enable_activation_checkpointing")):
        facts.state("gradient_checkpointing", UNKNOWN, "enable_activation_checkpointing")
    facts.boolean("activation_offloading", "enable_activation_offloading")
    facts.boolean("compile", "compile")
    loss = (text(facts.value("loss", COMPONENT)) or "").rpartition(".")[2]
    if loss in _LOSSES:
        facts.state("loss_kernel", _LOSSES[loss], "loss", COMPONENT)


def _state_precision(facts: ResolvingReader) -> None:
    if facts.dtype("weight_dtype", "dtype") is not None:
        facts.state("compute_dtype", "none", "dtype")
        facts.state("master_weights", False, "dtype")


def _state_sharding(facts: ResolvingReader, whole: bool) -> None:
    for fact, key in (
        ("tensor_parallel_size", "tensor_parallel_dim"),
        ("context_parallel_size", "context_parallel_dim"),
    ):
        facts.integer(fact, key, low=1)
    for key in ("fsdp_cpu_offload", "cpu_offload"):
        on = boolean(facts.value(key))
        if on is not None:
            for fact in ("offload_parameters", "offload_optimizer"):
                facts.state(fact, "cpu" if on else "none", key)
            break
    replicas = integer(facts.value("data_parallel_replicate_dim"))
    if replicas is not None and replicas > 1:
        facts.state("fsdp", "hybrid_shard", "data_parallel_replicate_dim")
    else:
        reshard = boolean(facts.value("fsdp_reshard_after_forward"))
        if reshard is not None:
            facts.state("fsdp", "full_shard" if reshard else "shard_grad_op", "fsdp_reshard_after_forward")
    if not whole or _for_one_device(facts):
        return
    facts.default("fsdp", "full_shard", "torchtune", "", "distributed recipes shard with fully_shard")
    facts.default("fsdp_version", 2, "torchtune", "", "distributed recipes shard with fully_shard")


def _for_one_device(facts: ResolvingReader) -> bool:
    if facts.has(*_DISTRIBUTED):
        return False
    optimizer = text(facts.value("optimizer", COMPONENT)) or ""
    return bool(_SINGLE.search(basename(facts.reading.document.path))) or optimizer.startswith("bitsandbytes.")


def read_torchtune(document: Document, root: Mapping, *, why: str = "", arguments: bool = False) -> Reading:
    """A reading of a config, or (``arguments``) of the overrides on a command line, which bring no defaults."""
    reading = Reading("torchtune", document, root, why=why, framework="torchtune")
    facts = ResolvingReader(reading)
    if arguments:
        reading.role = "arguments"
    else:
        reading.facts.state("framework", "torchtune", reading.origin())
    adapter = _state_model(facts)
    if not arguments and not _trains(facts):
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    _state_precision(facts)
    _state_batch(facts)
    _state_method(facts, adapter)
    _state_lora(facts)
    _state_optimizer(facts)
    _state_memory(facts)
    _state_sharding(facts, not arguments)
    if not arguments:
        stated = reading.facts.stated
        for fact, value in (
            ("gradient_checkpointing", "none"), ("optimizer_in_backward", False), ("compile", False),
            ("gradient_accumulation_steps", 1),
        ):  # fmt: skip
            if not stated(fact):
                facts.default(fact, value, "torchtune")
    return reading


def _trains(facts: ResolvingReader) -> bool:
    """Generation, evaluation and quantization configs have no optimizer and no loss."""
    return facts.given("optimizer") or facts.given("loss") or (facts.given("batch_size") and facts.given("epochs"))


class Torchtune(Dialect):
    name = "torchtune"
    title = "torchtune"
    summary = "torchtune's YAML, and `tune run` with overrides"
    markers = frozenset({COMPONENT, "checkpointer", "metric_logger", "enable_activation_checkpointing"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        telling = evidence(root, _TELLING, most=len(_TELLING))
        for key in telling:
            node = root.get(key)
            component = node.get(COMPONENT) if isinstance(node, Mapping) else None
            if isinstance(component, Scalar) and isinstance(component.value, str) and "." in component.value:
                return Recognition(90, because([f"{key}.{COMPONENT}", *[k for k in telling if k != key][:2]]))
        for key, entry in root.index.items():
            node = entry.value.items[0] if isinstance(entry.value, Sequence) and entry.value.items else entry.value
            component = node.get(COMPONENT) if isinstance(node, Mapping) else None
            if isinstance(component, Scalar) and str(component.value).startswith("torchtune."):
                return Recognition(85, f"{key}.{COMPONENT}")
        old = evidence(
            root, ("model_checkpoint", "tokenizer_checkpoint", "enable_fsdp", "enable_activation_checkpointing")
        )
        if len(old) >= 3 and "batch_size" in root:
            return Recognition(60, because(old))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield read_torchtune(document, root)

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        """``tune run [torchrun's flags] RECIPE --config FILE [a.b=c …]``."""
        started = program(launch.words)
        if started is None or started.name != "tune" or not started.arguments or started.arguments[0].text != "run":
            return
        own, rest = split_at_script(started.arguments[1:], TORCHRUN_BOOLEANS)
        words = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        flags = read_flags(own, TORCHRUN_BOOLEANS).mapping
        flags.span = span
        reading = Reading("torchtune", launch.document, flags, role="launch", why="tune run", framework="torchtune")
        state_count(reading, "gpus_per_node", "nproc_per_node", "nproc-per-node")
        state_count(reading, "nodes", "nnodes")
        state_surroundings(reading, launch)
        if rest:
            recipe = basename(rest[0].text).removesuffix(".py")
            reading.context["program"] = recipe
            origin = FileOrigin(launch.document, ("recipe",), rest[0].span, rest[0].span)
            if "single_device" in recipe:
                reading.facts.state("fsdp", "none", origin)
                if not reading.facts.stated("gpus_per_node"):
                    reading.facts.state("gpus_per_node", 1, origin)
            elif "distributed" in recipe:
                reading.facts.state("fsdp_version", 2, origin)
        arguments = read_flags(rest[1:])
        entry = arguments.mapping.entry("config")
        if entry is not None and isinstance(entry.value, Scalar) and isinstance(entry.value.value, str):
            target = entry.value.value
            if target.endswith((".yaml", ".yml")) and not is_unknown(target):
                where = FileOrigin(launch.document, ("config",), entry.key.span, entry.value.span)
                reading.references.append(Reference("config", target, where, base="cwd"))
        yield reading
        overrides = nested(arguments.positionals, span)
        shipped = _shipped(reading, arguments.mapping)
        if len(overrides) or shipped is not None:
            inline = read_torchtune(launch.document, overrides, why="overrides of tune run", arguments=True)
            inline.context.update(launched_by=reading, command_line=True)
            if shipped is not None:
                _state_shipped(inline, *shipped)
            yield inline


_SHIPPED: Final = re.compile(r"(\w+)/([0-9.]+[BMbm])_(\w+)")
_METHODS: Final = {"full": "full", "lora": "lora", "qlora": "qlora", "dora": "dora", "qdora": "qdora"}


def _shipped(launch: Reading, flags: Mapping) -> tuple[str, str, FileOrigin] | None:
    """Model and method of a config of torchtune's own that a command names, ``llama3_1/8B_lora_single_device``."""
    entry = flags.entry("config")
    match = (
        _SHIPPED.fullmatch(str(entry.value.value)) if entry is not None and isinstance(entry.value, Scalar) else None
    )
    if entry is None or match is None:
        return None
    model = preset("torchtune", f"{match.group(1)}_{match.group(2).lower().replace('.', '_')}")
    method = _METHODS.get(match.group(3).partition("_")[0])
    if model is None or method is None:
        return None
    return model, method, FileOrigin(launch.document, ("config",), entry.key.span, entry.value.span)


def _state_shipped(reading: Reading, model: str, method: str, origin: FileOrigin) -> None:
    reading.role = "run"
    if not reading.facts.stated("model_id"):
        reading.facts.state("model_id", model, origin)
    reading.facts.state("method", method, origin)
    words = "the config is torchtune's own and holds settings that are not known here: no verdict"
    reading.context["held_elsewhere"] = ("config", words)


DIALECT = Torchtune()
