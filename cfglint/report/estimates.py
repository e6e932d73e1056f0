"""Estimates as JSON (CONTRACT.md), text for a person, and Markdown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cfglint.estimate.result import GIB, Component, Estimate, Interval, MemoryEstimate
from cfglint.estimate.verdict import verdict_for
from cfglint.jobs.job import Job
from cfglint.report.terminal import Paint, harmless

SAME_SIZE: Final = 1.02
"""Accelerators within this factor of each other are form factors of one card; the smallest is shown."""
WINDOWED: Final = 1.05
"""From this factor on, tokens times bytes are more than the cache has: rounding to blocks makes less."""
BAR_WIDTH: Final = 60
"""Columns of the bar of components."""

UNICODE_PENS: Final = "█▓▒░▚▞▙▟▌▖"
ASCII_PENS: Final = "#%+=*o~x:."
OUTSIDE: Final = "▏"
ASCII_OUTSIDE: Final = "'"
ROOM: Final = "·"

PHASES: Final = ("load", "forward", "backward", "step")
"""Phases of training in the order they happen; those of serving come as the estimator gives them."""

VERDICT_WORDS: Final = {
    "fits": "fits",
    "tight": "tight: fits as expected, but not with the high end of the estimate",
    "likely-oom": "probably does not fit: the expected need exceeds the memory",
    "oom": "does not fit: even the low end exceeds the memory",
    "kv-too-small": "the KV cache cannot hold one request of max_model_len",
    "unknown": "no verdict",
}
VERDICT_STYLE: Final = {
    "fits": "help",
    "tight": "warning",
    "likely-oom": "warning",
    "oom": "error",
    "kv-too-small": "error",
}

HOW_TO_SUPPLY: Final = {
    "sharding": "the Accelerate or DeepSpeed file it is launched with (name it in the launch script, or put both files into "
    "one [[tool.cfglint.jobs]] entry)",
    "gpu": "--gpu NAME, `# cfglint: gpu=A100-80GB gpus=8`, or [[tool.cfglint.targets]]",
    "gpus_per_node": "--gpus N, `# cfglint: gpus=8`, or [[tool.cfglint.targets]]",
    "model": "`cfglint models add ID`, a config.json beside the file, or [tool.cfglint.models]",
    "sequence_length": "the sequence length in the config, or --set sequence_length=N",
    "micro_batch_size": "the batch size per device in the config, or --set micro_batch_size=N",
    "eval_micro_batch_size": "the batch size of evaluation in the config, or --set eval_micro_batch_size=N",
}


@dataclass(frozen=True)
class FitsOn:
    """A what-if where no hardware is known: the verdict on an accelerator. ``gpus`` in all."""

    gpu: str
    gpus: int
    verdict: str
    used: Interval | None
    capacity: int


@dataclass
class JobEstimate:
    """A job with its estimate, and what it fits on where its hardware is not known."""

    job: Job
    estimate: Estimate
    fits_on: list[FitsOn] = field(default_factory=list)

    @property
    def cannot_fit(self) -> bool:
        return self.estimate.memory.verdict in ("oom", "kv-too-small")


# JSON ----------------------------------------------------------------------------------------------------------------


def as_json(estimates: Sequence[JobEstimate]) -> str:
    """The form of CONTRACT.md, version 1."""
    content = {"version": 1, "jobs": [job_as_json(item) for item in estimates]}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def job_as_json(item: JobEstimate) -> dict[str, Any]:
    """One job with its estimate."""
    job, made = item.job, item.estimate
    memory, hardware = made.memory, job.hardware
    seconds = made.compute.seconds_per_step
    capacity = memory.capacity if memory.capacity is not None else _capacity(job)
    return {
        "name": job.name,
        "kind": job.kind,
        "dialects": job.dialects,
        "documents": job.documents,
        "model": {
            "id": job.model.id if job.model else job.value("model_id"),
            "parameters": made.parameters,
            "trainable_parameters": made.trainable_parameters,
            "source": job.model.source if job.model else None,
        },
        "hardware": {
            "gpu": hardware.accelerator.id if hardware.accelerator else hardware.name or None,
            "candidates": [a.id for a in hardware.candidates],
            "gpus_per_node": hardware.gpus_per_node,
            "nodes": hardware.nodes,
            "capacity_gib": gib(capacity),
            "source": hardware.origin.describe() if hardware.origin else None,
        },
        "memory": {
            "verdict": memory.verdict,
            "allocated_gib": interval(memory.allocated),
            "reserved_gib": interval(memory.reserved),
            "used_gib": interval(memory.used),
            "host_gib": interval(memory.host),
            "phases": {name: gib(size) for name, size in memory.phases.items()},
            "components": [_component_json(part) for part in memory.components],
            "missing": list(memory.missing),
        },
        "batch": {
            "micro_batch": made.batch.micro_batch,
            "gradient_accumulation": made.batch.gradient_accumulation,
            "data_parallel": made.batch.data_parallel,
            "sequences": made.batch.sequences,
            "sequence_length": made.batch.sequence_length,
            "tokens": made.batch.tokens,
            "steps_per_epoch": made.batch.steps_per_epoch,
        },
        "compute": {
            "flops_per_step": made.compute.flops_per_step,
            "seconds_per_step": {"mfu_40": seconds.get("mfu_40"), "mfu_60": seconds.get("mfu_60")},
        },
        "serving": _serving_json(made),
        "assumptions": list(made.assumptions),
        "fits_on": [
            {"gpu": f.gpu, "gpus": f.gpus, "verdict": f.verdict, "used_gib": interval(f.used)} for f in item.fits_on
        ],
    }


def _component_json(part: Component) -> dict[str, Any]:
    inputs = [{"fact": i.fact, "value": i.value, "origin": i.origin} for i in part.inputs]
    return {"name": part.name, "gib": gib(part.bytes), "formula": part.formula, "inputs": inputs}


def _serving_json(made: Estimate) -> dict[str, Any] | None:
    serving = made.serving
    if serving is None:
        return None
    tokens = serving.kv_tokens
    return {
        "engine": serving.engine,
        "kv_bytes_per_token": serving.kv_bytes_per_token,
        "weights_gib": gib(serving.weights),
        "activation_peak_gib": gib(serving.activation_peak),
        "graph_gib": gib(serving.graph),
        "kv_cache_gib": interval(serving.kv_cache),
        "kv_tokens": None if tokens is None else {n: round(getattr(tokens, n)) for n in ("low", "expected", "high")},
        "max_model_len": serving.max_model_len,
        "max_concurrency": serving.max_concurrency,
    }


def gib(size: float | None) -> float | None:
    """Bytes as JSON has them: GiB to four places."""
    return None if size is None else round(size / GIB, 4)


def interval(value: Interval | None) -> dict[str, float | None] | None:
    """An interval of bytes as JSON has it, in GiB."""
    return None if value is None else {n: gib(getattr(value, n)) for n in ("low", "expected", "high")}


def _capacity(job: Job) -> float | None:
    return float(job.hardware.accelerator.usable_bytes) if job.hardware.accelerator else None


def _shown_capacity(item: JobEstimate) -> float | None:
    """What the device has, for people: form factors of one card differ by a few MiB, and the smallest is shown."""
    memory = item.estimate.memory
    known = float(memory.capacity) if memory.capacity else _capacity(item.job)
    sizes = sorted(float(candidate.usable_bytes) for candidate in item.job.hardware.candidates)
    if known is None and sizes and sizes[-1] <= sizes[0] * SAME_SIZE:
        return sizes[0]
    return known


# Text ----------------------------------------------------------------------------------------------------------------


def as_text(estimates: Sequence[JobEstimate], *, colour: bool = False, unicode: bool = True) -> str:
    """A page per job: what it is, the bar, the parts with their working and origins, verdict, batch, compute."""
    paint = Paint(colour)
    return "\n".join("\n".join(_job_text(item, paint, unicode)) + "\n" for item in estimates)


def _job_text(item: JobEstimate, paint: Paint, unicode: bool) -> list[str]:
    job, made = item.job, item.estimate
    kind = "training" if job.kind == "train" else "serving"
    lines = [f"{paint('bold', harmless(job.name))}  {kind}, {' + '.join(job.dialects) or 'no file'}"]
    lines += [row("model", model_words(job, made)), row("hardware", hardware_words(job))]
    memory = made.memory
    if memory.components:
        lines += [
            "",
            _heading(item, paint),
            *_bar(item, paint, unicode),
            "",
            *_parts(memory, paint, unicode),
        ]
        lines += _totals(item, paint)
    else:
        lines.append(row("memory", VERDICT_WORDS["unknown"]))
    if memory.phases:
        order = [*(name for name in PHASES if name in memory.phases), *(n for n in memory.phases if n not in PHASES)]
        shown = ", ".join(f"{name} {memory.phases[name] / GIB:.2f}" for name in order)
        lines.append(row("phases", f"{shown} GiB"))
    lines += [row(label, text) for label, text in _facts(item)]
    lines += _list("fits on", _fits_on(item.fits_on))
    lines += _list("problem", made.problems)
    lines += _list("missing", [missing_words(name) for name in memory.missing if not _is_stated(job, name)])
    lines += _list("assumed", [text for text in made.assumptions if text not in made.problems])
    return lines


def row(label: str, text: str) -> str:
    """A line of a job's page."""
    return f"  {label:<10} {text}"


