"""What an editor shows over a key or value: the value in force and where it comes from, every other statement of the
same fact, what the framework says of the key, and what the job needs for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lsprotocol.types import Hover, MarkupContent, MarkupKind

from cfglint.dialects.recognise import dialect_named
from cfglint.dialects.schema import KeyInfo, Schema, load_schema, type_in_words
from cfglint.editor.diagnostics import View
from cfglint.estimate.result import GIB, Estimate, Interval
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, DerivedOrigin, Fact, FileOrigin, Origin, Reading
from cfglint.jobs.job import Job
from cfglint.lint.context import Context
from cfglint.source.node import Entry, Mapping, Node, Route, Scalar, Sequence, SourceFile, Span

MEMORY_FACTS: Final = frozenset({
    "model_id", "method", "quantization", "micro_batch_size", "sequence_length", "packing", "gradient_checkpointing",
    "attention", "loss_kernel", "optimizer", "weight_dtype", "compute_dtype", "master_weights", "zero_stage", "fsdp",
    "fsdp_version", "offload_optimizer", "offload_parameters", "lora_rank", "lora_targets", "lora_modules_to_save",
    "tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "expert_parallel_size",
    "data_parallel_size", "gpu", "gpus_per_node", "nodes", "dtype", "kv_cache_dtype", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "mem_fraction_static", "enforce_eager",
    "cpu_offload_gb", "block_size",
})  # fmt: skip
"""Facts over which the memory of a job is shown."""
BATCH_FACTS: Final = frozenset({"micro_batch_size", "gradient_accumulation_steps", "global_batch_size"})

MOST_JOBS: Final = 3
"""Jobs spelled out; a DeepSpeed file may belong to many."""
MOST_VALUE_CHARACTERS: Final = 80
MOST_CHOICES: Final = 12


@dataclass(frozen=True, slots=True)
class Markup:
    """Markdown, or plain text for clients that show no other."""

    view: View
    markdown: bool = True

    def strong(self, text: str) -> str:
        return f"**{self.code(text)}**" if self.markdown else text

    def code(self, text: str) -> str:
        """``text`` as code; a backtick inside cannot end it."""
        if not self.markdown:
            return text
        fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
        pad = " " if "`" in text else ""
        return f"{fence}{pad}{text}{pad}{fence}"

    def text(self, text: str) -> str:
        return _escaped(text) if self.markdown else text

    def link(self, origin: FileOrigin) -> str:
        if not self.markdown:
            return origin.describe()
        return f"[{_escaped(origin.describe())}]({self.view.uri(origin.document.path)}#L{origin.position.line})"

    def join(self, blocks: list[list[str]]) -> str:
        """Blocks of lines, an empty line between them."""
        line_end = "  \n" if self.markdown else "\n"
        return "\n\n".join(line_end.join(block) for block in blocks if block)


def hover(view: View, path: str, offset: int, *, markdown: bool = True) -> Hover | None:
    """What is to be said at an offset of a file, or None."""
    result, file = view.analysis.result, view.analysis.files.get(path)
    if result is None or file is None:
        return None
    markup = Markup(view, markdown)
    found = [
        (reading, *hit)
        for reading in result.context.readings
        if reading.document.file is file
        for hit in (entry_at(reading.root, offset),)
        if hit is not None
    ]
    key_span = found[0][2].key.span if found else None
    statements = list(_stated_at(result.context, file, offset, key_span))
    if not found and not statements:
        return None
    blocks = [_title(markup, found, statements), *_facts(markup, result.context, statements, file)]
    blocks.extend(_schema_block(markup, result.context, reading, route) for reading, route, _ in found)
    blocks = [block for i, block in enumerate(blocks) if block and block not in blocks[:i]]
    span = _shown_span(found, statements)
    kind = MarkupKind.Markdown if markdown else MarkupKind.PlainText
    return Hover(MarkupContent(kind, markup.join(blocks)), view.range(file, span))


def entry_at(root: Node, offset: int) -> tuple[Route, Entry] | None:
    """The key (with its route from ``root``) that stands at an offset, or whose scalar value or list item does."""
    stack: list[tuple[Route, Node]] = [((), root)]
    seen: set[int] = set()
    while stack:
        route, node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Sequence):
            stack.extend(((*route, i), item) for i, item in enumerate(node.items))
        elif isinstance(node, Mapping):
            for entry in node.entries:
                here = (*route, entry.name)
                if not entry.merged and (_holds(entry.key.span, offset) or _value_holds(entry.value, offset)):
                    return here, entry
                stack.append((here, entry.value))
    return None


def _holds(span: Span, offset: int) -> bool:
    return span.start <= offset <= span.end


def _value_holds(value: Node, offset: int) -> bool:
    if isinstance(value, Sequence):
        return any(isinstance(item, Scalar) and _holds(item.span, offset) for item in value.items)
    return isinstance(value, Scalar) and _holds(value.span, offset)


_Hit = tuple[Reading, Route, Entry]
_Stated = tuple[Job, str, Fact[Any]]


def _stated_at(context: Context, file: SourceFile, offset: int, key_span: Span | None) -> Iterator[_Stated]:
    """Facts stated by the key at ``key_span``; where there is no such key (a cfglint comment), those stated at the offset."""
    for job in context.jobs:
        for name in job.names():
            for fact in job.statements(name):
                origin = fact.origin
                if not isinstance(origin, FileOrigin) or origin.document.file is not file:
                    continue
                if key_span is None:
                    here = (
                        _holds(Span(origin.key_span.start, origin.value_span.end), offset)
                        and "\n" not in file.text[origin.key_span.start : origin.value_span.end]
                    )
                else:
                    here = origin.key_span == key_span
                if here:
                    yield job, name, fact


def _title(markup: Markup, found: list[_Hit], statements: list[_Stated]) -> list[str]:
    if not found:
        return [markup.strong(", ".join(dict.fromkeys(name for _, name, _ in statements)))]
    reading, route, entry = found[0]
    dialect = dialect_named(reading.dialect)
    last = reading.entry(*route)
    lost = last is not None and last is not entry and last.key.span != entry.key.span
    again = reading.document.file.position(last.key.span.start).line if last is not None else 0
    title = markup.strong(".".join(str(step) for step in route))
    value = f" = {markup.code(_value(entry.value.value))}" if isinstance(entry.value, Scalar) else ""
    about = markup.text(dialect.title if dialect and dialect.title else reading.dialect)
    return [f"{title}{value} · {about}", *([f"not in force: the key stands again on line {again}"] if lost else [])]


def _facts(markup: Markup, context: Context, statements: list[_Stated], file: SourceFile) -> Iterator[list[str]]:
    """One block for each fact and job; jobs that say the same share one."""
    blocks: dict[tuple[str, ...], list[str]] = {}
    told: set[tuple[str, str]] = set()
    for job, name, here in statements:
        # several facts may hang on one key: what the job needs is said once
        needs = [line for line in _memory(markup, context, job, name) if (job.name, line) not in told]
        told.update((job.name, line) for line in needs)
        lines = [*_in_force(markup, job, name, here), *needs]
        blocks.setdefault((name, *lines), []).append(job.name)
    for said, jobs in list(blocks.items())[:MOST_JOBS]:
        shown = ", ".join(markup.code(job) for job in dict.fromkeys(jobs[:MOST_JOBS]))
        more = f" and {len(jobs) - MOST_JOBS} more" if len(jobs) > MOST_JOBS else ""
        yield [f"{markup.code(said[0])} of {shown}{more}: {said[1]}", *said[2:]]
    if len(blocks) > MOST_JOBS:
        yield [f"and {len(blocks) - MOST_JOBS} more jobs"]


def _in_force(markup: Markup, job: Job, name: str, here: Fact[Any]) -> list[str]:
    winner = job.fact(name)
    lines: list[str] = []
    if winner is None:
        lines.append("stated, but not known here")
    elif winner is here or _same_place(winner.origin, here.origin):
        lines.append(f"{markup.code(_value(winner.value))} is in force, from this line")
    else:
        lines.append(f"{markup.code(_value(winner.value))} is in force, {_origin(markup, winner)}")
    others = [f for f in job.statements(name) if f is not winner and not (winner is None and f is here)]
    if others:
        said = (
            f"{markup.code(_value(f.value))} "
            + ("from this line" if _same_place(f.origin, here.origin) else _origin(markup, f))
            for f in others
        )
        lines.append(f"also stated: {'; '.join(dict.fromkeys(said))}")
    return lines


def _same_place(a: Origin, b: Origin) -> bool:
    return (
        isinstance(a, FileOrigin)
        and isinstance(b, FileOrigin)
        and a.document.file is b.document.file
        and a.key_span == b.key_span
    )


def _origin(markup: Markup, fact: Fact[Any]) -> str:
    origin = fact.origin
    if isinstance(origin, FileOrigin):
        words = f"from {markup.link(origin)}"
    elif isinstance(origin, DerivedOrigin):
        words = f"worked out: {markup.text(origin.describe())}"
    else:
        words = f"from {markup.text(origin.describe())}"
        if isinstance(origin, DefaultOrigin) and origin.note:
            words += f" ({markup.text(origin.note)})"
    return words if fact.certain else f"{words} (a sole neighbour in the folder, taken to belong here)"


def _memory(markup: Markup, context: Context, job: Job, name: str) -> list[str]:
    try:
        estimate = context.estimate(job)
        return [markup.text(line) for line in estimate_lines(job, estimate, name)]
    except Exception:
        # a hover says less, it never fails: estimates have their own tests, and `cfglint estimate` shows the fault
        return []


def estimate_lines(job: Job, estimate: Estimate, name: str) -> list[str]:
    """What a job's estimate says that has to do with one of its facts."""
    lines: list[str] = []
    parts = [part for part in estimate.memory.components if name in part.fact_names]
    if parts or name in MEMORY_FACTS:
        lines.extend(_memory_line(job, estimate))
        lines.extend(f"of it {part.name} {_gib(part.bytes)}: {part.formula}" for part in parts[:MOST_JOBS])
    batch = estimate.batch
    if name in BATCH_FACTS and batch.sequences is not None:
        sizes = (batch.micro_batch, batch.gradient_accumulation, batch.data_parallel)
        working = " × ".join(str(size) for size in sizes) + " = " if None not in sizes else ""
        tokens = f", {batch.tokens:,} tokens" if batch.tokens is not None else ""
        lines.append(f"effective batch {working}{batch.counted}{tokens}")
    return lines


