"""What would fit of a server: context, concurrency, tensor parallelism, accelerators, and what each setting frees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cfglint.estimate.fit.hardware import tried_accelerators
from cfglint.estimate.fit.result import FITTING, Change, Fit, Largest, OnAccelerator
from cfglint.estimate.fit.search import largest
from cfglint.estimate.fit.settings import settings_for
from cfglint.estimate.fit.what_if import WhatIf, on_hardware
from cfglint.estimate.result import Estimate
from cfglint.estimate.serving import serving_levers
from cfglint.jobs.job import ServingJob

LENGTH_STEP: Final = 64
"""Context lengths are tried in steps of this many tokens: a multiple of every engine's block."""
MOST_LENGTH: Final = 2**24
TENSOR_SIZES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
"""Tensor-parallel sizes tried, where heads divide; above eight they span nodes."""
GPUS_PER_NODE: Final = 8

COSTS: Final[dict[str, tuple[str, bool]]] = {
    "max_num_seqs": ("fewer requests at once", False),
    "max_num_batched_tokens": ("prefill in smaller pieces: later first tokens", False),
    "kv_cache_dtype": ("keys and values are rounded: outputs differ slightly", True),
    "max_model_len": ("longer requests are refused", False),
    "tensor_parallel_size": ("more GPUs; an all-reduce in every layer", False),
}
"""What a lever costs, and whether outputs differ."""


def fit_serving(job: ServingJob) -> Fit:
    """Everything that would fit. Without an accelerator only the accelerators are answered."""
    what_if = WhatIf(job)
    base = what_if.estimate()
    fit = Fit(base, missing=tuple(base.memory.missing))
    if job.architecture is not None:
        fit.model_limit = job.architecture.max_position_embeddings
    if any(name != "gpu" for name in fit.missing):
        return fit
    fit.accelerators, fit.too_small = _smallest(job, what_if)
    if base.memory.used is None or fit.missing:
        return fit
    fit.max_model_len = _largest_length(job, what_if, fit.model_limit)
    fit.changes = list(_levers(job, what_if, fit.max_model_len))
    if not fit.fits and not any(change.verdict in FITTING for change in fit.changes):
        fit.stacked = list(_stacked(job, what_if, fit.changes))
    fit.tensor_parallel = _tensor_parallel(job, what_if)
    if not fit.fits and fit.tensor_parallel is not None:
        fit.changes.insert(sum(change.verdict in FITTING for change in fit.changes), fit.tensor_parallel)
    return fit


