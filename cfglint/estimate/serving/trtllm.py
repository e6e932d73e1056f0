"""TensorRT-LLM: the KV cache takes a fraction of the memory free after the engine and its activations."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Shares, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineVersion, engine_laws

LOGIT_BYTES = 4


def estimate_trtllm(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Engine buffers are fixed by the batch the engine is built for."""
    laws = engine_laws("trtllm")
    rank = rank_of(settings, arch, gpu)
    cell = rank.token_bytes(rank.cache_element(settings.text("kv_cache_dtype")))
    if gpu is None:
        return report("trtllm", rank, None, cell)
    batch = settings.positive("max_num_seqs", "max_batch_size")
    tokens = settings.positive("max_num_batched_tokens", "max_num_tokens")
    inputs = settings.positive("max_input_len")
    known = tokens is not None or bool(batch and inputs)
    if tokens is None:
        default = laws.value("max_num_tokens", version) or laws.newest_value("max_num_tokens")
        tokens = batch * inputs if batch and inputs else int(default)
        settings.assume(f"engine built for {tokens} tokens a pass" + ("" if known else " (builder default)"))
    forward = rank.forward_bytes(tokens) + (batch or 0) * arch.vocab_size * LOGIT_BYTES
    activation = Interval(
        forward * 0.7, forward, forward * (1.5 if known else float(laws.value("unstated_build", version)))
    )
    fraction = settings.number(
        "free_gpu_memory_fraction", "kv_cache_free_gpu_mem_fraction", "kv_cache_free_gpu_memory_fraction"
    )
    if fraction is None:
        fraction = float(laws.value("free_fraction", version))
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
