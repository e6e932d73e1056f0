"""Megatron-Core's argument names, as Megatron-LM, Megatron-DeepSpeed, NeMo, Megatron-Bridge and Primus share them.

Every function reads keys with underscores below a reader's prefix; whoever calls them has turned ``--num-layers`` into
``num_layers``. A model whose dimensions are given becomes a ``config.json`` mapping in the nearest family of
transformers with the same tensors.

Names and defaults: Megatron-LM core 0.9 to 0.18 (``megatron/training/arguments.py``, ``core/transformer/
transformer_config.py``), NeMo 1.23 (``examples/nlp/language_modeling/conf``).
"""

from __future__ import annotations

from typing import Any, Final

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import FactReader, boolean, dtype, integer, text, texts, word
from cfglint.jobs.facts import UNKNOWN

VOCABULARY_MULTIPLE: Final = 128
"""``make_vocab_size_divisible_by``: embedding rows are padded to this times the tensor-parallel size."""

GPT2_VOCABULARY: Final = 50257
"""Entries of GPT-2's vocabulary, which ``GPT2BPETokenizer`` reads from its vocabulary and merge files."""

_LORA_TARGETS: Final = {
    "linear_qkv": ("q_proj", "k_proj", "v_proj"), "attention_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_q": ("q_proj",), "linear_k": ("k_proj",), "linear_v": ("v_proj",),
    "linear_proj": ("o_proj",), "attention_dense": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"), "mlp_fc1": ("gate_proj", "up_proj"),
    "linear_fc1_gate": ("gate_proj",), "linear_fc1_up": ("up_proj",),
    "linear_fc2": ("down_proj",), "mlp_fc2": ("down_proj",),
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp": ("gate_proj", "up_proj", "down_proj"),
}  # fmt: skip
"""Modules of Megatron and NeMo in the words of transformers; NeMo 1's groups of modules included."""

_SCHEDULES: Final = {
    "cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup", "WSD": "warmup_stable_decay",
    "inverse-square-root": "inverse_sqrt",
}  # fmt: skip

_MOMENT_BYTES: Final = {"fp8": 1, "fp16": 2, "bf16": 2, "fp32": 4}
_OPTIMIZERS: Final = {
    "adam": "adamw_torch_fused", "fused_adam": "adamw_torch_fused", "distributed_fused_adam": "adamw_torch_fused",
    "megatron_fused_adam": "adamw_torch_fused", "adamw": "adamw_torch_fused", "mcore_distributed_optim": "adamw_torch_fused",
    "sgd": "sgd_momentum", "muon": "muon", "dist_muon": "muon", "lion": "lion",
}  # fmt: skip


def lora_targets(names: list[str]) -> list[str] | None:
    """Names of Megatron's modules in the words of transformers; None where one of them is not known."""
    found: list[str] = []
    for name in names:
        plain = name.removeprefix("*.")
        if plain in ("all", "all_linear", "all-linear"):
            return ["all-linear"]
        known = _LORA_TARGETS.get(plain)
        if known is None:
            return None
        found.extend(part for part in known if part not in found)
    return found or None


def state_parallel(facts: FactReader) -> None:
    for fact, keys in (
        ("tensor_parallel_size", ("tensor_model_parallel_size", "model_parallel_size")),
        ("pipeline_parallel_size", ("pipeline_model_parallel_size",)),
        ("context_parallel_size", ("context_parallel_size",)),
        ("expert_parallel_size", ("expert_model_parallel_size",)),
        ("expert_tensor_parallel_size", ("expert_tensor_parallel_size",)),
    ):
        facts.integer(fact, *keys, low=1)
    facts.boolean("sequence_parallel", "sequence_parallel")


def state_expert_tensor_default(facts: FactReader) -> None:
    """Experts are split like the other layers unless told otherwise (``megatron/core/model_parallel_config.py``)."""
    known = facts.reading.facts
    tensor = known.value("tensor_parallel_size")
    if (
        known.stated("expert_parallel_size")
        and not known.stated("expert_tensor_parallel_size")
        and isinstance(tensor, int)
    ):
        facts.default("expert_tensor_parallel_size", tensor, "megatron", "", "tensor_model_parallel_size")


def state_batch(facts: FactReader) -> None:
    facts.integer("micro_batch_size", "micro_batch_size", low=1)
    facts.integer("global_batch_size", "global_batch_size", low=1)
    facts.integer("sequence_length", "seq_length", "encoder_seq_length", low=1)
    facts.integer("max_steps", "train_iters", low=1)