def _memory_line(job: Job, estimate: Estimate) -> Iterator[str]:
    memory, serving = estimate.memory, estimate.serving
    used = memory.used or memory.reserved or memory.allocated
    if used is not None:
        sizes = [accelerator.usable_bytes for accelerator in job.hardware.candidates]
        of = f" of {_between(Interval(min(sizes), 0, max(sizes)))}" if sizes else ""
        gpu = f" ({job.hardware.name})" if job.hardware.name else ""
        unknown = [*memory.missing, *([] if sizes else ["gpu"])]
        missing = f"; not known: {', '.join(unknown)}" if unknown else ""
        yield f"memory per GPU {_between(used)}{of}{gpu}{f': {memory.verdict}' if sizes else ''}{missing}"
    elif memory.missing:
        yield f"memory per GPU unknown; not known: {', '.join(memory.missing)}"
    if serving is not None and serving.kv_cache is not None:
        tokens = f", {round(serving.kv_tokens.expected):,} tokens" if serving.kv_tokens is not None else ""
        yield f"KV cache {_between(serving.kv_cache)}{tokens}"


def _between(interval: Interval) -> str:
    low, high = f"{interval.low / GIB:.1f}", f"{interval.high / GIB:.1f}"
    return f"{low} GiB" if low == high else f"{low}–{high} GiB"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _schema_block(markup: Markup, context: Context, reading: Reading, route: Route) -> list[str]:
    schema = schema_of(reading)
    info = schema.key(*route) if schema is not None else None
    if schema is None or info is None:
        return []
    owner = schema.owner_of(str(route[0])) or schema
    version = context.version(reading, owner.framework)
    return [line for line in _key_lines(markup, owner, info, schema, route, version) if line]


