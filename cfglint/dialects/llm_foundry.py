"""llm-foundry's YAML for Composer, ``composer train.py``, and MosaicML platform runs that carry either.

Weights are fp32 under autocast; FSDP's ``mixed_precision: PURE`` or ``DEFAULT`` gathers them in the autocast dtype. Text loaders
concatenate their samples. Durations are written with a unit: ``1ep``, ``4800ba``, ``0.02dur``.

Names and defaults: llm-foundry 0.3 to 0.22 (``llmfoundry/train``, ``llmfoundry/models/mpt``, ``llmfoundry/utils/config_utils.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers.command import Program, basename, program
from cfglint.dialects.flags import is_flag, read_flags
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.launch import split_at_script, state_count, state_surroundings
from cfglint.dialects.overrides import nested
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import because, boolean, evidence, integer, text
from cfglint.jobs.facts import UNKNOWN, FileOrigin, Reading, Reference
from cfglint.source.node import Document, Mapping, Route, Scalar, Sequence, Span
from cfglint.source.shell import Word

GPUS_PER_NODE: Final = 8
"""GPUs of a node on the MosaicML platform, whose runs state their total."""

COMPOSER_BOOLEANS: Final = frozenset({"v", "verbose", "m", "module_mode", "c", "command_mode"})

_SHAPE: Final = (
    "device_train_microbatch_size", "train_loader", "max_duration", "device_train_grad_accum", "global_train_batch_size",
    "device_eval_batch_size", "eval_loader", "icl_tasks", "eval_gauntlet", "max_seq_len", "fsdp_config", "algorithms",
    "callbacks", "device_train_batch_size",
)  # fmt: skip
_STRONG: Final = frozenset({"train_loader", "icl_tasks", "eval_gauntlet", "device_train_grad_accum"})
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ep|ba|dur|tok|sp)")
_OPTIMIZERS: Final = {
    "decoupled_adamw": "adamw_loop", "decoupled_lionw": "lion", "decoupled_lionw_8b": "lion_8bit", "adamw": "adamw_torch",
    "lion8b": "lion_8bit", "adalr_lion": "lion", "clip_lion": "lion",
}  # fmt: skip
"""Composer's AdamW steps tensor by tensor (``composer/optim/decoupled_weight_decay.py``)."""
_SCHEDULES: Final = {
    "cosine_with_warmup": "cosine", "linear_decay_with_warmup": "linear", "constant_with_warmup": "constant_with_warmup",
    "inv_sqrt_with_warmup": "inverse_sqrt",
}  # fmt: skip
_ATTENTION: Final = {"flash": "flash2", "triton": "flash2", "torch": "eager", "flex": "flex"}
_MPT: Final = ("mpt_causal_lm", "mosaic_gpt")


def _parameters(root: Mapping) -> tuple[Mapping, Route]:
    """The training settings: the file itself, or ``parameters`` of a platform run."""
    inner = root.get("parameters")
    return (inner, ("parameters",)) if isinstance(inner, Mapping) and not evidence(root, _SHAPE[:3]) else (root, ())


def _is_platform(root: Mapping) -> bool:
    return isinstance(root.get("integrations"), Sequence) and "command" in root


