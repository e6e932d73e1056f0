"""What would fit: JSON, text for a person, Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cfglint.estimate.fit.result import FITTING, Change, Fit, Largest, OnAccelerator, Setting, settings_words
from cfglint.estimate.result import GIB
from cfglint.jobs.job import Job
from cfglint.report.estimates import VERDICT_STYLE, cell, gib, hardware_words, interval, missing_words, model_words, row
from cfglint.report.terminal import Paint, harmless

SHOWN_SAVERS: Final = 3
"""Changes that do not suffice, shown at most."""
INDENT: Final = "    "
WIDTH: Final = 88
"""Columns of a change's settings and costs, beside its numbers."""

SAYS: Final = {
    "fits": "fits",
    "tight": "fits as expected, not with the high end",
    "likely-oom": "probably does not fit",
    "oom": "does not fit",
    "kv-too-small": "holds no request of max_model_len",
    "unknown": "no verdict",
}


@dataclass
class JobFit:
    """A job with what would fit."""

    job: Job
    fit: Fit


# JSON ----------------------------------------------------------------------------------------------------------------


def as_json(found: Sequence[JobFit]) -> str:
    """``{"version": 1, "jobs": […]}``."""
    content = {"version": 1, "jobs": [_job_json(item) for item in found]}
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"


def _job_json(item: JobFit) -> dict[str, Any]:
    job, fit = item.job, item.fit
    memory, serving = fit.base.memory, fit.base.serving
    common = {
        "name": job.name,
        "kind": job.kind,
        "verdict": memory.verdict,
        "used_gib": interval(memory.used),
        "capacity_gib": gib(min((a.usable_bytes for a in job.hardware.candidates), default=None)),
        "missing": list(fit.missing),
    }
    tokens = serving.kv_tokens.expected if serving and serving.kv_tokens else None
    sizes: dict[str, Any]
    if job.kind == "train":
        kept = fit.kept_batch
        sizes = {
            **_largest_json("micro_batch_size", fit.micro_batch),
            **_largest_json("sequence_length", fit.sequence_length),
            "model_limit": fit.model_limit,
            "kept_batch": None
            if kept is None
            else {
                "micro_batch_size": kept.micro_batch_size,
                "gradient_accumulation_steps": kept.gradient_accumulation_steps,
                "sequences_per_rank": kept.sequences,
                "largest_would_make": kept.remainder,
                "settings": [_setting_json(s) for s in kept.settings],
            },
        }
    else:
        sizes = {
            "kv_tokens": None if tokens is None else round(tokens),
            "max_concurrency": None if serving is None else serving.max_concurrency,
            **_largest_json("max_model_len", fit.max_model_len),
            "model_limit": fit.model_limit,
            "smallest_tensor_parallel_size": None
            if fit.tensor_parallel is None
            else fit.tensor_parallel.facts["tensor_parallel_size"],
        }
    return {
        **common,
        **sizes,
        "changes": [_change_json(change) for change in (*fit.changes, *fit.stacked)],
        "spare": [_change_json(change) for change in fit.spare],
        "accelerators": [_accelerator_json(on) for on in fit.accelerators],
        "too_small": list(fit.too_small),
    }


def _largest_json(name: str, found: Largest | None) -> dict[str, Any]:
    return {
        f"largest_{name}": None if found is None else found.fits,
        f"largest_{name}_expected": None if found is None else found.expected,
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "words": change.words,
        "settings": [_setting_json(setting) for setting in change.settings],
        "changes_training_result": change.changes_training_result,
        "cost": change.cost,
        "used_gib": interval(change.used),
        "host_gib": interval(change.host),
        "freed_gib": gib(change.freed),
        "verdict": change.verdict,
        "stacked": len(change.parts) or 1,
    }


def _setting_json(setting: Setting) -> dict[str, Any]:
    return {"dialect": setting.dialect, "key": setting.key, "value": setting.value, "path": setting.path or None}


def _accelerator_json(on: OnAccelerator) -> dict[str, Any]:
    return {
        "gpu": on.gpu,
        "usable_gib": gib(on.usable),
        "gpus_per_node": on.gpus_per_node,
        "nodes": on.nodes,
        "used_gib": interval(on.estimate.memory.used),
        "verdict": on.verdict,
        "stated": on.stated,
        "sequences": on.sequences,
        "lacks": on.lacks or None,
        "with": None if on.change is None else _change_json(on.change),
    }


# Text ----------------------------------------------------------------------------------------------------------------


def as_text(found: Sequence[JobFit], *, colour: bool = False) -> str:
    """A page per job: what it needs now, what to change, the largest sizes, the accelerators."""
    paint = Paint(colour)
    return "\n".join("\n".join(_job_text(item, paint)) + "\n" for item in found)