def state_schedule(facts: FactReader) -> None:
    """Learning rate, decay and clipping; Adam is one fused kernel (apex or TransformerEngine)."""
    facts.number("learning_rate", "lr", low=0)
    facts.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", "clip_grad", low=0)
    facts.integer("warmup_steps", "lr_warmup_iters", low=0)
    facts.number("warmup_ratio", "lr_warmup_fraction", low=0)
    style = text(facts.value("lr_decay_style"))
    if style is not None and style in _SCHEDULES:
        facts.state("lr_scheduler", _SCHEDULES[style], "lr_decay_style")
    name = text(facts.value("optimizer"))
    if name is not None and name.lower() in _OPTIMIZERS:
        facts.state("optimizer", _OPTIMIZERS[name.lower()], "optimizer")
    state_optimizer_device(facts)


def state_optimizer_device(facts: FactReader) -> None:
    if facts.on("optimizer_cpu_offload"):
        facts.state("offload_optimizer", "cpu", "optimizer_cpu_offload")
    state_optimizer_precision(facts)


def state_optimizer_precision(facts: FactReader) -> None:
    """Dtypes of moments and gradient buffers (``optimizer_config.py``, ``training/arguments.py``); moments of two dtypes count as the wider."""
    facts.boolean("precision_aware_optimizer", "use_precision_aware_optimizer")
    if facts.on("use_precision_aware_optimizer"):
        moments = [text(facts.value(key)) or "fp32" for key in ("exp_avg_dtype", "exp_avg_sq_dtype")]
        widest = max((m for m in moments if m in _MOMENT_BYTES), key=_MOMENT_BYTES.__getitem__, default=None)
        if widest is not None and facts.given("exp_avg_dtype"):
            facts.state("optimizer_state_dtype", widest, "exp_avg_dtype")
    for key, value in (("grad_reduce_in_bf16", True), ("main_grads_dtype", "bf16"), ("grad_reduce_in_fp32", False)):
        stated = text(facts.value(key)) if isinstance(value, str) else boolean(facts.value(key))
        if stated == value and stated is not None:
            facts.state("gradient_dtype", "bf16", key)


def state_precision(facts: FactReader) -> None:
    """Parameters are held in the 16-bit dtype with fp32 copies in the optimizer (``Float16OptimizerWithFloat16Params``)."""
    for key in ("bf16", "fp16"):
        value = facts.value(key)
        if is_unknown(value):
            facts.state("weight_dtype", UNKNOWN, key)
            facts.state("compute_dtype", UNKNOWN, key)
        elif boolean(value) is True:
            facts.state("weight_dtype", key, key)
            facts.state("compute_dtype", key, key)
            facts.state("master_weights", True, key)
    for key in ("fp8", "fp8_format"):
        value = facts.value(key)
        if value is not None and not is_unknown(value) and boolean(value) is not False:
            facts.state("fp8_linear", True, key)


def state_memory(facts: FactReader) -> None:
    """Recomputation, kernels, and how optimizer states and parameters are sharded over data parallelism."""
    for key in ("recompute_granularity", "activations_checkpoint_granularity"):
        value = word(facts.node(key))
        if is_unknown(value):
            facts.state("gradient_checkpointing", UNKNOWN, key)
        elif value in ("full", "selective", "none"):
            facts.state("gradient_checkpointing", value, key)
    for key in ("recompute_activations", "moe_layer_recompute"):
        if facts.on(key):
            facts.state("gradient_checkpointing", "selective", key)
    modules = texts(facts.node("recompute_modules"))
    if modules is not None or facts.on("moe_layer_recompute"):
        moved = ["moe"] if facts.on("moe_layer_recompute") else []
        key = "recompute_modules" if modules is not None else "moe_layer_recompute"
        facts.state("recompute_modules", [*(modules or []), *moved], key)
    interleaved = ("num_layers_per_virtual_pipeline_stage", "virtual_pipeline_model_parallel_size")
    for prefix in ("recompute", "activations_checkpoint"):
        if text(facts.value(f"{prefix}_method")) == "block" and not any(facts.value(key) for key in interleaved):
            facts.integer("recompute_layers", f"{prefix}_num_layers", low=1)
    for key in ("checkpoint_activations", "deepspeed_activation_checkpointing"):
        if facts.on(key):
            facts.state("gradient_checkpointing", "full", key)
    backend = text(facts.value("attention_backend"))
    if backend in ("flash", "unfused"):
        facts.state("attention", "flash2" if backend == "flash" else "eager", "attention_backend")
    for key in ("use_flash_attn", "use_flash_attn_v2", "use_flash_attn_triton"):
        if facts.on(key):
            facts.state("attention", "flash2", key)
    for key in ("cross_entropy_loss_fusion", "cross_entropy_fusion"):
        if facts.on(key):
            facts.state("loss_kernel", "triton", key)
    if facts.on("use_torch_fsdp2"):
        facts.state("fsdp", "full_shard", "use_torch_fsdp2")
        facts.state("fsdp_version", 2, "use_torch_fsdp2")
    for key in ("use_megatron_fsdp", "use_custom_fsdp"):
        kind = text(facts.value("data_parallel_sharding_strategy"))
        if facts.on(key) and kind == "optim_grads_params":
            facts.state("fsdp", "full_shard", "data_parallel_sharding_strategy")
    if facts.reading.facts.stated("fsdp"):
        return  # it shards the optimizer with the parameters
    if (on := boolean(facts.value("use_distributed_optimizer"))) is not None:
        facts.state("zero_stage", 1 if on else 0, "use_distributed_optimizer")