def duration(value: Any) -> tuple[float, str] | None:
    """``100ba`` as (100, ba); None for other values."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    return (float(match.group(1)), match.group(2)) if match else None


def _state_model(facts: ResolvingReader) -> None:
    model = facts.under("model")
    if model.text("model_id", "pretrained_model_name_or_path") is not None:
        if not is_unknown(model.value("pretrained_model_name_or_path")):
            model.reference("model", "pretrained_model_name_or_path", base="cwd")
    elif text(model.value("name")) in _MPT:
        _state_dimensions(model)
    kernel = _ATTENTION.get(str(model.value("attn_config", "attn_impl")))
    kernel = kernel or _ATTENTION.get(str(model.value("config_overrides", "attn_config", "attn_impl")))
    if kernel is not None:
        own = model.given("attn_config", "attn_impl")
        route = ("attn_config", "attn_impl") if own else ("config_overrides", "attn_config", "attn_impl")
        model.state("attention", kernel, *route)
    elif model.on("use_flash_attention_2"):
        model.state("attention", "flash2", "use_flash_attention_2")
    loss = text(model.value("loss_fn"))
    if loss in ("torch_crossentropy", "fused_crossentropy"):
        model.state("loss_kernel", "torch" if loss.startswith("torch") else "triton", "loss_fn")
    elif text(model.value("name")) == "hf_causal_lm":
        # llmfoundry/models/hf/hf_base.py: the loss that the model itself returns
        model.default("loss_kernel", "torch", "llm-foundry", "", "hf_causal_lm returns transformers' own loss")
    model.boolean("trust_remote_code", "trust_remote_code")
    if model.on("load_in_8bit"):
        model.state("quantization", "int8", "load_in_8bit")


def _state_dimensions(model: ResolvingReader) -> None:
    """MPT in the file's own dimensions. Grouped heads, gated or expert layers make another family: no model is made of them."""
    sizes = {key: integer(model.value(key)) for key in ("d_model", "n_heads", "n_layers", "vocab_size")}
    ratio = integer(model.value("expansion_ratio")) or 4
    kind = text(model.value("attn_config", "attn_type"))
    plain = (
        kind in (None, "multihead_attention")
        and ratio == 4
        and not model.given("ffn_config")
        and not model.given("block_overrides")
    )
    if not plain or any(value is None or value < 1 for value in sizes.values()):
        return
    length = integer(model.value("max_seq_len")) or 2048
    name = f"MPT {sizes['n_layers']} layers of {sizes['d_model']}"
    config: dict[str, Any] = {
        "model_type": "mpt",
        "expansion_ratio": ratio,
        "max_seq_len": length,
        "_name_or_path": name,
        **sizes,
    }
    if model.on("attn_config", "alibi") or boolean(model.value("learned_pos_emb")) is False:
        config["learned_pos_emb"] = False
    model.reading.context["model_config"] = config
    model.state("model_id", name, "n_layers")


def _state_batch(facts: ResolvingReader) -> None:
    facts.integer("micro_batch_size", "device_train_microbatch_size", low=1)
    facts.integer("global_batch_size", "global_train_batch_size", low=1)
    facts.integer("gradient_accumulation_steps", "device_train_grad_accum", low=1)
    facts.integer("sequence_length", "max_seq_len", ("train_loader", "dataset", "max_seq_len"), low=1)
    if facts.given("eval_loader"):
        facts.state("evaluates", True, "eval_loader")
    facts.integer("eval_micro_batch_size", "device_eval_batch_size", low=1)
    facts.integer("eval_sequence_length", ("eval_loader", "dataset", "max_seq_len"), low=1)
    stated = duration(facts.value("max_duration"))
    if stated is not None and stated[1] == "ep":
        facts.state("epochs", stated[0], "max_duration")
    elif stated is not None and stated[1] == "ba":
        facts.state("max_steps", int(stated[0]), "max_duration")
    if facts.given("train_loader", "dataset", "packing_ratio"):
        facts.state("packing", True, "train_loader", "dataset", "packing_ratio")
    elif text(facts.value("train_loader", "name")) == "text":
        facts.state("packing", True, "train_loader", "name")


def _state_precision(facts: ResolvingReader) -> None:
    value = text(facts.value("precision"))
    if is_unknown(value):
        facts.state("compute_dtype", UNKNOWN, "precision")
        return
    word = {"amp_bf16": "bf16", "amp_fp16": "fp16", "amp_fp8": "bf16", "fp32": "none"}.get(value or "")
    if word is not None:
        facts.state("compute_dtype", word, "precision")
        facts.state("weight_dtype", "fp32", "precision")
    if value == "amp_fp8":
        facts.state("fp8_linear", True, "precision")


