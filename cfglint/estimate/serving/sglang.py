"""SGLang: weights and KV pool share ``mem_fraction_static`` of the memory free at start; the rest is for activations
and CUDA graphs."""

from __future__ import annotations

from typing import Any

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.precision import FP4_BITS, FP4_GROUP
from cfglint.estimate.serving.rank import Rank, Shares, heed_length, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.unified import shares_host_memory
from cfglint.estimate.serving.versions import EngineLaws, EngineVersion, engine_laws
from cfglint.estimate.serving.weights import draft_head_bytes
from cfglint.formulas import GIB

VISION_FACTOR = 0.95
"""Vision-language models shrink the default fraction by this (server_args.py)."""
MAMBA_RATIO = 0.9
"""Default of ``--mamba-full-memory-ratio``: state memory over full-attention memory."""
FP4_SCALE_BITS = 32
"""SGLang keeps the scales of FP4 experts in fp32 on CUDA (layers/quantization/fp8.py of 0.5.23)."""
UNIFIED_FREE_LOW = 0.3
"""Share of a unified memory that may be free at start: 20 of 64 GiB after loading 2 GiB on a Jetson Orin log."""
GRAPH_FIXED, GRAPH_PER_CAPTURE_LAYER = 0.05 * GIB, 0.0009 * GIB
"""Fitted: 0.07 GiB for 3 captures of 24 layers, 1.66 to 1.93 GiB for large models at full capture lists (SGLang logs)."""


