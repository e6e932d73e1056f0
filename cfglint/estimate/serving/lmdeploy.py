"""LMDeploy: the KV cache takes ``cache_max_entry_count`` of the memory free after the weights."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Shares, heed_length, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineVersion

ENTRY_COUNT = 0.8
PREFILL_TOKENS = 8192
"""Defaults of TurbomindEngineConfig: ``cache_max_entry_count``, ``max_prefill_token_num``."""
TOTAL_UNTIL = (0, 2, 2)
"""Before this the share was of the whole memory (lmdeploy#1051)."""
_QUANT_POLICY = {4: 0.5, 8: 1.0}


def estimate_lmdeploy(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Share of free memory on one device; activations come out of what the share leaves."""
    rank = rank_of(settings, arch, gpu)
    policy = settings.integer("quant_policy")
    element = _QUANT_POLICY.get(policy or 0) or rank.cache_element(settings.text("kv_cache_dtype"))
    cell = rank.token_bytes(element)
    if gpu is None:
        return report("lmdeploy", rank, None, cell)
    share = settings.number("cache_max_entry_count")
    if share is None:
        share = ENTRY_COUNT
        settings.note_default("cache_max_entry_count", share, version.text)
    free = gpu.usable_bytes - CONTEXT - rank.weights.bytes
    of_total = version.release is not None and version.release < TOTAL_UNTIL
    expected = share * (gpu.usable_bytes if of_total else free)
    if share > 1:  # a number of blocks, not a share
        expected = share * 64 * cell
    cache = Interval(expected - CONTEXT - 0.05 * rank.weights.bytes, expected, expected + CONTEXT / 2)
    forward = rank.forward_bytes(settings.positive("max_prefill_token_num", "max_num_batched_tokens") or PREFILL_TOKENS)
    shares = Shares(
        Interval(forward * 0.4, forward * 0.7, forward * 1.5), Interval.exactly(0.0), Interval(CONTEXT / 2, CONTEXT, 2 * CONTEXT), cache,
        f"{share:g} of {'the memory' if of_total else 'what weights leave'}; {cell:.0f} bytes a token",
        ("cache_max_entry_count", "quant_policy"),
    )  # fmt: skip
    estimate = report("lmdeploy", rank, shares, cell)
    # "No enough blocks for `session_len`, `session_len` truncated" (lmdeploy#3950).
    heed_length(estimate, settings, settings.positive("max_model_len", "session_len"), "session_len is cut to the pool")
    return estimate
