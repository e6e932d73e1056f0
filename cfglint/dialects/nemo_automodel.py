"""NeMo Automodel's YAML: Hugging Face models under PyTorch FSDP 2, built from ``_target_`` entries.

Parameters are held in ``model.torch_dtype`` and gathered in bf16 (``FSDP2Config.mp_policy``); with pipeline stages the
micro-batch is ``pipeline.pp_microbatch_size``, of which ``local_batch_size`` holds several.

Names and defaults: nemo_automodel main of 2026-08 (``components/distributed/config.py``, ``_transformers/auto_model.py``,
``components/_peft/lora.py``, ``recipes/llm/train_ft.py``).
"""

from __future__ import annotations

from typing import Final

from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import attention, because, boolean, evidence, integer, text, texts
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document, Mapping, Scalar

FRAMEWORK: Final = "nemo-automodel"
TARGET: Final = "_target_"

_SECTIONS = (
    "model", "recipe", "dataset", "loss_fn", "step_scheduler", "distributed", "dataloader", "peft", "optimizer", "packed_sequence",
)  # fmt: skip
_SHAPE = ("step_scheduler", "dist_env", "distributed", "fsdp", "recipe", "flow_matching", "dataloader")

_LOSSES: Final = {
    "MaskedCrossEntropy": "torch", "FusedLinearCrossEntropy": "fused_linear", "TEParallelCrossEntropy": "triton",
    "ChunkedCrossEntropy": "chunked",
}  # fmt: skip

_PROJECTIONS: Final = frozenset(
    {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}
)

_OPTIMIZERS: Final = {
    "FusedAdam": "adamw_apex_fused", "SGD": "sgd", "Muon": "muon", "AdamW8bit": "adamw_8bit", "Adam8bit": "adamw_8bit",
    "PagedAdamW8bit": "paged_adamw_8bit",
}  # fmt: skip


def evidence_of(root: Mapping) -> str | None:
    """Why ``root`` is Automodel's, None where it is not."""
    for key in _SECTIONS:
        section = root.get(key)
        node = section.get(TARGET) if isinstance(section, Mapping) else section if key == "recipe" else None
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.startswith("nemo_automodel."):
            return because([f"{key}.{TARGET}" if isinstance(section, Mapping) else key, *evidence(root, _SHAPE, 2)])
    if isinstance(root.get("dist_env"), Mapping) and evidence(root, ("recipe_args", "mining")):
        return because(["dist_env", *evidence(root, ("recipe", "recipe_args", "mining"))])
    shape = evidence(root, _SHAPE, most=4)
    if "step_scheduler" in shape and len(shape) >= 2 and ("model" in root or "recipe" in root or "dataset" in root):
        return because(shape[:3])
    if _is_diffusion(root):
        return because(["model", "inference", *evidence(root, ("vae", "distributed"), 1)])
    return None


def _is_diffusion(root: Mapping) -> bool:
    """A generation config: ``model.pretrained_model_name_or_path`` beside ``inference`` and ``output``."""
    model = root.get("model")
    named = isinstance(model, Mapping) and "pretrained_model_name_or_path" in model
    return named and isinstance(root.get("inference"), Mapping) and isinstance(root.get("output"), Mapping)


def _state_model(facts: ResolvingReader) -> None:
    model = facts.under("model")
    for route in (
        ("pretrained_model_name_or_path",), ("config", "pretrained_model_name_or_path"), ("config", "name_or_path"),
        ("config",),
    ):  # fmt: skip
        if model.text("model_id", route) is not None:
            if model.reading.facts.value("model_id"):
                model.reference("model", *route, base="cwd")
            break
    else:
        _state_inline_model(model)
    model.boolean("trust_remote_code", "trust_remote_code")
    loads = (text(model.value(TARGET)) or "").rpartition(".")[2]
    key = "torch_dtype" if model.given("torch_dtype") else "dtype"
    if model.dtype("weight_dtype", key) is UNKNOWN and model.value(key) == "auto":
        facts.reading.context["weight_dtype"] = "auto"
    if not facts.reading.facts.stated("weight_dtype"):
        if loads == "from_config":
            facts.default("weight_dtype", "bf16", FRAMEWORK)
        elif loads == "from_pretrained":
            facts.default("weight_dtype", UNKNOWN, FRAMEWORK, "", "the checkpoint's dtype")
    name = text(model.value("attn_implementation"))
    kernel = attention(name) or {"flash": "flash2", "flex": "flex"}.get(name or "")
    if kernel is not None:
        model.state("attention", kernel, "attn_implementation")
    backend = {"te": "flash2", "sdpa": "sdpa", "flex": "flex", "eager": "eager"}.get(
        str(model.value("backend", "attn"))
    )
    if backend is not None:
        model.state("attention", backend, "backend", "attn")
    if model.given("backend", "te_fp8"):
        model.state("fp8_linear", True, "backend", "te_fp8")


