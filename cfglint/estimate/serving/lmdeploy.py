"""LMDeploy: the KV cache takes ``cache_max_entry_count`` of the memory free after the weights."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Rank, Shares, heed_length, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineLaws, EngineVersion, engine_laws


def estimate_lmdeploy(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Share of free memory on one device; activations come out of what the share leaves."""
    laws = engine_laws("lmdeploy")
    rank = rank_of(settings, arch, gpu)
    cell = _token_bytes(settings, rank, laws)
    if gpu is None:
        return report("lmdeploy", rank, None, cell)
    law = laws.value("entry_share", version)
    share = settings.number("cache_max_entry_count")
    if share is None:
        share = float(law["default"])
        settings.note_default("cache_max_entry_count", share, version.text)
    pytorch = str(settings.raw("backend") or "").lower() == "pytorch"
    tokens = settings.positive("max_prefill_token_num", "max_num_batched_tokens")
    tokens = tokens or int(laws.value("prefill_tokens_pytorch" if pytorch else "prefill_tokens", version))
    kept = _runtime_reserve(settings, arch, laws, version, tokens) if pytorch else 0.0
    free = gpu.usable_bytes - CONTEXT - rank.weights.bytes - kept
    of_total = law["of"] == "total"
    expected = share * (gpu.usable_bytes if of_total else free)
    if share > 1:  # a number of blocks, not a share
        expected = share * int(laws.constant("block_tokens")) * cell
    cache = Interval(expected - CONTEXT - 0.05 * rank.weights.bytes, expected, expected + CONTEXT / 2)
    forward = rank.forward_bytes(tokens)
    shares = Shares(
        Interval(forward * 0.4, forward * 0.7, forward * 1.5), Interval.exactly(0.0), Interval(CONTEXT / 2, CONTEXT, 2 * CONTEXT), cache,
        f"{share:g} of {'the memory' if of_total else 'what weights leave'}; {cell:.0f} bytes a token",
        ("cache_max_entry_count", "quant_policy"),
    )  # fmt: skip
    estimate = report("lmdeploy", rank, shares, cell)
    # "No enough blocks for `session_len`, `session_len` truncated" (lmdeploy#3950).
    heed_length(estimate, settings, settings.positive("max_model_len", "session_len"), "session_len is cut to the pool")
    return estimate


def _token_bytes(settings: SettingsInForce, rank: Rank, laws: EngineLaws) -> float:
    """Bytes of one token: a quantized cache keeps a scale and a zero point beside each head's keys and values."""
    element = laws.constant("quant_policy").get(str(settings.integer("quant_policy") or 0))
    if element is None:
        return rank.token_bytes(rank.cache_element(settings.text("kv_cache_dtype")))
    scales = float(laws.constant("quant_scale_bytes")) / max(1, rank.arch.head_dim)
    return rank.token_bytes(float(element) + scales)


def _runtime_reserve(
    settings: SettingsInForce, arch: Architecture, laws: EngineLaws, version: EngineVersion, tokens: int
) -> float:
    law = laws.value("runtime_reserve_pytorch", version)
    sequences = settings.positive("max_num_seqs", "max_batch_size") or int(law["sequences"])
    return float((tokens + law["per_sequence"] * sequences) * arch.vocab_size * law["bytes"])
