"""What each setting would free: what-if copies of a job, estimated again."""

from __future__ import annotations

from typing import Any

from cfglint.estimate.result import Estimate
from cfglint.estimate.serving.estimator import estimate_serving
from cfglint.formulas import GIB
from cfglint.jobs.job import ServingJob, with_facts

Lever = tuple[str, Any, float, str]

WORTH_NAMING = 0.05 * GIB
"""Less than this is not worth a help line."""
LOWER_SEQUENCES = (256, 128, 64, 32)
LOWER_BATCHED_TOKENS = (8192, 4096, 2048)
HIGH_UTILIZATION = 0.95
TENSOR_SIZES = (1, 2, 4, 8, 16)
LENGTH_STEP = 1024
STARTS = ("fits", "tight")


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
    eight = estimate_serving(with_facts(job, kv_cache_dtype="fp8"))
    before, after = base.serving, eight.serving
    if (
        before
        and after
        and before.kv_bytes_per_token
        and after.kv_bytes_per_token
        and before.kv_tokens
        and before.kv_cache
    ):
        share = 1 - after.kv_bytes_per_token / before.kv_bytes_per_token
        if share > 0.1 and before.kv_cache.expected > 0:
            tokens = after.kv_tokens.expected if after.kv_tokens else 0
            levers.append((
                "kv_cache_dtype", "fp8", share * before.kv_cache.expected,
                f"kv_cache_dtype: fp8 holds {tokens:,.0f} tokens instead of {before.kv_tokens.expected:,.0f}",
            ))  # fmt: skip
    return levers


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
    safe -= safe % LENGTH_STEP
    if wanted is None or safe < LENGTH_STEP or safe >= wanted:
        return None
    freed = (wanted - safe) * (serving.kv_bytes_per_token or 0.0)
    return ("max_model_len", safe, freed, f"max_model_len: {safe} fits (up to {serving.max_model_len} expected)")


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
