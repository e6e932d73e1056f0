"""The sizes that tensor parallelism splits: of the model's architecture, or as far as an incomplete config.json states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cfglint.catalog.architecture import TEXT_KEYS, Architecture
from cfglint.jobs.job import ServingJob

from .server import served


@dataclass(frozen=True)
class Dimensions:
    """Zero or empty where a size is not known. ``certain`` is False where the name alone says which model it is."""

    model_type: str = ""
    heads: int = 0
    kv_heads: int = 0
    shared_latent: bool = False
    """Multi-head latent attention: keys and values are not split by heads."""
    mixed_kv_heads: bool = False
    """Layers differ in their number of key and value heads."""
    widths: tuple[int, ...] = ()
    """Intermediate sizes of dense layers, ascending."""
    expert_width: int = 0
    shared_width: int = 0
    """Of the experts that see every token."""
    experts: int = 0
    quantization: Mapping[str, Any] = field(default_factory=dict)
    certain: bool = True


def dimensions(job: ServingJob) -> Dimensions | None:
    """What is known of the served model's sizes; None where nothing is."""
    config = job.model.config if job.model is not None else None
    if job.architecture is None and config is not None:
        return _stated(config)
    arch, certain = served(job)
    if arch is None:
        return None
    found = _of(arch, certain)
    stated = config.get("quantization_config") if config is not None else None
    return replace(found, quantization=stated) if isinstance(stated, Mapping) and not found.quantization else found


def _of(arch: Architecture, certain: bool) -> Dimensions:
    dense = {n.intermediate_size for n in arch.layers if n.feed_forward == "dense" and n.intermediate_size}
    kv_heads = {n.kv_heads for n in arch.layers if n.kv_heads}
    moe = arch.moe
    return Dimensions(
        model_type=arch.model_type,
        heads=arch.num_attention_heads,
        kv_heads=arch.num_key_value_heads,
        shared_latent=arch.mla is not None,
        mixed_kv_heads=len(kv_heads) != 1,
        widths=tuple(sorted(dense)),
        expert_width=moe.intermediate_size if moe is not None else 0,
        shared_width=moe.shared_intermediate_size if moe is not None else 0,
        experts=moe.num_experts if moe is not None else 0,
        quantization=arch.quantization or {},
        certain=certain,
    )


def _stated(config: Mapping[str, Any]) -> Dimensions:
    """A config too short to make an architecture: what it says is certain, the rest unknown."""
    text = next((config[key] for key in TEXT_KEYS if isinstance(config.get(key), Mapping)), None)
    parts: tuple[Mapping[str, Any], ...] = (config,) if text is None else (text, config)

    def size(*names: str) -> int:
        found = (part.get(name) for name in names for part in parts)
        return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), 0)

    heads = size("num_attention_heads", "n_head", "n_heads")
    experts = size("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    expert_width = size("moe_intermediate_size") or (size("intermediate_size") if experts else 0)
    shared = size("shared_expert_intermediate_size", "share_expert_dim")
    if not shared and size("moe_intermediate_size"):
        shared = size("moe_intermediate_size") * size("n_shared_experts")
    all_experts = experts and not size("first_k_dense_replace") and not size("moe_intermediate_size")
    width = 0 if all_experts else size("intermediate_size")
    quantization = next(
        (part["quantization_config"] for part in parts if isinstance(part.get("quantization_config"), Mapping)), None
    )
    return Dimensions(
        model_type=str(config.get("model_type") or ""),
        heads=heads,
        kv_heads=size("num_key_value_heads", "num_kv_heads"),
        shared_latent=size("kv_lora_rank") > 0 or str(config.get("model_type")).startswith(("deepseek", "kimi")),
        widths=(width,) if width else (),
        expert_width=expert_width,
        shared_width=shared,
        experts=experts,
        quantization=quantization or {},
    )
