"""Run the serving estimator over every model of the catalogue: nothing may raise, and the figures must be plausible.

usage: sweep_serving.py [--models N]

Checked for each model: weights of one rank against parameters × bytes; the cache grows with ``gpu_memory_utilization`` and
shrinks with tensor-parallel weights that grow; every interval is ordered,
and what is allocated is within what is reserved, and that within what the device shows; time of one estimate.
"""

from __future__ import annotations

import argparse
import collections
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from score_serving import serving_job

from cfglint.catalog.models import Model, architecture_of, models
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving import estimate_serving
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch
from cfglint.jobs.named_models import without_format

ENGINES = (
    ("vllm", "0.6.6"), ("vllm", "0.11.0"), ("vllm", "0.19.0"), ("vllm", "0.25.1"), ("vllm", "0.33.0"), ("vllm", None),
    ("sglang", "0.4.6"), ("sglang", "0.5.9"), ("tgi", "3.0.0"), ("trtllm", "0.20.0"), ("lmdeploy", "0.9.0"), ("llama.cpp", None),
)  # fmt: skip
DEVICES = (
    ("T4", 1),
    ("RTX 3090", 2),
    ("L40S", 4),
    ("A100-80GB", 1),
    ("H100", 8),
    ("H200", 8),
    ("B200", 8),
    ("MI300X", 8),
)
WEIGHT_TOLERANCE = 0.01
TABLES = 0.02
"""Room for rotary tables and MLA's unpacked projections, which are no parameters."""


def jobs_of(model: Model) -> Iterator[dict[str, Any]]:
    for index, (engine, version) in enumerate(ENGINES):
        device, count = DEVICES[(index + len(model.id)) % len(DEVICES)]
        yield {
            "name": f"{model.id} {engine} {version} {device}", "kind": "serve", "model": model.id, "framework": engine,
            "framework_version": version, "gpu": device, "gpus_per_node": count, "tensor_parallel_size": count,
        }  # fmt: skip


def ordered(interval: Interval | None) -> bool:
    return interval is None or interval.low <= interval.expected <= interval.high


def faults(job: dict[str, Any], estimate: Estimate) -> Iterator[str]:
    serving, memory = estimate.serving, estimate.memory
    if serving is None:
        yield "no serving part"
        return
    for name, interval in (
        ("kv_cache", serving.kv_cache), ("kv_tokens", serving.kv_tokens), ("used", memory.used), ("host", memory.host),
    ):  # fmt: skip
        if not ordered(interval):
            yield f"{name} is not ordered: {interval}"
    for part, whole in ((memory.allocated, memory.reserved), (memory.reserved, memory.used)):
        if part is None or whole is None:
            continue
        if part.low > whole.low or part.expected > whole.expected or part.high > whole.high or not ordered(part):
            yield f"{part} is not within {whole}"
    if serving.weights is not None and serving.weights < 0:
        yield "negative weights"
    if memory.verdict == "unknown" and not memory.missing:
        yield "unknown, and nothing named as missing"
    if memory.verdict not in ("unknown", "fits", "tight", "likely-oom", "oom", "kv-too-small"):
        yield f"verdict {memory.verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int)
    args = parser.parse_args()
    search = ModelSearch(Path("."), {})
    seconds: list[float] = []
    verdicts: collections.Counter[tuple[str, str]] = collections.Counter()
    found: list[str] = []
    weights: list[tuple[float, str]] = []
    for model in list(models())[: args.models]:
        for mapping in jobs_of(model):
            job = serving_job(mapping, search)
            start = time.perf_counter()
            estimate = estimate_serving(job)
            seconds.append(time.perf_counter() - start)
            verdicts[str(mapping["framework"]), estimate.memory.verdict] += 1
            found += [f"{job.name}: {fault}" for fault in faults(mapping, estimate)]
        found += [f"{model.id}: {fault}" for fault in monotone(model, search)]
        error = weight_error(model, search)
        if error is not None:
            weights.append((error, model.id))
    seconds.sort()
    print(
        f"{len(seconds)} estimates, mean {1000 * sum(seconds) / len(seconds):.2f} ms, 99 % below {1000 * seconds[int(0.99 * len(seconds))]:.2f} ms"
    )
    off = [(error, name) for error, name in weights if not -WEIGHT_TOLERANCE <= error <= WEIGHT_TOLERANCE + TABLES]
    print(
        f"{len(weights)} models of one 16-bit rank: {len(weights) - len(off)} within tolerance of parameters × 2 bytes"
    )
    for error, name in sorted(off):
        print(f"  {error:+.1%} {name}")
    for (engine, verdict), count in sorted(verdicts.items()):
        print(f"  {engine:10} {verdict:13} {count}")
    print(f"{len(found)} faults")
    for fault in found[:40]:
        print("  " + fault)


def monotone(model: Model, search: ModelSearch) -> Iterator[str]:
    before = None
    for utilization in (0.5, 0.8, 0.95):
        job = {
            "name": model.id, "model": model.id, "framework": "vllm", "framework_version": "0.19.0", "gpu": "H200",
            "gpu_memory_utilization": utilization,
        }  # fmt: skip
        serving = estimate_serving(serving_job(job, search)).serving
        cache = serving.kv_cache.expected if serving is not None and serving.kv_cache is not None else None
        if cache is not None and before is not None and cache <= before:
            yield f"cache does not grow with utilization: {before / GIB:.2f}, {cache / GIB:.2f} GiB"
        before = cache


def weight_error(model: Model, search: ModelSearch) -> float | None:
    """Weights of a single 16-bit rank against the parameters; None where the checkpoint is quantized or nothing is known."""
    arch = architecture_of(model)
    if arch.quantization or without_format(model.id)[1] is not None or not arch.total_parameters:
        return None
    job = {"name": model.id, "model": model.id, "framework": "vllm", "framework_version": "0.19.0", "dtype": "bfloat16"}
    serving = estimate_serving(serving_job(job, search)).serving
    if serving is None or serving.weights is None:
        return None
    return serving.weights / (2 * arch.total_parameters) - 1


if __name__ == "__main__":
    main()