def _state_optimizer(facts: ResolvingReader) -> None:
    optimizer = facts.under("optimizer")
    name = text(optimizer.value("name"))
    if name is not None:
        optimizer.state(
            "optimizer", UNKNOWN if is_unknown(name) else _OPTIMIZERS.get(name.lower(), name.lower()), "name"
        )
        if not is_unknown(name) and name.lower() == "adamw":
            optimizer.default("optimizer_foreach", True, "llm-foundry", "", "torch.optim.AdamW")
    optimizer.number("learning_rate", "lr", low=0)
    optimizer.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", ("algorithms", "gradient_clipping", "clipping_threshold"), low=0)
    schedule = text(facts.value("scheduler", "name"))
    if schedule is not None and schedule in _SCHEDULES:
        facts.state("lr_scheduler", _SCHEDULES[schedule], "scheduler", "name")
    warmup = duration(facts.value("scheduler", "t_warmup"))
    if warmup is not None and warmup[1] == "ba":
        facts.state("warmup_steps", int(warmup[0]), "scheduler", "t_warmup")
    elif warmup is not None and warmup[1] == "dur":
        facts.state("warmup_ratio", warmup[0], "scheduler", "t_warmup")


def _state_sharding(facts: ResolvingReader) -> None:
    for section in (("fsdp_config",), ("parallelism_config", "fsdp")):
        settings = facts.under(*section)
        kind = text(settings.value("sharding_strategy"))
        word = {
            "FULL_SHARD": "full_shard", "SHARD_GRAD_OP": "shard_grad_op", "NO_SHARD": "no_shard",
            "HYBRID_SHARD": "hybrid_shard",
        }.get((kind or "").upper())  # fmt: skip
        if word is not None:
            settings.state("fsdp", word, "sharding_strategy")
            settings.state("fsdp_version", 1, "sharding_strategy")
        if (on := boolean(settings.value("activation_checkpointing"))) is not None:
            settings.state("gradient_checkpointing", "full" if on else "none", "activation_checkpointing")
        if settings.on("activation_cpu_offload"):
            settings.state("activation_offloading", True, "activation_cpu_offload")
        if (text(settings.value("mixed_precision")) or "").upper() == "FULL":
            facts.reading.context["fsdp_mixed_precision"] = "FULL"
    facts.integer("tensor_parallel_size", ("tp_config", "tensor_parallel_degree"), low=1)
    if facts.given("compile_config"):
        facts.state("compile", True, "compile_config")


def _state_method(facts: ResolvingReader) -> None:
    for section in (("model", "peft_config"), ("peft_config",)):
        adapter = facts.under(*section)
        if (text(adapter.value("peft_type")) or "").upper() == "LORA" or adapter.given("r"):
            adapter.state("method", "lora", "r") if adapter.given("r") else adapter.state("method", "lora", "peft_type")
            adapter.integer("lora_rank", "r", low=1)
            adapter.number("lora_alpha", "lora_alpha", low=0)
            adapter.number("lora_dropout", "lora_dropout", low=0)
            adapter.names("lora_targets", "target_modules")
            return
    loader = text(facts.value("train_loader", "name"))
    if loader == "text":
        facts.state("method", "pretrain", "train_loader", "name")
    elif loader is not None:
        facts.state("method", "full", "train_loader", "name")


def read_llm_foundry(
    document: Document, root: Mapping, *, base: Route = (), why: str = "", arguments: bool = False
) -> Reading:
    """A reading of training settings, or (``arguments``) of overrides on a command line."""
    reading = Reading("llm-foundry", document, root, base=base, why=why, framework="llm-foundry")
    facts = ResolvingReader(reading)
    if arguments:
        reading.role = "arguments"
    else:
        reading.facts.state("framework", "llm-foundry", reading.origin())
        if not (facts.given("train_loader") or facts.given("global_train_batch_size")):
            reading.role = "part"
            reading.context["trains"] = False
    _state_model(facts)
    if reading.role == "part":
        return reading
    _state_precision(facts)
    _state_batch(facts)
    _state_method(facts)
    _state_optimizer(facts)
    _state_sharding(facts)
    if not arguments and not reading.facts.stated("gradient_checkpointing"):
        facts.default("gradient_checkpointing", "none", "llm-foundry")
    return reading


