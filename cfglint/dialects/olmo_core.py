"""OLMo-core's commands: a training script with overrides of its ``ExperimentConfig``, ``--train_module.optim.lr=3e-4``.

The model and most settings stand in the script, which is Python: only what the command overrides is known. Batches count tokens.
Under ``fsdp`` and ``hsdp`` parameters are fp32 and gathered in ``param_dtype``.

Names: OLMo-core 2 and 3 (``olmo_core/train/train_module/transformer/config.py``, ``olmo_core/internal/experiment.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch
from cfglint.dialects.carriers.command import Program, basename
from cfglint.dialects.interpolation import ResolvingReader
from cfglint.dialects.overrides import nested
from cfglint.dialects.values import integer, text
from cfglint.jobs.facts import DerivedOrigin, Reading
from cfglint.source.node import Mapping, Span
from cfglint.source.shell import Word

FRAMEWORK: Final = "olmo-core"
_OWN: Final = ("train_module.", "data_loader.", "dataset.", "trainer.", "model.", "launch.", "init_seed")
_TELLING: Final = ("train_module.", "data_loader.")
_STRATEGIES: Final = {"fsdp": "full_shard", "hsdp": "hybrid_shard", "ddp": "none"}


def _overrides(words: list[Word]) -> list[Word]:
    """``--a.b=c`` and ``a.b=c`` as ``a.b=c``."""
    found = []
    for word in words:
        text_of = word.text.removeprefix("--")
        if "=" in text_of and text_of.startswith(_OWN):
            raw = word.raw.removeprefix("--")
            shift = len(word.raw) - len(raw)
            span = Span(min(word.span.start + shift, word.span.end), word.span.end)
            found.append(Word(text_of, raw, span, word.known, word.quoted))
    return found


def _state_lengths(facts: ResolvingReader) -> None:
    """Sequences of a micro-batch and of a step, from their tokens."""
    place, length = ("train_module", "max_sequence_length"), None
    for route in (("dataset", "sequence_length"), place):
        value = facts.integer("sequence_length", route, low=1)
        if isinstance(value, int) and length is None:
            place, length = route, value
    for fact, route in (
        ("micro_batch_size", ("train_module", "rank_microbatch_size")),
        ("global_batch_size", ("data_loader", "global_batch_size")),
    ):
        tokens = integer(facts.value(*route))
        if tokens and length and tokens % length == 0:
            how = f"{'.'.join(route)} {tokens} tokens / {length}"
            facts.reading.facts.state(
                fact, tokens // length, DerivedOrigin(how, (facts.origin(*route), facts.origin(*place)))
            )


def _state_sharding(train: ResolvingReader) -> None:
    parallel = train.under("dp_config")
    kind = _STRATEGIES.get((text(parallel.value("name")) or "").lower())
    if kind is not None:
        parallel.state("fsdp", kind, "name")
        parallel.state("fsdp_version", 2, "name")
    parallel.dtype("compute_dtype", "param_dtype")
    for fact, key in (
        ("tensor_parallel_size", "tp_config"), ("context_parallel_size", "cp_config"), ("pipeline_parallel_size", "pp_config"),
        ("expert_parallel_size", "ep_config"),
    ):  # fmt: skip
        train.integer(fact, (key, "degree"), low=1)
    mode = text(train.value("ac_config", "mode"))
    if mode is not None:
        train.state("gradient_checkpointing", "full" if mode == "full" else "selective", "ac_config", "mode")


class OlmoCore(Dialect):
    name = "olmo-core"
    title = "OLMo-core"
    summary = "OLMo-core's training commands with overrides; its scripts are Python and not read"

    def read_program(self, started: Program, launch: Launch) -> Iterator[Reading]:
        words = _overrides(started.arguments)
        if not started.script or sum(word.text.startswith(_TELLING) for word in words) < 1 or len(words) < 2:
            return
        everything = [started.word, *started.arguments]
        span = Span(min(w.span.start for w in everything), max(w.span.end for w in everything))
        root: Mapping = nested(words, span)
        script = basename(started.name)
        reading = Reading(self.name, launch.document, root, why=f"{script} with overrides", framework=FRAMEWORK)
        reading.context["standalone"] = True
        facts = ResolvingReader(reading)
        reading.facts.state("framework", FRAMEWORK, reading.origin())
        _state_lengths(facts)
        train = facts.under("train_module")
        _state_sharding(train)
        train.number("learning_rate", ("optim", "lr"), low=0)
        train.number("weight_decay", ("optim", "weight_decay"), low=0)
        train.number("max_grad_norm", "max_grad_norm", low=0)
        train.boolean("compile", "compile_model")
        train.integer("warmup_steps", ("scheduler", "warmup"), ("scheduler", "warmup_steps"), low=0)
        duration = facts.under("trainer", "max_duration")
        if text(duration.value("unit")) == "steps":
            duration.integer("max_steps", "value", low=1)
        yield reading


DIALECT = OlmoCore()
