"""GPT-NeoX's YAML, often written as JSON with comments, with DeepSpeed's settings in place.

Keys are spelt with dashes or underscores. A run is given several files at once, merged: one of them holds the model, another
the paths and the machine; a file without a model completes others.

Names and formulas: GPT-NeoX main of 2026 (``megatron/neox_arguments``, ``megatron/model/transformer.py``, ``megatron/tokenizer``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects import megatron_core
from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.values import FactReader, because, boolean, evidence, integer, number, text, word
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.node import Document, Entry, Mapping, Scalar, Sequence

_SHAPE: Final = (
    "pipe_parallel_size", "model_parallel_size", "num_layers", "hidden_size", "num_attention_heads", "seq_length", "pos_emb",
    "norm", "train_micro_batch_size_per_gpu", "no_weight_tying", "output_layer_parallelism", "checkpoint_activations",
    "train_iters", "lr_decay_style", "scaled_upper_triang_masked_softmax_fusion", "attention_config", "checkpoint_factor",
    "lr_decay_iters", "rotary_pct", "gpt_j_residual",
)  # fmt: skip
_STRONG: Final = frozenset(
    {"pipe_parallel_size", "model_parallel_size", "output_layer_parallelism", "gpt_j_residual", "checkpoint_factor"}
)
_SETUP: Final = (
    "data_path", "vocab_file", "merge_file", "train_data_paths", "save", "load", "tensorboard_dir", "log_dir", "hostfile",
    "launcher", "deepspeed_slurm", "use_wandb", "wandb_project", "wandb_host", "tokenizer_type", "checkpoint_validation_with_forward_pass",
)  # fmt: skip

_NEOX_VOCABULARY: Final = 50277
"""Entries of ``20B_tokenizer.json``."""

_OPTIMIZERS: Final = {
    "adam": "adamw_torch_fused", "adamw": "adamw_torch_fused", "cpu_adam": "adamw_torch_fused", "cpu_torch_adam": "adamw_torch",
    "sgd": "sgd", "lion": "lion", "onebitadam": "adamw_torch",
}  # fmt: skip
_TASKS: Final = {"dpo": "dpo", "kto": "kto", "rm": "reward", "reinforce": "grpo"}


def underscored(root: Mapping) -> Mapping:
    """The file with ``num-layers`` as ``num_layers``, every value at its own place."""
    return Mapping(
        root.span,
        [Entry(Scalar(e.key.span, e.name.replace("-", "_"), e.key.raw), e.value, e.merged) for e in root.entries],
    )


def _state_precision(facts: FactReader) -> None:
    """``precision``, else DeepSpeed's sections; ``fp16`` may itself name bfloat16."""
    kind = {"bfloat16": "bf16", "fp16": "fp16", "fp32": "fp32"}.get(str(facts.value("precision")))
    route: tuple[str, ...] = ("precision",)
    if kind is None:
        for key in ("bf16", "fp16"):
            section = facts.under(key)
            if section.on("enabled") or section.on(key):
                kind, route = key, (key, "enabled" if section.given("enabled") else key)
                if text(section.value("type")) == "bfloat16":
                    kind = "bf16"
                break
    if kind is None:
        return
    facts.state("weight_dtype", kind, *route)
    facts.state("compute_dtype", "none" if kind == "fp32" else kind, *route)
    facts.state("master_weights", kind != "fp32", *route)


def _state_batch(facts: FactReader) -> None:
    facts.integer("micro_batch_size", "train_micro_batch_size_per_gpu", low=1)
    facts.integer("gradient_accumulation_steps", "gradient_accumulation_steps", "gas", low=1)
    facts.integer("global_batch_size", "train_batch_size", low=1)
    facts.integer("sequence_length", "seq_length", low=1)
    facts.integer("max_steps", "train_iters", low=1)


def _state_parallel(facts: FactReader) -> None:
    facts.integer("tensor_parallel_size", "model_parallel_size", low=1)
    stages = integer(facts.value("pipe_parallel_size"))
    if stages is not None and stages >= 0:
        # 0 runs without the pipeline engine
        facts.state("pipeline_parallel_size", max(1, stages), "pipe_parallel_size")
    facts.integer("zero_stage", ("zero_optimization", "stage"), low=0)
    for key, fact in (("offload_optimizer", "offload_optimizer"), ("offload_param", "offload_parameters")):
        device = word(facts.node("zero_optimization", key, "device"))
        if device in ("none", "cpu", "nvme"):
            facts.state(fact, device, "zero_optimization", key, "device")
    if facts.on("zero_optimization", "cpu_offload"):
        facts.state("offload_optimizer", "cpu", "zero_optimization", "cpu_offload")
    facts.integer("gpus_per_node", "num_gpus", low=1)
    facts.integer("nodes", "num_nodes", low=1)


def _state_optimizer(facts: FactReader) -> None:
    optimizer = facts.under("optimizer")
    name = text(optimizer.value("type"))
    if name is not None:
        optimizer.state("optimizer", _OPTIMIZERS.get(name.lower(), name.lower()), "type")
    optimizer.number("learning_rate", ("params", "lr"), low=0)
    facts.number("weight_decay", "weight_decay", low=0)
    facts.number("max_grad_norm", "gradient_clipping", "clip_grad", low=0)
    warmup = number(facts.value("warmup"))
    if warmup is not None and 0 <= warmup <= 1:
        facts.state("warmup_ratio", warmup, "warmup")
    style = text(facts.value("lr_decay_style"))
    if style in ("cosine", "linear", "constant"):
        facts.state("lr_scheduler", "constant_with_warmup" if style == "constant" else style, "lr_decay_style")