def _job_text(item: JobFit, paint: Paint) -> Iterator[str]:
    job, fit = item.job, item.fit
    kind = "training" if job.kind == "train" else "serving"
    yield f"{paint('bold', harmless(job.name))}  {kind}, {' + '.join(job.dialects) or 'no file'}"
    yield row("model", model_words(job, fit.base))
    yield row("hardware", hardware_words(job))
    if fit.base.memory.used is not None or not fit.missing:
        yield row("now", _now(item, paint))
    yield from _answers(item)
    primary = job.documents[0] if job.documents else ""
    more = "more room with" if job.kind == "train" else "more KV cache with"
    fitting = [change for change in fit.changes if change.verdict in FITTING]
    surely = any(change.verdict == "fits" for change in fitting)
    if fit.stacked and surely:  # they leave the training result alone, what fits by itself does not
        yield from _section("these fit together", fit.stacked, primary, paint)
    if (fitting and not fit.fits) or surely:
        title = more if fit.fits else "any of these fits" if surely else "any of these fits as expected"
        yield from _section(title, fitting, primary, paint)
    if fit.stacked and not surely:
        yield from _section("these fit together", fit.stacked, primary, paint)
    short = sorted((c for c in fit.changes if c.verdict not in FITTING), key=_expected)[:SHOWN_SAVERS]
    if short and not fitting:
        alone = "not enough alone" if fit.stacked else "not enough, alone or together"
        yield from _section(alone, short, primary, paint)
    if fit.spare:
        yield from _section("room to spare for", fit.spare, primary, paint)
    yield from _accelerators(item, paint)
    names = dict.fromkeys(missing_words(name) for name in fit.missing)
    yield from _rows("missing", [harmless(name) for name in names])


def _expected(change: Change) -> float:
    return change.used.expected if change.used else float("inf")


def _rows(label: str, texts: Sequence[str]) -> Iterator[str]:
    for i, text in enumerate(texts):
        yield row(label if i == 0 else "", text)


def _now(item: JobFit, paint: Paint) -> str:
    memory = item.fit.base.memory
    verdict = paint(VERDICT_STYLE.get(memory.verdict, "bold"), SAYS.get(memory.verdict, memory.verdict))
    if memory.used is None:
        return verdict if item.job.hardware.candidates else "no accelerator is stated"
    used = memory.used
    text = f"{used.expected / GIB:.1f} GiB per GPU ({used.low / GIB:.1f}–{used.high / GIB:.1f})"
    return f"{text}: {verdict}" if item.job.hardware.candidates else text


def _answers(item: JobFit) -> Iterator[str]:
    fit = item.fit
    if item.job.kind == "train":
        if fit.micro_batch is not None:
            with_ = ", evaluating one sequence at a time" if fit.beside else ""
            yield row("largest", f"micro-batch {_largest(fit.micro_batch)}{with_}")
        if fit.sequence_length is not None:
            limit = ""
            if fit.model_limit and fit.sequence_length.expected > fit.model_limit:
                limit = f"; the model was made for {fit.model_limit:,}"
            yield row("", f"sequence length {_largest(fit.sequence_length)}{limit}")
        yield from _batch(fit)
        return
    serving = fit.base.serving
    if serving is not None and serving.kv_tokens is not None:
        tokens = serving.kv_tokens
        text = f"{tokens.expected:,.0f} tokens ({tokens.low:,.0f}–{tokens.high:,.0f})"
        if serving.max_concurrency:
            text += f", {serving.max_concurrency:.1f} requests of full length at once"
        yield row("KV cache", text)
    if fit.max_model_len is not None:
        limit = ", all that the model was made for" if fit.max_model_len.fits == fit.model_limit else ""
        yield row("largest", f"max_model_len {_largest(fit.max_model_len)}{limit}")
    if fit.tensor_parallel is not None:
        size = fit.tensor_parallel.facts["tensor_parallel_size"]
        stated = item.job.value("tensor_parallel_size") or 1
        now = ", as now" if size == stated else f" (now {stated})"
        yield row("smallest", f"tensor parallel size {size}{now}")


def _largest(found: Largest) -> str:
    if not found.expected:
        return "none fits"
    more = " or more" if found.bounded else ""
    if found.fits == found.expected:
        return f"{found.fits:,}{more}"
    return (
        f"{found.fits:,} ({found.expected:,} as expected)"
        if found.fits
        else f"{found.expected:,} as expected, none surely"
    )


def _batch(fit: Fit) -> Iterator[str]:
    kept = fit.kept_batch
    if kept is None or fit.micro_batch is None:
        return
    steps = kept.gradient_accumulation_steps
    text = f"{kept.micro_batch_size} × {steps} accumulation step{'s' if steps != 1 else ''}"
    text += f" = {kept.sequences:,} sequence{'s' if kept.sequences != 1 else ''}"
    text += " per GPU and step, as now"
    if kept.remainder is not None:
        largest = min(fit.micro_batch.fits or fit.micro_batch.expected, kept.sequences)
        text += f"; {largest} does not divide them: {kept.remainder // largest} steps would make {kept.remainder:,}"
    yield row("batch", text)


def _section(title: str, changes: Sequence[Change], primary: str, paint: Paint) -> Iterator[str]:
    yield ""
    yield f"  {title}"
    for change in changes:
        yield from _change(change, primary, paint)