def _list(label: str, entries: Sequence[str]) -> list[str]:
    return [row(label if i == 0 else "", harmless(entry)) for i, entry in enumerate(dict.fromkeys(entries))]


def model_words(job: Job, made: Estimate) -> str:
    """The model with its counts and where they came from."""
    name = job.model.id if job.model else job.value("model_id") or "not stated"
    parts = [harmless(str(name))]
    if made.parameters:
        parts.append(f"{_count(made.parameters)} parameters")
    if made.trainable_parameters and made.trainable_parameters != made.parameters:
        parts.append(f"{_count(made.trainable_parameters)} trained")
    fact = job.fact("model_id")
    source = " · ".join(filter(None, [fact.describe() if fact else "", job.model.source if job.model else ""]))
    return ", ".join(parts) + (f"  ({_origin(source)})" if source else "")


def hardware_words(job: Job) -> str:
    """The accelerator, how many, and where that was said."""
    hardware = job.hardware
    names = [a.id for a in hardware.candidates]
    if not names:
        stated = f"no accelerator is called {harmless(hardware.name)!r}" if hardware.name else "not stated"
        many = f", {hardware.gpus_per_node} GPUs per node" if hardware.gpus_per_node else ""
        return stated + many
    if len(names) > 1:
        shown = f"{harmless(hardware.name)} (can mean {', '.join(names)})"
    else:
        measured = "" if hardware.candidates[0].usable_measured else ", from the label"
        shown = f"{names[0]} ({hardware.candidates[0].usable_gib:.2f} GiB usable{measured})"
    number = f"{hardware.gpus_per_node} × " if hardware.gpus_per_node else ""
    nodes = f", {hardware.nodes} nodes" if hardware.nodes and hardware.nodes > 1 else ""
    origins = [o.describe() for o in (hardware.origin, hardware.count_origin) if o]
    source = " · ".join(dict.fromkeys(_origin(o) for o in origins))
    return f"{number}{shown}{nodes}" + (f"  ({source})" if source else "")


