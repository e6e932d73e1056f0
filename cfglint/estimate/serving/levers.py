"""What each setting would free: what-if copies of a job, estimated again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cfglint.estimate.result import Estimate
from cfglint.estimate.serving.estimator import estimate_serving
from cfglint.formulas import GIB
from cfglint.jobs.job import ServingJob, with_facts

Lever = tuple[str, Any, float, str]


@dataclass(frozen=True, slots=True)
class Help:
    """Settings that would help, and ``what`` they do; whoever shows it says the settings in the user's own keys."""

    facts: Mapping[str, Any]
    what: str


WORTH_NAMING = 0.05 * GIB
"""Less than this is not worth a help line."""
LOWER_SEQUENCES = (256, 128, 64, 32)
LOWER_BATCHED_TOKENS = (8192, 4096, 2048)
HIGH_UTILIZATION = 0.95
TENSOR_SIZES = (1, 2, 4, 8, 16)
EIGHT_BIT_CACHE: dict[str, tuple[str, Any]] = {
    "sglang": ("kv_cache_dtype", "fp8_e4m3"), "tgi": ("kv_cache_dtype", "fp8_e4m3fn"), "lmdeploy": ("quant_policy", 8),
    "llama.cpp": ("kv_cache_dtype", "q8_0"),
}  # fmt: skip
"""The setting that keeps keys and values in 8 bits, where it is not vLLM's ``kv_cache_dtype: fp8``."""
LENGTH_STEP, LONG_STEP = 1024, 4096
"""Lengths are offered in steps of the first, from four times the second on in steps of the second."""
LEAST_LENGTH = 4096
"""No shorter length is offered: a conversation with its answer, and what TGI and llama.cpp serve where nobody says."""
FP8_CACHE_CAPABILITY = (8, 9)
"""Compute capability from which the engines' kernels read an E4M3 cache (vLLM fails on 8.6: vllm#26431)."""
STARTS = ("fits", "tight")
MOST_HELPS = 3
HOLDS = "holds it"


def serving_levers(job: ServingJob) -> list[Lever]:
    """(setting, new value, bytes freed per device, note), the largest first; empty where memory is not known.

    ``bytes freed`` is what the KV cache gains, or what one request needs less.
    """
    base = estimate_serving(job)
    if base.serving is None or base.serving.kv_cache is None:
        return []
    levers = [lever for lever in _memory_levers(job, base) if lever[2] >= WORTH_NAMING]
    levers.sort(key=lambda lever: -lever[2])
    length = largest_length(job, base)
    if length is not None:
        levers.append(length)
    if base.memory.verdict not in STARTS:
        size = smallest_tensor_parallel(job)
        if size is not None:
            levers.append(size)
    return levers


def _cache(estimate: Estimate) -> float:
    return estimate.serving.kv_cache.expected if estimate.serving and estimate.serving.kv_cache else 0.0


def _gain(job: ServingJob, base: Estimate, name: str, value: Any) -> float:
    return _cache(estimate_serving(with_facts(job, **{name: value}))) - _cache(base)


def _memory_levers(job: ServingJob, base: Estimate) -> list[Lever]:
    levers: list[Lever] = []
    if str(job.value("framework")).lower() == "vllm":
        for name, steps in (("max_num_seqs", LOWER_SEQUENCES), ("max_num_batched_tokens", LOWER_BATCHED_TOKENS)):
            current = _number_in_force(base, name)
            lower = next((step for step in steps if current is not None and step < current), None)
            if lower is not None:
                freed = _gain(job, base, name, lower)
                levers.append((name, lower, freed, f"{name}: {lower} frees {freed / GIB:.1f} GiB of the profiling run"))
        utilization = _number_in_force(base, "gpu_memory_utilization")
        if utilization is not None and utilization < HIGH_UTILIZATION:
            freed = _gain(job, base, "gpu_memory_utilization", HIGH_UTILIZATION)
            levers.append((
                "gpu_memory_utilization", HIGH_UTILIZATION, freed,
                f"gpu_memory_utilization: {HIGH_UTILIZATION} adds {freed / GIB:.1f} GiB to the KV cache, less room for graphs",
            ))  # fmt: skip
        graph = base.serving.graph if base.serving else None
        if graph:
            levers.append(
                (
                    "enforce_eager",
                    True,
                    graph,
                    f"enforce_eager frees {graph / GIB:.1f} GiB of CUDA graphs, and decodes slower",
                )
            )
    name, value = EIGHT_BIT_CACHE.get(str(job.value("framework")).lower(), ("kv_cache_dtype", "fp8"))
    eight = estimate_serving(with_facts(job, **{name: value}))
    before, after = base.serving, eight.serving
    if (
        _reads_fp8_cache(job)
        and before
        and after
        and before.kv_bytes_per_token
        and after.kv_bytes_per_token
        and before.kv_tokens
        and before.kv_cache
    ):
        share = 1 - after.kv_bytes_per_token / before.kv_bytes_per_token
        if share > 0.1 and before.kv_cache.expected > 0:
            tokens = after.kv_tokens.expected if after.kv_tokens else 0
            held = f"holds {tokens:,.0f} tokens instead of {before.kv_tokens.expected:,.0f}"
            if tokens == before.kv_tokens.expected and after.kv_cache is not None:  # the context is fixed
                held = f"takes {after.kv_cache.expected / GIB:.1f} GiB instead of {before.kv_cache.expected / GIB:.1f}"
            levers.append((name, value, share * before.kv_cache.expected, f"{name}: {value} {held}"))
    return levers