def _state_inline_model(model: ResolvingReader) -> None:
    """A config class of transformers with its dimensions in place."""
    config = model.mapping("config")
    target = text(model.value("config", TARGET)) or ""
    kind = target.split(".")[2] if target.startswith("transformers.models.") and target.count(".") >= 3 else None
    if config is None or kind is None:
        return
    from cfglint.source.node import plain

    fields = plain(config)
    if isinstance(fields, dict):
        fields = {key: value for key, value in fields.items() if key != TARGET}
        model.reading.context["model_config"] = {"model_type": kind, **fields}
        model.state("model_id", target.rpartition(".")[2], "config", TARGET)


def _state_batch(facts: ResolvingReader) -> None:
    schedule = facts.under("step_scheduler")
    stages = max(
        (integer(facts.value(section, "pp_size")) or 1 for section in ("distributed", "fsdp")),
        default=1,
    )
    inner = ("distributed", "pipeline", "pp_microbatch_size")
    if stages > 1 and integer(facts.value(*inner)) is not None:
        facts.integer("micro_batch_size", inner, low=1)
    else:
        schedule.integer("micro_batch_size", "local_batch_size", low=1)
    schedule.integer("global_batch_size", "global_batch_size", low=1)
    schedule.number("epochs", "num_epochs", low=0)
    schedule.integer("max_steps", "max_steps", low=1)
    for route in (("packed_sequence", "packed_sequence_size"), ("packed_sequence", "pack_size")):
        size = integer(facts.value(*route))
        if size is not None and size > 0:
            facts.state("packing", True, *route)
            facts.state("sequence_length", size, *route)
    facts.integer(
        "sequence_length",
        ("dataset", "seq_len"), ("dataset", "seq_length"), ("dataset", "block_size"),
        ("dataloader", "collate_fn", "max_length"),
        low=1,
    )  # fmt: skip


def _state_method(facts: ResolvingReader) -> None:
    quantization = facts.under("quantization")
    if quantization.on("load_in_4bit"):
        fp4 = text(quantization.value("bnb_4bit_quant_type")) == "fp4"
        nested = quantization.on("bnb_4bit_use_double_quant")
        quantization.state("quantization", "fp4" if fp4 else "nf4-double" if nested else "nf4", "load_in_4bit")
    elif quantization.on("load_in_8bit"):
        quantization.state("quantization", "int8", "load_in_8bit")
    stated = facts.reading.facts
    adapter = ""
    peft = facts.under("peft")
    if facts.mapping("peft") is not None:
        adapter = "qlora" if stated.value("quantization") in ("nf4", "nf4-double", "fp4") else "lora"
        adapter = "dora" if adapter == "lora" and peft.on("use_dora") else adapter
        if peft.integer("lora_rank", "dim", low=1) is None:
            peft.default("lora_rank", 8, FRAMEWORK)
        if peft.number("lora_alpha", "alpha", low=0) is None:
            peft.default("lora_alpha", 32.0, FRAMEWORK)
        peft.number("lora_dropout", "dropout", low=0)
        _state_targets(peft)
    distills = facts.given("teacher_model") or facts.given("kd_loss_fn")
    if distills:
        key = "teacher_model" if facts.given("teacher_model") else "kd_loss_fn"
        kind = "lora" if adapter == "dora" else adapter
        facts.state("method", f"distill+{kind}" if kind else "distill", key)
        teacher = text(facts.value("teacher_model", "pretrained_model_name_or_path"))
        if teacher:
            facts.reading.context["teacher"] = teacher
    elif adapter:
        facts.state("method", adapter, "peft")
    else:
        facts.default("method", "full", FRAMEWORK, "", "no peft")


def _state_targets(peft: ResolvingReader) -> None:
    if peft.on("match_all_linear"):
        peft.state("lora_targets", ["all-linear"], "match_all_linear")
        return
    names = texts(peft.node("target_modules"))
    if names is None:
        return
    plain = [name.removeprefix("*").removeprefix(".").removeprefix("self_attn.").removeprefix("mlp.") for name in names]
    if any(name in ("", "_proj") for name in plain):
        peft.state("lora_targets", ["all-linear"], "target_modules")
    else:
        # patterns and Automodel's own modules (grouped experts, fused projections) have no common name
        known = all(name in _PROJECTIONS for name in plain)
        peft.state("lora_targets", plain if known else UNKNOWN, "target_modules")


def _state_optimizer(facts: ResolvingReader) -> None:
    optimizer = facts.under("optimizer")
    target = text(optimizer.value(TARGET)) or ""
    name = target.rpartition(".")[2]
    if target in ("torch.optim.Adam", "torch.optim.AdamW"):
        fused = optimizer.on("fused")
        single = boolean(optimizer.value("foreach")) is False
        optimizer.state(
            "optimizer", "adamw_torch_fused" if fused else "adamw_loop" if single else "adamw_torch", TARGET
        )
    elif name:
        optimizer.state("optimizer", UNKNOWN if is_unknown(target) else _OPTIMIZERS.get(name, name.lower()), TARGET)
    if optimizer.on("master_weights"):
        optimizer.state("master_weights", True, "master_weights")
    optimizer.number("learning_rate", "lr", low=0)
    optimizer.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", ("clip_grad_norm", "max_norm"), low=0)
    facts.integer("warmup_steps", ("lr_scheduler", "lr_warmup_steps"), low=0)
    style = text(facts.value("lr_scheduler", "lr_decay_style"))
    if style in ("cosine", "linear", "constant"):
        word = "constant_with_warmup" if style == "constant" else style
        facts.state("lr_scheduler", word, "lr_scheduler", "lr_decay_style")