def _heading(item: JobEstimate, paint: Paint) -> str:
    memory = item.estimate.memory
    words = _cache_words(item) or _differing_words(item) or VERDICT_WORDS.get(memory.verdict, memory.verdict)
    style = VERDICT_STYLE.get(memory.verdict, "bold")
    return f"  memory per GPU: {paint(style, words)}"


def _cache_words(item: JobEstimate) -> str:
    """The verdict on a server that the device holds and whose KV cache has no room in what the engine takes."""
    memory, serving = item.estimate.memory, item.estimate.serving
    capacity = _shown_capacity(item)
    if serving is None or serving.kv_cache is None or memory.used is None or capacity is None:
        return ""
    cache = serving.kv_cache
    no_room = "what the engine may take of the memory has no room for a KV cache"
    if memory.verdict == "oom" and memory.used.low <= capacity and cache.high <= 0:
        return f"does not start: {no_room}"
    if memory.verdict == "likely-oom" and memory.used.expected <= capacity:
        return f"probably does not start: {no_room if cache.expected <= 0 else VERDICT_WORDS['kv-too-small']}"
    return ""


def _differing_words(item: JobEstimate) -> str:
    """Why there is no verdict on a training job where only the accelerators that its name can mean differ."""
    memory, candidates = item.estimate.memory, item.job.hardware.candidates
    if item.job.kind != "train" or memory.verdict != "unknown" or memory.missing or memory.used is None:
        return ""
    verdicts: dict[str, list[str]] = {}
    for candidate in candidates:
        verdicts.setdefault(verdict_for(memory.used, candidate.usable_bytes), []).append(candidate.id)
    if len(verdicts) < 2:
        return ""
    shown = "; ".join(f"{verdict} on {', '.join(names)}" for verdict, names in verdicts.items())
    return f"{VERDICT_WORDS['unknown']}, as the accelerators differ: {shown}"


