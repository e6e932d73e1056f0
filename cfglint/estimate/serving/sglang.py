"""SGLang: weights and KV pool share ``mem_fraction_static`` of the memory free at start; the rest is for activations
and CUDA graphs."""

from __future__ import annotations

from collections.abc import Mapping
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


def estimate_sglang(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Pool of one rank, from the fraction stated or the version's default."""
    laws = engine_laws("sglang")
    spread = settings.boolean("enable_dp_attention") or settings.boolean("enable_expert_parallel", "enable_ep_moe")
    rank = rank_of(
        settings,
        arch,
        gpu,
        experts_spread=spread,
        fp4_scale_bits=int(laws.constant("fp4_scale_bits")),
        no_rotary_tables=laws.constant("no_rotary_tables"),
    )
    _add(rank, "loading", float(laws.constant("loading_gib")) * GIB)
    _add_draft_head(rank)
    _add_repacking(rank, laws)
    element = rank.cache_element(settings.text("kv_cache_dtype"))
    cell = _token_bytes(rank, element, laws, version)
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
        cache = Interval(
            cache.low - (1 - float(laws.constant("unified_free_low"))) * free * fraction, cache.expected, cache.high
        )
        settings.assume("the fraction is of the memory free at start, which the host shares on this device")
    cache = _less_states(cache, rank, laws, version)
    activation = rank.forward_bytes(chunk) + graph_batch * arch.vocab_size * 6
    eager = settings.boolean("enforce_eager", "disable_cuda_graph")
    captures = (
        len(settings.raw("cuda_graph_bs") or ())
        if isinstance(settings.raw("cuda_graph_bs"), (list, tuple))
        else graph_batch // 8 + 4
    )
    graph = laws.constant("graph_gib")
    graphs = 0.0 if eager else (graph["fixed"] + graph["capture_layer"] * captures * len(arch.layers)) * GIB
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


def _token_bytes(rank: Rank, element: float, laws: EngineLaws, version: EngineVersion) -> float:
    """Bytes a token of the pool takes: layers with a window keep a share of the tokens where the pool knows of them."""
    law = laws.value("window_pool", version)
    off = rank.settings.boolean("disable_hybrid_swa_memory")
    if off or not rank.arch.model_type.startswith(tuple(law["families"])):
        return rank.token_bytes(element)
    share = rank.settings.number("swa_full_tokens_ratio") or float(law["share"])
    return rank.token_bytes(element, window_share=share)


def _less_states(cache: Interval, rank: Rank, laws: EngineLaws, version: EngineVersion) -> Interval:
    """The pool without the recurrent states, which are set apart first."""
    state = rank.sequence_state_bytes(float(laws.constant("state_bytes")))
    if not state:
        return cache
    settings, law = rank.settings, laws.value("state_pool", version)
    running = settings.positive("max_num_seqs", "max_running_requests")
    count = settings.positive("max_mamba_cache_size")
    if count is None and ("requests" in law or settings.boolean("disable_radix_cache")):
        count = running or law.get("requests")
    if count is not None:
        settings.assume(f"recurrent states of {count} requests are set apart")
        return cache + (-count * state)
    ratio = settings.number("mamba_full_memory_ratio") or float(law["ratio"])
    settings.assume("recurrent state takes its share of the pool by mamba_full_memory_ratio")
    return cache.scaled(1 / (1 + ratio))


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


def _add_repacking(rank: Rank, laws: EngineLaws) -> None:
    """SGLang reads its weights off the device's free memory, so what repacking FP4 experts leaves unusable is in them."""
    if rank.scheme is None or rank.scheme.expert_bits != FP4_BITS + int(laws.constant("fp4_scale_bits")) / FP4_GROUP:
        return
    weights = rank.weights
    left = float(laws.constant("fp4_repacking")) * weights.parts.get("expert", 0.0)
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
        fraction = float(next(fraction for size, fraction in law["by_tp"] if tp >= size))
        if gpu.usable_gib > law.get("above_gib", gpu.usable_gib):
            fraction = 1 - law["kept_gib"] / gpu.usable_gib
    elif "reserved_gib" in law:
        _, base, per_rank = next(row for row in law["reserved_gib"] if row[0] == 0 or gpu.usable_gib < row[0])
        fraction = round(1 - (base + per_rank * tp * pp) / gpu.usable_gib, 3)
    else:
        reserved = _reserved_mib(law["reserved_mib"], settings, gpu, tp * pp, chunk, graph_batch)
        fraction = round(1 - reserved / (gpu.usable_gib * 1024), 3)
    return fraction * _vision_share(settings, arch, laws.value("vision_share", version))


def _reserved_mib(
    law: dict[str, Any], settings: SettingsInForce, gpu: Accelerator, ranks: int, chunk: int, graph_batch: int
) -> float:
    """MiB kept for activations, graphs and drafts."""
    reserved = law["fixed"] + law["token"] * max(chunk, law["least_tokens"]) + law["graph"] * graph_batch
    reserved += law["rank"] * ranks
    if settings.boolean("enable_dp_attention"):
        dp = settings.positive("data_parallel_size", "dp", "dp_size") or 1
        large = graph_batch > law["large_graph"]
        reserved += graph_batch * dp * law["attention_dp_large" if large else "attention_dp"]
    if gpu.usable_gib > law["large_device_gib"]:
        reserved = max(reserved, law["least"])
    speculative = str(settings.raw("speculative", "speculative_algorithm") or "").lower()
    if "standalone" in speculative:
        reserved += law["standalone"]
    elif speculative and "ngram" not in speculative:
        reserved += law["draft"]
    return float(reserved)


def _vision_share(settings: SettingsInForce, arch: Architecture, law: dict[str, Any]) -> float:
    """What of the default fraction a model with an encoder keeps."""
    vision = arch.config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 1.0
    settings.assume("a vision model shrinks SGLang's default fraction")
    factor = float(law["factor"])
    if "layers" not in law:
        return factor
    layers, hidden = vision.get("num_hidden_layers"), vision.get("hidden_size")
    depth = layers if isinstance(layers, int) else law["layers"]
    width = hidden if isinstance(hidden, int) else law["hidden"]
    larger = depth * width**2 / (law["layers"] * law["hidden"] ** 2) - 1.0
    return float(factor * max(law["least"], min(law["most"], 1.0 - law["slope"] * larger)))