def _largest_length(job: ServingJob, what_if: WhatIf, limit: int | None) -> Largest | None:
    """The largest ``max_model_len`` with the verdict ``fits``, and the largest that is not expected to fail."""
    stated = job.value("max_model_len")
    most = max(limit or 0, stated if isinstance(stated, int) else 0) or MOST_LENGTH
    steps = max(1, most // LENGTH_STEP)

    def fails(verdicts: tuple[str, ...]) -> Any:
        def test(n: int) -> float:
            length = n * LENGTH_STEP
            made = what_if.estimate({"max_model_len": length})
            return 0.0 if made.memory.verdict in verdicts and _holds(made, length) else 1.0

        return test

    start = (stated if isinstance(stated, int) else most) // LENGTH_STEP
    fits = largest(fails(("fits",)), 0.5, max(start, 1), steps)
    expected = largest(fails(FITTING), 0.5, max(fits, 1), steps)
    if not fits and expected:
        # something else is tight at any length: what surely fits follows from the cache's low end
        cache = what_if.estimate({"max_model_len": expected * LENGTH_STEP}).serving
        if cache is not None and cache.kv_cache is not None and cache.kv_cache.expected > 0:
            fits = int(expected * max(0.0, cache.kv_cache.low) / cache.kv_cache.expected)
    return Largest(fits * LENGTH_STEP, max(fits, expected) * LENGTH_STEP, bounded=fits >= steps and not limit)


def _holds(estimate: Estimate, length: int) -> bool:
    """Whether one request of ``length`` tokens is expected to fit, also where the engine would start without."""
    serving = estimate.serving
    if (
        serving is None or serving.max_model_len is None or serving.engine == "llama.cpp"
    ):  # which takes what is asked for
        return True
    return serving.max_model_len >= length


def _starts_and_holds(job: ServingJob, estimate: Estimate) -> bool:
    stated = job.value("max_model_len")
    known = job.architecture.max_position_embeddings if job.architecture is not None else None
    length = stated if isinstance(stated, int) and not isinstance(stated, bool) else known
    return estimate.memory.verdict in FITTING and (length is None or _holds(estimate, min(length, known or length)))


def _levers(job: ServingJob, what_if: WhatIf, length: Largest | None) -> Iterator[Change]:
    found = []
    for name, value, freed, note in serving_levers(job):
        if name == "tensor_parallel_size":
            continue
        if name == "max_model_len" and length is not None and (length.fits or length.expected):
            value, note = length.fits or length.expected, "the longest that fits"
        found.append(_change(job, what_if, name, value, freed, note))
    stated = job.value("max_model_len")
    shorter = length.fits or length.expected if length is not None else 0
    if (
        shorter
        and what_if.estimate().memory.verdict not in FITTING
        and not any("max_model_len" in change.facts for change in found)
        and isinstance(stated, int)
        and shorter < stated
    ):
        found.append(_change(job, what_if, "max_model_len", shorter, None, "the longest that fits"))
    yield from sorted(found, key=lambda c: (c.verdict not in FITTING, c.changes_training_result, -(c.freed or 0)))


def _change(job: ServingJob, what_if: WhatIf, name: str, value: Any, freed: float | None, note: str = "") -> Change:
    cost, alters = COSTS.get(name, ("", False))
    facts = {name: value}
    made = what_if.estimate(facts)
    settings = settings_for(job, facts) or ()
    # Where the format's own key is shown the words need not name it.
    words = note.removeprefix(f"{name}: {value} ").removeprefix(f"{name} ") if settings else note
    return Change(words or f"{name}: {value}", facts, settings, made, alters, cost, freed=freed)


def _stacked(job: ServingJob, what_if: WhatIf, levers: list[Change]) -> Iterator[Change]:
    """All levers one after another, the one that frees most first, until the server starts."""
    facts: dict[str, Any] = {}
    parts: list[Change] = []
    for lever in sorted(levers, key=lambda c: (c.changes_training_result, -(c.freed or 0))):
        facts.update(lever.facts)
        parts.append(lever)
        made = what_if.estimate(facts)
        if made.memory.verdict in FITTING:
            yield Change(
                " + ".join(part.words for part in parts),
                dict(facts),
                settings_for(job, facts) or (),
                made,
                any(part.changes_training_result for part in parts),
                "; ".join(dict.fromkeys(part.cost for part in parts if part.cost)),
                parts=tuple(parts),
            )
            return


def tensor_sizes(job: ServingJob) -> list[int]:
    """Sizes that divide the attention heads, and go evenly with the key-value heads (split, or each copied)."""
    arch = job.architecture
    heads = arch.num_attention_heads if arch else 0
    cached = arch.num_key_value_heads if arch and arch.mla is None else 0
    return [
        size
        for size in TENSOR_SIZES
        if not (heads and heads % size) and not (cached and cached % size and size % cached)
    ]


def _stages(job: ServingJob) -> int:
    stages = job.value("pipeline_parallel_size", 1)
    return stages if isinstance(stages, int) and stages >= 1 else 1


def _tensor_parallel(job: ServingJob, what_if: WhatIf) -> Change | None:
    if str(job.value("framework")).lower() == "llama.cpp":
        return None
    for size in tensor_sizes(job):
        made = what_if.estimate({"tensor_parallel_size": size})
        if _starts_and_holds(job, made):
            gpus = size * _stages(job)
            note = f"the smallest that fits: {gpus} GPU{'s' if gpus > 1 else ''}"
            return _change(job, what_if, "tensor_parallel_size", size, None, note)
    return None


def _smallest(job: ServingJob, what_if: WhatIf) -> tuple[list[OnAccelerator], list[str]]:
    """For each accelerator the smallest tensor-parallel size that starts and holds one request of full length."""
    found, too_small = [], []
    splits = str(job.value("framework")).lower() != "llama.cpp"
    stages = _stages(job)
    for accelerator, stated in tried_accelerators(job.hardware):
        name = job.hardware.name if stated and len(job.hardware.candidates) > 1 else accelerator.id
        row = None
        for size in tensor_sizes(job) if splits else [1]:
            gpus, nodes = _nodes(size * stages)
            facts = {"tensor_parallel_size": size} if splits else {}
            made = what_if.estimate(facts, on_hardware(job, accelerator, gpus, nodes))
            if _starts_and_holds(job, made):
                change = None
                if splits and size != (job.value("tensor_parallel_size") or 1):
                    change = Change(f"tensor_parallel_size: {size}", facts, settings_for(job, facts) or (), made)
                row = OnAccelerator(name, accelerator.usable_bytes, gpus, nodes, made, change, stated)
                break
        if row is None:
            too_small.append(name)
        else:
            found.append(row)
    return found, too_small


def _nodes(gpus: int) -> tuple[int, int]:
    """(per node, nodes) for so many devices in nodes of eight."""
    return (gpus, 1) if gpus <= GPUS_PER_NODE else (GPUS_PER_NODE, -(-gpus // GPUS_PER_NODE))
