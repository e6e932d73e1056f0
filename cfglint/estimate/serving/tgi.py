"""Text Generation Inference: a warm-up prefill of ``max_batch_prefill_tokens``, then most of what is free for blocks."""

from __future__ import annotations

from cfglint.catalog.accelerators import Accelerator
from cfglint.catalog.architecture import Architecture
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving.rank import CONTEXT, Shares, heed_length, rank_of, report
from cfglint.estimate.serving.settings_in_force import SettingsInForce
from cfglint.estimate.serving.versions import EngineVersion

WIGGLE_ROOM = 0.90
"""``TGI_WIGGLE_ROOM`` (flash_causal_lm.py)."""
PREFILL_TOKENS = 4096
"""Default of ``max_batch_prefill_tokens`` (launcher main.rs)."""
SPARE_INPUT_TOKENS = 50
"""The launcher's room above ``max_input_tokens`` where the batch is not stated."""
WARM_UP_SINCE = (0, 9)
CHUNKING_SINCE = (3, 0)
LOGIT_BYTES_LOW, LOGIT_BYTES, LOGIT_BYTES_HIGH = 2, 4, 8
"""Before 3.0 the warm-up asks for log-probabilities of every prompt token: 16-bit logits and their log-softmax."""


def estimate_tgi(
    settings: SettingsInForce, arch: Architecture, version: EngineVersion, gpu: Accelerator | None
) -> Estimate:
    """Blocks left after the warm-up of one shard."""
    rank = rank_of(settings, arch, gpu)
    cell = rank.token_bytes(
        rank.cache_element(settings.text("kv_cache_dtype")),
        latent=version.release is None or version.release >= CHUNKING_SINCE,
    )
    if gpu is None:
        return report("tgi", rank, None, cell)
    input_tokens = settings.positive("max_input_tokens", "max_input_length")
    stated = settings.positive("max_num_batched_tokens", "max_batch_prefill_tokens")
    tokens = stated or max(PREFILL_TOKENS, (input_tokens or 0) + SPARE_INPUT_TOKENS)
    chunked = version.release is None or version.release >= CHUNKING_SINCE
    warmed = version.release is None or version.release >= WARM_UP_SINCE
    if not warmed:
        tokens = 1
    forward = rank.forward_bytes(tokens)
    logits = 0 if chunked else tokens * arch.vocab_size
    activation = Interval(
        forward + logits * LOGIT_BYTES_LOW, forward + logits * LOGIT_BYTES, 1.5 * forward + logits * LOGIT_BYTES_HIGH
    )
    fraction = settings.number("cuda_memory_fraction", "gpu_memory_utilization") or 1.0
    total = gpu.usable_bytes * fraction
    room = Interval(
        total - 2 * CONTEXT - rank.weights.high - activation.high,
        total - CONTEXT - rank.weights.bytes - activation.expected,
        total - CONTEXT / 2 - rank.weights.low - activation.low,
    )
    needed = tokens * cell
    if room.high < needed:
        settings.assume(f"the warm-up prefill of {tokens} tokens does not fit beside the weights")
        cache = Interval(room.low - needed, room.expected - needed, room.high - needed)
    else:
        cache = Interval(room.low * WIGGLE_ROOM, room.expected * WIGGLE_ROOM, room.high)
    shares = Shares(
        activation, Interval.exactly(0.0), Interval(CONTEXT / 2, CONTEXT, 2 * CONTEXT), cache,
        f"{WIGGLE_ROOM:g} of what the warm-up of {tokens} tokens leaves; {cell:.0f} bytes a token",
        ("max_num_batched_tokens", "max_batch_prefill_tokens", "max_input_length", "cuda_memory_fraction"),
    )  # fmt: skip
    estimate = report("tgi", rank, shares, cell, cap_tokens=settings.positive("max_batch_total_tokens"))
    # The router's connect_backend ends with NotEnoughMemory; 3.0 takes what fits where no length is stated.
    heed_length(estimate, settings, settings.positive("max_total_tokens", "max_model_len"), None)
    return estimate