def _bar(item: JobEstimate, paint: Paint, unicode: bool) -> list[str]:
    """Components as a bar against the accelerator's memory, with a mark where that ends."""
    memory = item.estimate.memory
    pens = UNICODE_PENS if unicode else ASCII_PENS
    total = sum(part.bytes for part in memory.components)
    used = memory.used.expected if memory.used else total
    capacity = _shown_capacity(item) or 0.0
    scale = max(total, used, capacity) / BAR_WIDTH
    if scale <= 0:
        return []
    row, position, reached = "", 0, 0.0
    for i, part in enumerate(memory.components):
        reached += part.bytes
        cells = round(reached / scale) - position
        row += pens[i % len(pens)] * cells
        position += cells
    outside = max(0, round(max(total, used) / scale) - position)
    row += (OUTSIDE if unicode else ASCII_OUTSIDE) * outside
    position += outside
    room = max(0, round(capacity / scale) - position)
    row += (ROOM if unicode else " ") * room
    lines = [f"  |{row}|"]
    if capacity:
        at = min(round(capacity / scale), BAR_WIDTH)
        label = f"{capacity / GIB:.1f} GiB usable"
        if at >= len(label) + 2:
            lines.append(f"   {' ' * (at - len(label) - 2)}{label} {'▲' if unicode else '^'}")
        else:
            lines.append(f"   {' ' * max(0, at - 1)}{'▲' if unicode else '^'} {label}")
    return lines


def _parts(memory: MemoryEstimate, paint: Paint, unicode: bool) -> list[str]:
    pens = UNICODE_PENS if unicode else ASCII_PENS
    components = memory.components
    rest = (memory.used.expected if memory.used else 0.0) - sum(part.bytes for part in components)
    around = "around it"
    width = max(len(name) for name in (*(part.name for part in components), around))
    lines = []
    for i, part in enumerate(components):
        pen = pens[i % len(pens)]
        lines.append(f"  {pen} {harmless(part.name):<{width}} {part.bytes / GIB:8.2f} GiB  {harmless(part.formula)}")
        inputs = ", ".join(f"{i.fact} {i.value} ({_origin(i.origin)})" for i in part.inputs)
        if inputs:
            lines += [
                f"    {' ' * width}               {paint('dim', line)}" for line in _wrapped(harmless(inputs), 100)
            ]
    if rest >= GIB / 100:
        pen = OUTSIDE if unicode else ASCII_OUTSIDE
        engine = "the rollout engine while it generates, " if memory.at == "generation" else ""
        lines.append(
            f"  {pen} {around:<{width}} {rest / GIB:8.2f} GiB  {engine}fragmentation, CUDA context, libraries, communication"
        )
    return lines