def _attention_kinds(facts: FactReader) -> set[str]:
    """Kinds of layers in ``attention_config: [[["flash"], 12], …]``."""
    node = facts.node("attention_config")
    kinds: set[str] = set()
    for group in node.items if isinstance(node, Sequence) else []:
        names = group.items[0] if isinstance(group, Sequence) and group.items else group
        for item in names.items if isinstance(names, Sequence) else [names]:
            if isinstance(item, Scalar) and isinstance(item.value, str):
                kinds.add(item.value)
    return kinds


def _state_model(facts: FactReader) -> None:
    kinds = _attention_kinds(facts)
    if kinds == {"flash"}:
        facts.state("attention", "flash2", "attention_config")
    if kinds - {"flash", "global"}:
        # Mamba, RWKV, sparse attention: not the model these dimensions would make otherwise
        return
    config = model_config(facts)
    if config is not None:
        facts.reading.context["model_config"] = config
        facts.state("model_id", config["_name_or_path"], "num_layers")


def model_config(facts: FactReader) -> dict[str, Any] | None:
    """LLaMA's tensors (gated, no biases) or GPT-NeoX's, in the file's dimensions; None where another family is meant."""
    layers, hidden, heads = (integer(facts.value(key)) for key in ("num_layers", "hidden_size", "num_attention_heads"))
    rows = _vocabulary(facts)
    if not layers or not hidden or not heads or not rows or min(layers, hidden, heads) < 1:
        return None
    gated = text(facts.value("activation")) in ("swiglu", "geglu", "silu", "reglu", "bilinear")
    rotary = text(facts.value("pos_emb")) == "rotary"
    norm = text(facts.value("norm")) or "layernorm"
    multiple = integer(facts.value("mlp_multiple_of")) or 1
    stated = integer(facts.value("intermediate_size")) or 4 * hidden
    width = int(stated * 2 / 3) // 2 if gated else stated
    width = -(-width // max(1, multiple)) * max(1, multiple)
    config: dict[str, Any] = {
        "vocab_size": rows, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "intermediate_size": width, "tie_word_embeddings": not facts.on("no_weight_tying"),
        "max_position_embeddings": integer(facts.value("max_position_embeddings")) or 2048,
        "_name_or_path": f"{layers} layers of {hidden}",
    }  # fmt: skip
    if not rotary:
        return None
    biased = boolean(facts.value("use_bias_in_mlp")) is not False
    if gated and norm == "rmsnorm" and not biased and boolean(facts.value("use_bias_in_attn_linear")) is False:
        return {**config, "model_type": "llama", "num_key_value_heads": integer(facts.value("num_kv_heads")) or heads}
    if not gated and norm == "layernorm" and biased and not facts.given("num_kv_heads"):
        return {**config, "model_type": "gpt_neox"}
    return None


def _vocabulary(facts: FactReader) -> int | None:
    """The tokenizer's entries, padded to ``make_vocab_size_divisible_by`` times the model-parallel size."""
    known = integer(facts.value("padded_vocab_size"))
    if known is not None and known > 0:
        return known
    name = (text(facts.value("vocab_file")) or "").rpartition("/")[2]
    kind = text(facts.value("tokenizer_type")) or "GPT2BPETokenizer"
    if name == "20B_tokenizer.json":
        entries = _NEOX_VOCABULARY
    elif kind == "GPT2BPETokenizer" and facts.given("vocab_file") and facts.given("merge_file"):
        entries = megatron_core.GPT2_VOCABULARY
    else:
        return None
    multiple = integer(facts.value("make_vocab_size_divisible_by")) or megatron_core.VOCABULARY_MULTIPLE
    multiple *= max(1, integer(facts.value("model_parallel_size")) or 1)
    return -(-entries // multiple) * multiple if multiple > 0 else entries


class GptNeox(Dialect):
    name = "gpt-neox"
    title = "GPT-NeoX"
    summary = "GPT-NeoX's YAML and JSON"
    markers = frozenset(
        {"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size", "num-layers"}
    )

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        keys = underscored(root)
        found = evidence(keys, _SHAPE, most=len(_SHAPE))
        own = [key for key in found if key in _STRONG]
        if len(own) >= 2 and len(found) >= 3 and ("num_layers" in keys or "seq_length" in keys or len(own) >= 3):
            return Recognition(93, because([*own[:2], *[k for k in found if k not in own][:1]]))
        setup = evidence(keys, _SETUP, most=len(_SETUP))
        dashed = any("-" in key for key in root.index)
        if len(setup) >= 4 and len(setup) * 2 >= len(root) and (dashed or "vocab_file" in keys) and "data_path" in keys:
            return Recognition(60, because(setup[:3]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        reading = Reading("gpt-neox", document, underscored(root), framework="gpt-neox")
        reading.facts.state("framework", "gpt-neox", reading.origin())
        facts = FactReader(reading)
        if not facts.given("num_layers"):
            reading.role = "part"
            reading.context["trains"] = False
        _state_precision(facts)
        _state_batch(facts)
        _state_parallel(facts)
        _state_optimizer(facts)
        value = boolean(facts.value("checkpoint_activations"))
        if value is not None:
            facts.state("gradient_checkpointing", "full" if value else "none", "checkpoint_activations")
        _state_model(facts)
        task = text(facts.value("train_impl"))
        if task is not None and task != "normal":
            facts.state("method", _TASKS.get(task, UNKNOWN), "train_impl")
        elif facts.on("finetune"):
            facts.state("method", "full", "finetune")
        elif reading.role == "run":
            facts.default("method", "pretrain", "gpt-neox")
        yield reading


DIALECT = GptNeox()