def estimate_sglang(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Pool of one rank, from the fraction stated or the version's default."""
    laws = engine_laws("sglang")
    spread = settings.boolean("enable_dp_attention") or settings.boolean("enable_expert_parallel", "enable_ep_moe")
    rank = rank_of(settings, arch, gpu, experts_spread=spread, fp4_scale_bits=FP4_SCALE_BITS)
    _add(rank, "loading", float(laws.constant("loading_gib")) * GIB)
    _add_draft_head(rank)
    _add_repacking(rank, float(laws.constant("fp4_repacking")))
    element = rank.cache_element(settings.text("kv_cache_dtype"))
    cell = rank.token_bytes(element)
    limit = settings.positive("max_total_tokens")
    if gpu is None:
        return report("sglang", rank, None, cell, cap_tokens=limit)
    tp = rank.sharding.tensor
    chunk, graph_batch = _batch(settings, laws, version, gpu, tp)
    fraction = settings.number("mem_fraction_static")
    if fraction is None:
        fraction = _default_fraction(settings, arch, laws, version, gpu, rank, chunk, graph_batch)
        settings.note_default("mem_fraction_static", fraction, version.text)
    context = float(laws.constant("context_gib")) * GIB
    newer = gpu.compute_capability is not None and gpu.compute_capability[0] >= 9
    buffers = float(laws.constant("parallel_gib")["hopper" if newer else "other"]) * GIB
    parallel = buffers if tp * rank.sharding.pipeline > 1 else 0.0
    free = rank.gpu.usable_bytes - context - parallel if rank.gpu else 0.0
    pool = free * fraction - rank.weights.bytes
    doubt = 0.01 * free + 0.3 * parallel
    cache = Interval(free * fraction - rank.weights.high - doubt, pool, free * fraction - rank.weights.low + doubt)
    if shares_host_memory(gpu):
        cache = Interval(cache.low - (1 - UNIFIED_FREE_LOW) * free * fraction, cache.expected, cache.high)
        settings.assume("the fraction is of the memory free at start, which the host shares on this device")
    if rank.sequence_state_bytes():
        ratio = settings.number("mamba_full_memory_ratio") or MAMBA_RATIO
        cache = cache.scaled(1 / (1 + ratio))
        settings.assume("recurrent state takes its share of the pool by mamba_full_memory_ratio")
    activation = rank.forward_bytes(chunk) + graph_batch * arch.vocab_size * 6
    eager = settings.boolean("enforce_eager", "disable_cuda_graph")
    captures = (
        len(settings.raw("cuda_graph_bs") or ())
        if isinstance(settings.raw("cuda_graph_bs"), (list, tuple))
        else graph_batch // 8 + 4
    )
    graphs = 0.0 if eager else GRAPH_FIXED + GRAPH_PER_CAPTURE_LAYER * captures * len(arch.layers)
    shares = Shares(
        Interval(activation * 0.5, activation, activation * 1.5),
        Interval(graphs * 0.3, graphs, graphs * 2),
        Interval(context, context + parallel, context + 1.5 * parallel + 0.3 * GIB),
        cache,
        f"{fraction:g} × {free / GIB:.2f} GiB free at start less weights; {cell:.0f} bytes a token",
        ("mem_fraction_static", "kv_cache_dtype", "max_total_tokens"),
    )
    estimate = report("sglang", rank, shares, cell, cap_tokens=limit)
    length = settings.positive("max_model_len", "context_length")
    # managers/tp_worker.py of 0.5.23 warns, and bounds the longest request by the pool.
    heed_length(estimate, settings, length, "longer requests are refused")
    return estimate


def _add_draft_head(rank: Rank) -> None:
    """Weights of the checkpoint's own draft layer, loaded beside the model (NEXTN, EAGLE on an MTP checkpoint)."""
    words = str(rank.settings.raw("speculative", "speculative_algorithm") or "").lower()
    if not any(name in words for name in ("nextn", "mtp")):
        return
    rank.settings.assume("the draft head is taken as one more decoder layer")
    _add(rank, "draft_head", draft_head_bytes(rank.arch, rank.sharding, rank.scheme, rank.element))


def _add(rank: Rank, name: str, size: float) -> None:
    weights = rank.weights
    weights.parts[name] = size
    weights.bytes, weights.low, weights.high = weights.bytes + size, weights.low + size, weights.high + size


def _add_repacking(rank: Rank, share: float) -> None:
    """SGLang reads its weights off the device's free memory, so what repacking FP4 experts leaves unusable is in them."""
    if rank.scheme is None or rank.scheme.expert_bits != FP4_BITS + FP4_SCALE_BITS / FP4_GROUP:
        return
    weights = rank.weights
    left = share * weights.parts.get("expert", 0.0)
    weights.parts["repacking"] = left
    weights.bytes, weights.high = weights.bytes + left, weights.high + 1.5 * left


def _batch(
    settings: SettingsInForce, laws: EngineLaws, version: EngineVersion, gpu: Accelerator, tp: int
) -> tuple[int, int]:
    rows: list[Any] = laws.value("batch_by_memory", version)
    row = next(row for row in rows if row[0] == 0 or gpu.usable_gib < row[0])
    chunk = settings.positive("max_num_batched_tokens", "chunked_prefill_size")
    if chunk is None:
        chunk = int(row[1])
        settings.note_default("chunked_prefill_size", chunk, version.text)
    batch = settings.positive("cuda_graph_max_bs", "cuda_graph_max_bs_decode") or int(row[3] if tp >= 4 else row[2])
    return chunk, batch


def _default_fraction(
    settings: SettingsInForce,
    arch: Architecture,
    laws: EngineLaws,
    version: EngineVersion,
    gpu: Accelerator,
    rank: Rank,
    chunk: int,
    graph_batch: int,
) -> float:
    law = laws.value("mem_fraction_static", version)
    tp, pp = rank.sharding.tensor, rank.sharding.pipeline
    if "by_tp" in law:
        return float(next((fraction for size, fraction in law["by_tp"] if tp >= size), 0.88))
    if "reserved_gib" in law:
        _, base, per_rank = next(row for row in law["reserved_gib"] if row[0] == 0 or gpu.usable_gib < row[0])
        return float(round(1 - (base + per_rank * tp * pp) / gpu.usable_gib, 3))
    total = gpu.usable_gib * 1024
    reserved = 512 + 1.5 * max(chunk, 2048) + 2 * graph_batch + tp * pp / 8 * 1024
    dp = settings.positive("data_parallel_size", "dp", "dp_size") or 1
    if settings.boolean("enable_dp_attention"):
        reserved += graph_batch * dp * (3 if graph_batch <= 300 else 4.5)
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    speculative = str(settings.raw("speculative", "speculative_algorithm") or "").lower()
    if "standalone" in speculative:
        reserved += 6 * 1024
    elif speculative and "ngram" not in speculative:
        reserved += 2 * 1024
    fraction = round((total - reserved) / total, 3)
    if arch.config.get("vision_config"):
        fraction *= VISION_FACTOR
        settings.assume("a vision model shrinks SGLang's default fraction by about 5 %")
    return float(fraction)