def _totals(item: JobEstimate, paint: Paint) -> list[str]:
    memory = item.estimate.memory
    rows = (
        ("allocated", memory.allocated, "live tensors at the peak, as torch.cuda.max_memory_allocated reports"),
        ("reserved", memory.reserved, "what the caching allocator holds"),
        ("used", memory.used, "what nvidia-smi shows: with CUDA context, libraries, communication buffers"),
        (
            "host",
            memory.host if memory.host and memory.host.high > 0 else None,
            "memory of the host, all ranks of a node"
            + (f"; {memory.saving / GIB:.1f} of it while rank 0 writes a full state dict" if memory.saving else ""),
        ),
    )
    lines = [""]
    for name, value, what in rows:
        if value is not None:
            span = f"{value.low / GIB:.1f}–{value.high / GIB:.1f}"
            lines.append(f"  {name:<10} {value.expected / GIB:7.2f} GiB  ({span})  {paint('dim', what)}")
    capacity = _shown_capacity(item)
    if capacity and memory.used:
        left = (capacity - memory.used.expected) / GIB
        words = f"{left:.1f} GiB left, as expected" if left >= 0 else f"{-left:.1f} GiB too much, as expected"
        cache = item.estimate.serving.kv_cache if item.estimate.serving else None
        if left >= 0 and cache is not None and cache.expected < 0:
            words = "the engine may take a part of it, and that has no room for a KV cache"
        lines.append(f"  {'usable':<10} {capacity / GIB:7.2f} GiB  {words}")
    return lines


def _facts(item: JobEstimate) -> list[tuple[str, str]]:
    """Rows on batch, compute and serving."""
    made, rows = item.estimate, []
    batch = made.batch
    if item.job.kind == "train":
        rows.append(("batch", _batch(item)))
        flops = made.compute.flops_per_step
        if flops:
            seconds = made.compute.seconds_per_step
            times = [f"{_seconds(seconds[key])} at {key[4:]} % MFU" for key in ("mfu_40", "mfu_60") if key in seconds]
            rows.append(("compute", f"{flops:.3g} FLOPs per step" + (f"; {', '.join(times)}" if times else "")))
        if batch.steps_per_epoch:
            rows.append(("epoch", f"{batch.steps_per_epoch:,} steps"))
    serving = made.serving
    if serving is None:
        return rows
    if serving.kv_cache is not None:
        cache = serving.kv_cache
        text = f"{cache.expected / GIB:.2f} GiB ({max(0.0, cache.low) / GIB:.1f}–{cache.high / GIB:.1f})"
        if cache.expected < 0:
            least = max(0.0, -cache.high)
            text = f"none: {-cache.expected / GIB:.2f} GiB short ({least / GIB:.1f}–{-cache.low / GIB:.1f})"
        elif serving.kv_tokens is not None and serving.kv_bytes_per_token:
            tokens, each = serving.kv_tokens.expected, serving.kv_bytes_per_token
            # layers with a window keep less of a long request
            most = "up to " if tokens * each > cache.expected * WINDOWED else ""
            text += f" = {tokens:,.0f} tokens of {most}{each:,.0f} bytes"
        rows.append(("KV cache", text))
    if serving.max_model_len:
        text = f"the longest request that fits has {serving.max_model_len:,} tokens"
        stated = item.job.value("max_model_len")
        if serving.max_concurrency:
            length = f"max_model_len {stated:,}" if isinstance(stated, int) else "full length"
            if serving.engine == "llama.cpp":  # whose context is that of all its slots
                length = "that length"
            text += f"; {_requests(serving.max_concurrency)} requests of {length} at once"
        rows.append(("requests", text))
    return rows


def _requests(number: float) -> str:
    """A number of requests; less than one is not rounded to one, nor something to nothing."""
    shown = f"{number:.1f}"
    return f"{math.floor(number * 100) / 100:.2f}" if number < 1 and shown in ("0.0", "1.0") else shown