def _state_platform(reading: Reading, root: Mapping) -> None:
    """GPUs of a platform run: their type and total."""
    whole = Reading("llm-foundry", reading.document, root)
    facts = ResolvingReader(whole)
    for prefix in (("compute",), ()):
        section = facts.under(*prefix)
        for key in ("gpus", "gpu_num"):
            total = integer(section.value(key))
            if total is None or total < 1 or (total > GPUS_PER_NODE and total % GPUS_PER_NODE):
                continue
            reading.facts.state("gpus_per_node", min(total, GPUS_PER_NODE), section.origin(key))
            reading.facts.state("nodes", max(1, total // GPUS_PER_NODE), section.origin(key))
        kind = text(section.value("gpu_type"))
        if kind is not None and not is_unknown(kind):
            reading.facts.state("gpu", kind.replace("_", "-"), section.origin("gpu_type"))


class LlmFoundry(Dialect):
    name = "llm-foundry"
    title = "llm-foundry"
    summary = "llm-foundry's YAML for Composer, platform runs with it, and `composer` with overrides"
    markers = frozenset({"train_loader", "device_train_microbatch_size", "max_duration", "fsdp_config", "eval_loader"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        inner, base = _parameters(root)
        found = evidence(inner, _SHAPE, most=len(_SHAPE))
        own = [key for key in found if key in _STRONG]
        if own and (len(found) >= 3 or {"icl_tasks", "eval_gauntlet"} & set(own)) and _composers(inner, own):
            return Recognition(84, because([*map(str, base), *own[:1], *[k for k in found if k not in own][:2]]))
        model = root.get("model")
        name = model.get("name") if isinstance(model, Mapping) else None
        if isinstance(name, Scalar) and name.value in _MPT and isinstance(root.get("tokenizer"), Mapping):
            return Recognition(75, because(["model.name", "tokenizer"]))
        if _is_platform(root) and ("image" in root or "compute" in root or "gpu_num" in root):
            return Recognition(78, because(["integrations", "command"]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        inner, base = _parameters(root)
        reading = read_llm_foundry(document, inner, base=base)
        if base or _is_platform(root):
            _state_platform(reading, root)
        yield reading

    def read_launch(self, launch: Launch) -> Iterator[Reading]:
        """``composer [-n N] train.py FILE [a.b=c …]``."""
        started = program(launch.words)
        if started is None or started.name != "composer":
            return
        own, rest = split_at_script(started.arguments, COMPOSER_BOOLEANS)
        flags = read_flags(own, COMPOSER_BOOLEANS).mapping
        words = [started.word, *started.arguments]
        flags.span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        reading = Reading("llm-foundry", launch.document, flags, role="launch", why="composer", framework="llm-foundry")
        state_count(reading, "gpus_per_node", "n", "nproc")
        world = reading.value("world_size")
        local = reading.facts.value("gpus_per_node")
        if isinstance(world, int) and isinstance(local, int) and local > 0 and world % local == 0:
            reading.facts.state("nodes", world // local, reading.origin("world_size"))
        state_surroundings(reading, launch)
        yield from _run(reading, launch, rest, flags.span)

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        """``torchrun … train.py FILE a.b=c`` of llm-foundry: known by an override of its own."""
        if not started.script or not any(w.text.startswith(_OVERRIDES) for w in started.arguments):
            return
        words = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        tree = nested([w for w in started.arguments if not is_flag(w)], span)
        yield read_llm_foundry(launch.document, tree, why="overrides of train.py", arguments=True)


_OVERRIDES: Final = ("train_loader.", "device_train_microbatch_size=", "global_train_batch_size=", "eval_loader.")


def _composers(inner: Mapping, own: list[str]) -> bool:
    """``train_loader`` is a mapping with a dataset; the tasks of an evaluation are a list or a path."""
    loader = inner.get("train_loader")
    if "train_loader" in own:
        return isinstance(loader, Mapping) and ("dataset" in loader or "name" in loader)
    return True


def _run(reading: Reading, launch: Launch, rest: list[Word], span: Span) -> Iterator[Reading]:
    script = basename(rest[0].text) if rest else ""
    reading.context["program"] = script
    words = [word for word in rest[1:] if not is_flag(word)]
    if words and words[0].text.endswith((".yaml", ".yml")) and "=" not in words[0].text:
        origin = FileOrigin(launch.document, (words[0].text,), words[0].span, words[0].span)
        reading.references.append(Reference("config", words[0].text, origin, base="cwd"))
    yield reading
    tree = nested(words, span)
    if len(tree) and "train" in script:
        inline = read_llm_foundry(launch.document, tree, why="overrides of composer", arguments=True)
        inline.context.update(launched_by=reading, command_line=True)
        yield inline


DIALECT = LlmFoundry()