def _state_sharding(facts: ResolvingReader) -> None:
    for section in ("distributed", "fsdp"):
        sizes = facts.under(section)
        for fact, key in (
            ("tensor_parallel_size", "tp_size"), ("context_parallel_size", "cp_size"),
            ("pipeline_parallel_size", "pp_size"), ("expert_parallel_size", "ep_size"),
        ):  # fmt: skip
            sizes.integer(fact, key, low=1)
        sizes.boolean("sequence_parallel", "sequence_parallel")
        value = sizes.value("activation_checkpointing")
        on = boolean(value)
        if isinstance(value, str) and value in ("full", "selective"):
            sizes.state("gradient_checkpointing", value, "activation_checkpointing")
        elif on is not None:
            sizes.state("gradient_checkpointing", "full" if on else "none", "activation_checkpointing")
        if sizes.on("cpu_offload"):
            for fact in ("offload_parameters", "offload_optimizer"):
                sizes.state(fact, "cpu", "cpu_offload")
        if (defers := boolean(sizes.value("defer_fsdp_grad_sync"))) is not None:
            sizes.state("reduces_each_micro_step", not defers, "defer_fsdp_grad_sync")
        replicas = integer(sizes.value("dp_replicate_size"))
        if replicas is not None and replicas > 1:
            sizes.state("fsdp", "hybrid_shard", "dp_replicate_size")
    strategy = text(facts.value("distributed", "strategy"))
    if strategy == "ddp":
        facts.state("fsdp", "none", "distributed", "strategy")
    elif strategy == "fsdp2" or facts.mapping("fsdp") is not None:
        where = ("distributed", "strategy") if strategy else ("fsdp",)
        facts.state("fsdp", "full_shard", *where)
        facts.state("fsdp_version", 2, *where)
        # FSDP2Config.mp_policy: parameters are gathered in bf16 whatever they are stored in
        facts.default("compute_dtype", "bf16", FRAMEWORK, "", "FSDP gathers parameters in bf16")
    elif strategy == "megatron_fsdp":
        facts.state("fsdp", "full_shard", "distributed", "strategy")
    if (on := boolean(facts.value("compile", "enabled"))) is not None:
        facts.state("compile", on, "compile", "enabled")
    if facts.on("fp8", "enabled"):
        facts.state("fp8_linear", True, "fp8", "enabled")


def _state_hardware(facts: ResolvingReader) -> None:
    """Only what starts the run counts: ``benchmark`` and ``skypilot``; ``ci`` describes a test machine."""
    accelerators = text(facts.value("skypilot", "accelerators"))
    if accelerators is not None and not is_unknown(accelerators):
        name, _, count = accelerators.partition(":")
        facts.state("gpu", name, "skypilot", "accelerators")
        facts.state("gpus_per_node", integer(count) or 1, "skypilot", "accelerators")
        if facts.integer("nodes", ("skypilot", "num_nodes"), low=1) is None:
            facts.default("nodes", 1, FRAMEWORK)
    facts.integer("nodes", ("benchmark", "num_nodes"), low=1)


def read_automodel(document: Document, root: Mapping, *, why: str = "", arguments: bool = False) -> Reading:
    """A reading of an Automodel config, or (``arguments``) of overrides on its command line."""
    reading = Reading("nemo", document, root, why=why, framework=FRAMEWORK)
    reading.context["layout"] = "automodel"
    facts = ResolvingReader(reading)
    if arguments:
        reading.role = "arguments"
    else:
        reading.facts.state("framework", FRAMEWORK, reading.origin())
    if not arguments and not (facts.given("step_scheduler") and facts.given("model")):
        _state_model(facts)
        reading.role = "part"
        reading.context["trains"] = False
        return reading
    _state_model(facts)
    _state_batch(facts)
    if not arguments or facts.given("peft") or facts.given("teacher_model"):
        _state_method(facts)
    _state_optimizer(facts)
    _state_sharding(facts)
    _state_hardware(facts)
    target = text(facts.value("loss_fn", TARGET)) or ""
    kernel = _LOSSES.get(target.rpartition(".")[2])
    if kernel is not None:
        facts.state("loss_kernel", kernel, "loss_fn", TARGET)
    wide = boolean(facts.value("loss_fn", "fp32_upcast"))
    if wide is not None:
        facts.state("upcast_logits", wide, "loss_fn", "fp32_upcast")
    if facts.given("freeze_config"):
        # components/utils/model_utils.py, apply_parameter_freezing: the vision tower is frozen unless it says otherwise
        frozen = boolean(facts.value("freeze_config", "freeze_vision_tower"))
        facts.state("trains_vision", frozen is False, "freeze_config")
    if not arguments and not reading.facts.stated("gradient_checkpointing"):
        facts.default("gradient_checkpointing", "none", FRAMEWORK)
    return reading