def _reads_fp8_cache(job: ServingJob) -> bool:
    if str(job.value("framework")).lower() in ("lmdeploy", "llama.cpp"):
        return True  # integers, which every device reads
    capabilities = [gpu.compute_capability for gpu in job.hardware.candidates]
    return all(capability is None or capability >= FP8_CACHE_CAPABILITY for capability in capabilities)


def _number_in_force(base: Estimate, name: str) -> float | None:
    for component in base.memory.components:
        for read in component.inputs:
            if read.fact == name:
                try:
                    return float(read.value)
                except ValueError:
                    return None
    return None


def largest_length(job: ServingJob, base: Estimate) -> Lever | None:
    """The largest ``max_model_len`` that one request can have, where the one in force does not fit."""
    serving = base.serving
    if serving is None or serving.max_model_len is None or base.memory.verdict not in ("kv-too-small", "likely-oom"):
        return None
    wanted = job.value("max_model_len")
    arch = job.architecture
    if not isinstance(wanted, int):
        wanted = arch.max_position_embeddings if arch else None
    safe = serving.max_model_len
    if serving.kv_cache is not None and serving.kv_cache.expected > 0:
        safe = int(safe * max(0.0, serving.kv_cache.low) / serving.kv_cache.expected)
    length, word = _round_length(safe), "fits"
    if length < LEAST_LENGTH:
        # What surely fits is no length to serve; what is expected to may be.
        length, word = _round_length(serving.max_model_len), "is expected to fit"
    if wanted is None or length < LEAST_LENGTH or length >= wanted:
        return None
    freed = (wanted - length) * (serving.kv_bytes_per_token or 0.0)
    more = f" (up to {serving.max_model_len:,} expected)" if word == "fits" else ""
    return ("max_model_len", length, freed, f"max_model_len: {length} {word}{more}")


def _round_length(length: int) -> int:
    step = LONG_STEP if length >= 4 * LONG_STEP else LENGTH_STEP
    return length - length % step


def helps_for_length(job: ServingJob) -> list[Help]:
    """What a person would try where one request of the length does not fit the cache, in that order.

    A length that nobody stated is shortened first. One that was stated is kept if a larger share of the device, an
    FP8 cache, more ranks or a larger device can hold it.
    """
    base = estimate_serving(job)
    shorter = largest_length(job, base)
    stated = job.value("max_model_len") is not None
    helps = [_help(shorter)] if shorter is not None and not stated else []
    levers = {lever[0]: lever for lever in _memory_levers(job, base)}
    facts: dict[str, Any] = {}
    for name in ("gpu_memory_utilization", "kv_cache_dtype", "quant_policy"):
        lever = levers.get(name)
        if lever is None:
            continue
        alone = estimate_serving(with_facts(job, **{name: lever[1]}))
        facts[name] = lever[1]
        if alone.memory.verdict in STARTS:
            helps.append(Help({name: lever[1]}, HOLDS))
    if len(facts) > 1 and not any(found.what == HOLDS for found in helps):
        together = estimate_serving(with_facts(job, **facts))
        if together.memory.verdict in STARTS:
            helps.append(Help(facts, "together hold it"))
    ranks = smallest_tensor_parallel(job)
    if ranks is not None:
        helps.append(Help({ranks[0]: ranks[1]}, "is the smallest that holds it"))
    if shorter is not None and stated:
        helps.append(_help(shorter))
    return helps[:MOST_HELPS]


def _help(lever: Lever) -> Help:
    name, value, _, words = lever
    return Help({name: value}, words.removeprefix(f"{name}: {value} "))


def smallest_tensor_parallel(job: ServingJob) -> Lever | None:
    """The smallest ``tensor_parallel_size`` above the one in force that fits and divides the attention heads."""
    arch = job.architecture
    stated = job.value("tensor_parallel_size")
    current = stated if isinstance(stated, int) and not isinstance(stated, bool) else 1
    heads = arch.num_attention_heads if arch else 0
    before = estimate_serving(job)
    for size in TENSOR_SIZES:
        if size <= current or (heads and heads % size):
            continue
        estimate = estimate_serving(with_facts(job, tensor_parallel_size=size))
        if estimate.memory.verdict in STARTS:
            freed = _cache(estimate) - _cache(before)
            return ("tensor_parallel_size", size, freed, f"tensor_parallel_size: {size} is the smallest that fits")
    return None