def _change(change: Change, primary: str, paint: Paint) -> Iterator[str]:
    lead = f"{INDENT}{_figures(change)} "
    for i, line in enumerate(_wrapped(harmless(change.settings_words(primary)))):
        yield (lead if i == 0 else " " * len(lead)) + line
    for line in _wrapped(harmless("; ".join(_notes(change)))):
        yield f"{' ' * len(lead)}{paint('dim', line)}"


def _figures(change: Change) -> str:
    """What a device needs; of servers, whose devices are filled, what the KV cache holds."""
    serving, used = change.estimate.serving, change.used
    if serving is not None:
        return f"{serving.kv_tokens.expected:11,.0f} tokens" if serving.kv_tokens else " " * 18
    if used is None:
        return " " * 27
    return f"{used.expected / GIB:7.1f} GiB {f'({used.low / GIB:.1f}–{used.high / GIB:.1f})':<15}"


def _notes(change: Change) -> Iterator[str]:
    serving = change.estimate.serving is not None
    if serving and not change.parts:
        yield change.words
    if change.cost:
        yield change.cost
    if (
        change.host is not None
        and change.host.expected > 0
        and any(fact.startswith("offload") for fact in change.facts)
    ):
        yield f"{change.host.expected / GIB:.1f} GiB of host memory on each node"
    if change.changes_training_result and not serving:
        yield "changes the training result"
    if change.verdict == "tight":
        yield "tight: not with the high end of the estimate"


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    # a key stays with its value
    bound = text.replace(": ", ":\u00a0")
    lines = wrap(bound, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _accelerators(item: JobFit, paint: Paint) -> Iterator[str]:
    fit = item.fit
    if not fit.accelerators and not fit.too_small:
        return
    yield ""
    what = (
        "GiB per GPU: expected, at most, usable" if item.job.kind == "train" else "KV tokens, requests of full length"
    )
    yield f"  fewest GPUs    {what}"
    width = max((len(on.gpu) for on in fit.accelerators), default=0)
    primary = item.job.documents[0] if item.job.documents else ""
    for on in fit.accelerators:
        number = f"{on.gpus_per_node} × {on.nodes} nodes" if on.nodes > 1 else f"{on.gpus_per_node}"
        words = [f"with {harmless(_with(on.change, primary))}"] if on.change is not None else []
        words += ["tight"] if on.verdict == "tight" else []
        words += [f"(has no {on.lacks})"] if on.lacks else []
        words += ["(stated)"] if on.stated else []
        yield f"{INDENT}{on.gpu:<{width}}  {number:<11} {_held(on)}  {'  '.join(words)}".rstrip()
    if fit.too_small:
        yield f"{INDENT}{paint('dim', 'too small: ' + ', '.join(fit.too_small))}"


def _held(on: OnAccelerator) -> str:
    serving, used = on.estimate.serving, on.estimate.memory.used
    if serving is not None and serving.kv_tokens is not None:
        return f"{serving.kv_tokens.expected:11,.0f} {serving.max_concurrency or 0:7.1f}"
    return f"{used.expected / GIB:6.1f} {used.high / GIB:6.1f} of {on.usable / GIB:5.1f}" if used else ""


def _with(change: Change, primary: str) -> str:
    """A row's settings in short: the words, which keys alone would make too long."""
    return change.settings_words(primary) if len(change.settings) == 1 else change.words


# Markdown ------------------------------------------------------------------------------------------------------------


def as_markdown(found: Sequence[JobFit]) -> str:
    """A table per job: for pull requests and job summaries."""
    lines: list[str] = []
    for item in found:
        fit, job = item.fit, item.job
        used = fit.base.memory.used
        span = f"{used.expected / GIB:.1f} GiB ({used.low / GIB:.1f}–{used.high / GIB:.1f}) per GPU, " if used else ""
        lines += ["" if lines else None, f"### `{cell(job.name)}`", "", f"{span}{SAYS.get(fit.base.memory.verdict)}"]  # type: ignore[list-item]
        lines += ["", *(f"- {cell(text.strip())}" for text in _answers(item))]
        shown = [c for c in (*fit.changes, *fit.stacked, *fit.spare) if c.verdict in FITTING]
        if shown:
            lines += ["", "| change | GiB per GPU | result | cost |", "| --- | ---: | --- | --- |"]
            for change in shown:
                need = f"{change.used.expected / GIB:.1f}" if change.used else ""
                result = "differs" if change.changes_training_result else "same"
                words = settings_words(change.settings) or change.words
                lines.append(f"| {cell(words)} | {need} | {result} | {cell(change.cost)} |")
        if fit.accelerators:
            lines += [
                "",
                "| accelerator | fewest | GiB per GPU | usable | with |",
                "| --- | ---: | ---: | ---: | --- |",
            ]
            for on in fit.accelerators:
                need = f"{on.estimate.memory.used.expected / GIB:.1f}" if on.estimate.memory.used else ""
                words = cell(on.change.words) if on.change else ""
                lines.append(f"| {cell(on.gpu)} | {on.gpus} | {need} | {on.usable / GIB:.1f} | {words} |")
    return "\n".join(line for line in lines if line is not None) + "\n"