def state_core(facts: FactReader) -> None:
    """Everything above."""
    state_parallel(facts)
    state_batch(facts)
    state_precision(facts)
    state_schedule(facts)
    state_memory(facts)


def state_lora(facts: FactReader) -> None:
    """``dim``, ``alpha``, ``dropout``, ``target_modules`` as Bridge, NeMo-RL and Primus name them."""
    facts.integer("lora_rank", "dim", "adapter_dim", low=1)
    facts.number("lora_alpha", "alpha", low=0)
    facts.number("lora_dropout", "dropout", "adapter_dropout", low=0)
    names = texts(facts.node("target_modules"))
    if names is not None:
        facts.state("lora_targets", lora_targets(names) or UNKNOWN, "target_modules")


def vocabulary(facts: FactReader, tensor_parallel: int = 1) -> int | None:
    """Rows of the embedding: what is stated, or the tokenizer's vocabulary padded as Megatron pads it."""
    for key in ("padded_vocab_size", "pad_vocab_size_to"):
        stated = integer(facts.value(key))
        if stated is not None and stated > 0:
            return stated
    known = integer(facts.value("vocab_size"))
    kind = text(facts.value("tokenizer_type")) or "GPT2BPETokenizer"
    named = text(facts.value("tokenizer_model")) or text(facts.value("tokenizer_name_or_path"))
    if text(facts.value("tokenizer", "library")) == "huggingface":  # NeMo 1
        kind, named = "HuggingFaceTokenizer", text(facts.value("tokenizer", "type"))
    if known is None and kind == "GPT2BPETokenizer" and facts.given("vocab_file") and facts.given("merge_file"):
        known = GPT2_VOCABULARY
    elif known is None and named is not None and not is_unknown(named):
        known = _vocabulary_of(named)
    if known is None or known < 1:
        return None
    multiple = (integer(facts.value("make_vocab_size_divisible_by")) or VOCABULARY_MULTIPLE) * max(1, tensor_parallel)
    return -(-known // multiple) * multiple if multiple > 0 else known


def _vocabulary_of(name: str) -> int | None:
    """Embedding rows of a model of the catalogue that lends its tokenizer."""
    from cfglint.catalog.models import architecture_of, find_model

    row = find_model(name)
    made = architecture_of(row) if row is not None else None
    return made.vocab_size if made is not None else None


def model_config(facts: FactReader) -> dict[str, Any] | None:
    """A ``config.json`` mapping of the dimensions; None where they are not all known, or no family has these tensors."""
    layers, hidden, heads = (integer(facts.value(key)) for key in ("num_layers", "hidden_size", "num_attention_heads"))
    tensor = integer(facts.value("tensor_model_parallel_size")) or 1
    rows = vocabulary(facts, tensor)
    if not layers or not hidden or not heads or not rows or min(layers, hidden, heads) < 1:
        return None
    gated = facts.on("swiglu") or text(facts.value("activation")) in ("swiglu", "fast-swiglu", "geglu", "silu")
    config: dict[str, Any] = {
        "vocab_size": rows, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "intermediate_size": integer(facts.value("ffn_hidden_size")) or _feed_forward(hidden, gated),
        "tie_word_embeddings": not _untied(facts), "_name_or_path": f"{layers} layers of {hidden}",
    }  # fmt: skip
    groups = integer(facts.value("num_query_groups")) or integer(facts.value("num_key_value_heads"))
    if facts.value("group_query_attention") is not None and boolean(facts.value("group_query_attention")) is False:
        groups = None
    config["num_key_value_heads"] = groups or heads
    positions = integer(facts.value("max_position_embeddings"))
    if positions:
        config["max_position_embeddings"] = positions
    width = integer(facts.value("kv_channels"))
    if width:
        config["head_dim"] = width
    experts = integer(facts.value("num_experts")) or integer(facts.value("num_moe_experts"))
    if experts and experts > 1:
        return _with_experts(facts, config, experts, gated)
    if facts.on("multi_latent_attention"):
        return None
    return _dense(facts, config, gated)


def _feed_forward(hidden: int, gated: bool) -> int:
    """Megatron's default: 4 × hidden, two thirds of it in multiples of 64 where the activation is gated."""
    return int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden


def _untied(facts: FactReader) -> bool:
    if facts.given("share_embeddings_and_output_weights"):
        return boolean(facts.value("share_embeddings_and_output_weights")) is False
    return facts.on("untie_embeddings_and_output_weights") or facts.on("no_weight_tying")


def _biased(facts: FactReader) -> bool:
    for key in ("add_bias_linear", "bias"):
        if (stated := boolean(facts.value(key))) is not None:
            return stated
    return not facts.on("disable_bias_linear")


def _dense(facts: FactReader, config: dict[str, Any], gated: bool) -> dict[str, Any] | None:
    bias = _biased(facts)
    kind = text(facts.value("position_embedding_type"))
    rotary = kind in ("rope", "yarn", "mrope") or any(
        facts.on(key) for key in ("use_rotary_position_embeddings", "use_rope")
    )
    if gated:
        config["model_type"] = "llama"
        config["attention_bias"] = config["mlp_bias"] = bias
        if facts.on("qk_layernorm"):
            config["model_type"] = "qwen3"
        elif facts.on("add_qkv_bias") and not bias:
            config["model_type"] = "qwen2"
        return config
    if kind == "alibi" and bias and facts.on("embed_layernorm"):
        return {**config, "model_type": "bloom"}
    if rotary or config["num_key_value_heads"] != config["num_attention_heads"]:
        config["model_type"] = "starcoder2"
        config["use_bias"] = bias
        return config
    if not bias or "max_position_embeddings" not in config or "head_dim" in config:
        return None
    return {
        "model_type": "gpt2", "vocab_size": config["vocab_size"], "n_layer": config["num_hidden_layers"],
        "n_embd": config["hidden_size"], "n_head": config["num_attention_heads"], "n_inner": config["intermediate_size"],
        "n_positions": config["max_position_embeddings"], "tie_word_embeddings": config["tie_word_embeddings"],
        "_name_or_path": config["_name_or_path"],
    }  # fmt: skip


def _with_experts(facts: FactReader, config: dict[str, Any], experts: int, gated: bool) -> dict[str, Any] | None:
    """Mixtures of gated experts without biases: Mixtral's tensors, or DeepSeek's with latent attention or shared experts."""
    if not gated or _biased(facts):
        return None
    width = integer(facts.value("moe_ffn_hidden_size")) or config["intermediate_size"]
    shared = integer(facts.value("moe_shared_expert_intermediate_size")) or 0
    chosen = integer(facts.value("moe_router_topk")) or 2
    every = facts.value("moe_layer_freq")
    if every is not None and every != 1:
        return None
    if facts.on("multi_latent_attention"):
        sizes = {
            "kv_lora_rank": "kv_lora_rank", "qk_head_dim": "qk_nope_head_dim", "qk_pos_emb_head_dim": "qk_rope_head_dim",
            "v_head_dim": "v_head_dim",
        }  # fmt: skip
        for key, name in sizes.items():
            value = integer(facts.value(key))
            if value is None or value < 1:
                return None
            config[name] = value
        rank = integer(facts.value("q_lora_rank"))
        config["q_lora_rank"] = rank if rank and rank > 0 else None
        if shared % width:
            return None
        config.pop("head_dim", None)
        return {
            **config, "model_type": "deepseek_v3", "n_routed_experts": experts, "moe_intermediate_size": width,
            "n_shared_experts": shared // width, "num_experts_per_tok": chosen, "first_k_dense_replace": 0,
        }  # fmt: skip
    if shared:
        return None
    if facts.on("qk_layernorm"):
        return {
            **config, "model_type": "qwen3_moe", "num_experts": experts, "num_experts_per_tok": chosen,
            "moe_intermediate_size": width, "decoder_sparse_step": 1, "mlp_only_layers": [],
        }  # fmt: skip
    return {
        **config, "model_type": "mixtral", "intermediate_size": width, "num_local_experts": experts,
        "num_experts_per_tok": chosen,
    }  # fmt: skip


def state_dimensions(facts: FactReader) -> bool:
    """State the model that the dimensions make; True where they make one."""
    config = model_config(facts)
    if config is None:
        return False
    facts.reading.context["model_config"] = config
    facts.state("model_id", config["_name_or_path"], "num_layers")
    return True


def precision_word(value: Any) -> str | None:
    """Lightning's ``bf16``, ``bf16-mixed``, ``16-mixed``, ``32`` as a dtype."""
    if isinstance(value, str):
        value = value.removesuffix("-mixed").removesuffix("-true")
    return dtype(value)