def _batch(item: JobEstimate) -> str:
    batch = item.estimate.batch
    factors = (
        (batch.micro_batch, "per GPU"),
        (batch.gradient_accumulation, "accumulation"),
        (batch.data_parallel, "data parallel"),
    )
    working = " × ".join(f"{'?' if n is None else n} {what}" for n, what in factors)
    if batch.sequences is None:
        why = "" if item.job.hardware.gpus_per_node else " (the number of GPUs is not stated: --gpus N)"
        return f"{working} = unknown{why}"
    text = f"{working} = {batch.counted} per step"
    if batch.tokens is not None:
        rows = "" if batch.rows == 1 else f"{batch.rows} × "
        text += f"; × {rows}{batch.sequence_length:,} = {batch.tokens:,} tokens"
    return text


def _fits_on(fits: Sequence[FitsOn]) -> list[str]:
    """A line per accelerator that carries the job in any number tried; the others in one line."""
    by_gpu: dict[str, list[FitsOn]] = {}
    for fit in fits:
        by_gpu.setdefault(fit.gpu, []).append(fit)
    lines, too_small = [], []
    for gpu, tried in by_gpu.items():
        if all(fit.verdict not in ("fits", "tight") for fit in tried):
            too_small.append(gpu)
            continue
        shown = []
        for fit in tried:
            need = f" (needs {fit.used.expected / GIB:.1f})" if fit.used else ""
            shown.append(f"{fit.gpus} GPU{'s' if fit.gpus > 1 else ''}: {fit.verdict}{need}")
        lines.append(f"{gpu:<14} {tried[0].capacity / GIB:6.1f} GiB  {', '.join(shown)}")
    if too_small:
        lines.append(f"too small: {', '.join(too_small)}")
    return lines


def _is_stated(job: Job, name: str) -> bool:
    """Whether a fact named as missing is stated with a value that cannot be: its problem is shown instead."""
    if name == "model":
        return job.model is not None and bool(job.model.problem) and job.model.source not in ("", "catalogue")
    fact = job.fact(name)
    return fact is not None and fact.value is not None and not job.undecided(name)


def missing_words(name: str) -> str:
    """A missing fact with how to supply it."""
    how = HOW_TO_SUPPLY.get(name)
    return f"{name}: state it with {how}" if how else name


def _wrapped(text: str, width: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _origin(text: str) -> str:
    return re.sub(r"--set:\d+", "--set", harmless(text))


def _count(number: float) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


# Markdown ------------------------------------------------------------------------------------------------------------


def as_markdown(estimates: Sequence[JobEstimate]) -> str:
    """A table of jobs, then each job's parts: for pull requests and job summaries."""
    lines = [
        "| job | GPU | used GiB (low–high) | usable | verdict | batch |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for item in estimates:
        memory, hardware = item.estimate.memory, item.job.hardware
        used = memory.used
        capacity = _shown_capacity(item)
        gpu = hardware.accelerator.id if hardware.accelerator else hardware.name or "not stated"
        number = f"{hardware.world_size} × " if hardware.world_size else ""
        span = f"{used.expected / GIB:.1f} ({used.low / GIB:.1f}–{used.high / GIB:.1f})" if used else ""
        usable = f"{capacity / GIB:.1f}" if capacity else ""
        batch = item.estimate.batch.counted if item.estimate.batch.sequences else ""
        lines.append(
            f"| `{cell(item.job.name)}` | {number}{cell(gpu)} | {span} | {usable} | {memory.verdict} | {batch} |"
        )
    for item in estimates:
        parts = item.estimate.memory.components
        if parts:
            lines += ["", f"<details><summary>{cell(item.job.name)}</summary>", ""]
            lines += ["| part | GiB | how |", "| --- | ---: | --- |"]
            lines += [f"| {cell(p.name)} | {p.bytes / GIB:.2f} | {cell(p.formula)} |" for p in parts]
            lines += ["", *(f"- {cell(text)}" for text in item.estimate.assumptions), "", "</details>"]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return harmless(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;").replace("`", "")
