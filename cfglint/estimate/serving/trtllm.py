"""TensorRT-LLM: the KV cache takes a fraction of the memory free after the engine and its activations."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Shares, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineVersion

FREE_FRACTION = 0.9
"""Default ``free_gpu_memory_fraction`` (KvCacheConfig)."""
MAX_NUM_TOKENS = 8192
"""Default ``max_num_tokens`` of the builder."""
LOGIT_BYTES = 4
UNSTATED_BUILD = 6
"""How much larger than the default's an engine's buffers can be where the build is not stated (TensorRT-LLM#224)."""


def estimate_trtllm(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Engine buffers are fixed by the batch the engine is built for."""
    rank = rank_of(settings, arch, gpu)
    cell = rank.token_bytes(rank.cache_element(settings.text("kv_cache_dtype")))
    if gpu is None:
        return report("trtllm", rank, None, cell)
    batch = settings.positive("max_num_seqs", "max_batch_size")
    tokens = settings.positive("max_num_batched_tokens", "max_num_tokens")
    inputs = settings.positive("max_input_len")
    if tokens is None:
        tokens = batch * inputs if batch and inputs else MAX_NUM_TOKENS
        settings.assume(f"engine built for {tokens} tokens a pass" + ("" if batch and inputs else " (builder default)"))
    forward = rank.forward_bytes(tokens) + (batch or 0) * arch.vocab_size * LOGIT_BYTES
    activation = Interval(forward * 0.7, forward, forward * (1.5 if batch and inputs else UNSTATED_BUILD))
    fraction = settings.number(
        "free_gpu_memory_fraction", "kv_cache_free_gpu_mem_fraction", "kv_cache_free_gpu_memory_fraction"
    )
    if fraction is None:
        fraction = FREE_FRACTION
        settings.note_default("free_gpu_memory_fraction", fraction, version.text)
    total = gpu.usable_bytes
    cache = Interval(
        fraction * (total - 2 * CONTEXT - rank.weights.high - activation.high),
        fraction * (total - CONTEXT - rank.weights.bytes - activation.expected),
        fraction * (total - CONTEXT / 2 - rank.weights.low - activation.low),
    )
    shares = Shares(
        activation, Interval.exactly(0.0), Interval(CONTEXT / 2, CONTEXT, 2 * CONTEXT), cache,
        f"{fraction:g} of what engine and activations leave; {cell:.0f} bytes a token",
        ("free_gpu_memory_fraction", "max_batch_size", "max_num_tokens", "max_input_len"),
    )  # fmt: skip
    return report(
        "trtllm", rank, shares, cell, cap_tokens=settings.positive("max_tokens", "max_tokens_in_paged_kv_cache")
    )
