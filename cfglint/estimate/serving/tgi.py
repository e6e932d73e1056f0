"""Text Generation Inference: a warm-up prefill of ``max_batch_prefill_tokens``, then most of what is free for blocks."""

from __future__ import annotations

from typing import Any

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Rank, Shares, heed_length, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineVersion, engine_laws


def estimate_tgi(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Blocks left after the warm-up of one shard. Keys and values of a latent attention are kept expanded."""
    laws = engine_laws("tgi")
    rank = rank_of(settings, arch, gpu)
    cell = rank.token_bytes(rank.cache_element(settings.text("kv_cache_dtype")), latent=False)
    if gpu is None:
        return report("tgi", rank, None, cell)
    fraction = settings.number("cuda_memory_fraction", "gpu_memory_utilization") or 1.0
    stated = settings.positive("max_num_batched_tokens", "max_batch_prefill_tokens")
    tokens = stated
    if tokens is None:
        tokens = _prefill_tokens(laws.value("prefill_tokens", version), settings, rank, gpu)
        settings.note_default("max_batch_prefill_tokens", tokens, version.text)
    if not laws.value("warm_up", version):
        tokens = 1
    forward = rank.forward_bytes(tokens)
    asked = settings.boolean("enable_prefill_logprobs") or laws.value("prompt_logits", version)
    logits = tokens * arch.vocab_size if asked else 0
    least, usual, most = laws.constant("logit_bytes")
    activation = Interval(forward + logits * least, forward + logits * usual, 1.5 * forward + logits * most)
    total = gpu.usable_bytes * fraction
    room = Interval(
        total - 2 * CONTEXT - rank.weights.high - activation.high,
        total - CONTEXT - rank.weights.bytes - activation.expected,
        total - CONTEXT / 2 - rank.weights.low - activation.low,
    )
    law, needed = laws.value("pool", version), tokens * cell
    limit = settings.positive("max_batch_total_tokens") or law.get("tokens")
    if room.high < needed:
        settings.assume(f"the warm-up prefill of {tokens} tokens does not fit beside the weights")
        cache, share = room + (-needed), 1.0
    else:
        cache, share = _pool(law, room, gpu.usable_bytes * fraction)
    shares = Shares(
        activation, Interval.exactly(0.0), Interval(CONTEXT / 2, CONTEXT, 2 * CONTEXT), cache,
        f"{share:g} of what the warm-up of {tokens} tokens leaves; {cell:.0f} bytes a token",
        ("max_num_batched_tokens", "max_batch_prefill_tokens", "max_input_length", "cuda_memory_fraction"),
    )  # fmt: skip
    estimate = report("tgi", rank, shares, cell, cap_tokens=limit)
    # The router's connect_backend ends with NotEnoughMemory; 3.0 takes what fits where no length is stated.
    heed_length(estimate, settings, settings.positive("max_total_tokens", "max_model_len"), None)
    return estimate


def _pool(law: dict[str, Any], room: Interval, total: float) -> tuple[Interval, float]:
    """The cache: a share of what is free, or what is free less a share of the whole device kept back."""
    share = float(law.get("share", 1.0))
    if law.get("of") == "total":
        return room + (-(1 - share) * total), share
    return Interval(room.low * share, room.expected * share, room.high * share), share


def _prefill_tokens(law: dict[str, Any], settings: SettingsInForce, rank: Rank, gpu: Accelerator) -> int:
    """What ``max_batch_prefill_tokens`` is where it is not stated."""
    positions = rank.arch.max_position_embeddings
    if "above_input" in law:
        limit = settings.positive("max_input_tokens", "max_input_length") or min(
            law["input"], positions or law["input"]
        )
        return int(limit + law["above_input"])
    tokens = int(law["fixed"])
    speed = law.get("by_compute", {}).get(gpu.id.upper().split("-")[0])
    operations = _token_operations(rank.arch)
    if speed and operations and not rank.arch.config.get("vision_config"):
        computed = int(speed * 1e12 * rank.sharding.tensor / operations)
        tokens = computed if computed > law["least"] else tokens
    if "memory_share" in law and rank.scheme is None:
        room = gpu.usable_bytes * rank.sharding.tensor * law["memory_share"] - (rank.arch.total_parameters or 0) * 2
        held = 2 * rank.arch.num_key_value_heads * rank.arch.head_dim * 2 * rank.arch.num_hidden_layers
        each = held + law["mlp_bytes"] * _widest(rank.arch)
        tokens = min(tokens, max(1, int(room / each))) if each else tokens
    return min(tokens, positions) if positions else tokens


def _widest(arch: Architecture) -> int:
    return arch.intermediate_size or (arch.moe.intermediate_size if arch.moe else 0)


def _token_operations(arch: Architecture) -> float:
    """Floating-point operations of a token as the launcher counts them: projections and a gated MLP of every layer."""
    heads = 3 * arch.num_attention_heads + 2 * arch.num_key_value_heads
    return float(arch.num_hidden_layers * arch.hidden_size * (2 * heads * arch.head_dim + 6 * _widest(arch)))