def schema_of(reading: Reading) -> Schema | None:
    """The key table of a reading's format, that of its trainer where the format has several; None where there is none."""
    dialect = dialect_named(reading.dialect)
    name = dialect.schema if dialect is not None and dialect.schema else reading.dialect
    trainer = reading.context.get("trainer")
    for variant in ([trainer] if isinstance(trainer, str) else []), [None]:
        try:
            return load_schema(name, *variant)
        except KeyError:
            continue
    return None


def _key_lines(
    markup: Markup, owner: Schema, info: KeyInfo, schema: Schema, route: Route, version: str | None
) -> Iterator[str]:
    about = [] if info.type == "any" else [type_in_words(info.type)]
    default = schema.default(route, version)
    if default is not None:
        held = f" in {owner.framework} {default[1]}" if default[1] else ""
        about.append(f"default {markup.code(_value(default[0]))}{markup.text(held)}")
    if info.required:
        about.append("required")
    yield ", ".join(about)
    choices = info.choices_in(version)
    if choices:
        more = f" … ({len(choices)} values)" if len(choices) > MOST_CHOICES else ""
        yield f"one of {', '.join(markup.code(choice) for choice in choices[:MOST_CHOICES])}{more}"
    life = [
        f"{word} {owner.framework} {release}"
        for word, release in (
            ("since", info.since),
            ("deprecated in", info.deprecated_in),
            ("removed in", info.removed_in),
        )
        if release
    ]
    yield markup.text(", ".join(life))
    if info.renamed_to:
        yield f"use {markup.code(info.renamed_to)}"
    yield markup.text(info.note)


def _shown_span(found: list[_Hit], statements: list[_Stated]) -> Span:
    if found:
        entry = found[0][2]
        end = entry.value.span.end if isinstance(entry.value, Scalar) else entry.key.span.end
        return Span(entry.key.span.start, max(entry.key.span.end, end))
    origin = statements[0][2].origin
    assert isinstance(origin, FileOrigin)
    return Span(origin.key_span.start, origin.value_span.end)


def _value(value: object) -> str:
    if value is UNKNOWN:
        return "unknown"
    if isinstance(value, (str, bool, list, dict, type(None))):
        text = (
            value
            if isinstance(value, str) and value.isprintable()
            else json.dumps(value, ensure_ascii=False, default=str)
        )
    else:
        text = str(value)
    return text if len(text) <= MOST_VALUE_CHARACTERS else text[: MOST_VALUE_CHARACTERS - 1] + "…"


def _escaped(text: str) -> str:
    """Text whose characters mean nothing in Markdown."""
    return re.sub(r"[\\`*{}\[\]<>#|~]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
