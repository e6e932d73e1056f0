"""When a run of transformers' trainer saves and evaluates, from its arguments and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob

from ..trainer import argument, argument_number, trainer_readings, word

DEFAULT_STEPS = 500
"""``save_steps`` and ``logging_steps`` of ``TrainingArguments``; ``eval_steps`` falls back to ``logging_steps``."""

WITH_TRANSFORMERS_KEYS = ("hf-training-args", "trl", "llamafactory")
"""Dialects whose files spell these arguments as transformers does. Axolotl has a scheme of its own."""


@dataclass(frozen=True)
class Interval:
    """``strategy``: ``no``, ``steps``, ``epoch`` or ``best``. ``steps`` below 1 is a share of the run."""

    strategy: str
    strategy_fact: Fact[Any]
    steps: float
    steps_fact: Fact[Any]

    @property
    def stated(self) -> bool:
        return not isinstance(self.strategy_fact.origin, DefaultOrigin)


def applies(job: TrainingJob) -> bool:
    readings = trainer_readings(job)
    return bool(readings) and all(r.dialect in WITH_TRANSFORMERS_KEYS for r in readings)


def saving(job: TrainingJob) -> Interval | None:
    """When checkpoints are written; None where it is not known."""
    return _interval(job, ("save_strategy",), "steps", ("save_steps",))


def evaluating(job: TrainingJob) -> Interval | None:
    """When the model is evaluated; None where it is not known."""
    return _interval(job, ("eval_strategy", "evaluation_strategy"), "no", ("eval_steps", "logging_steps"))


def _interval(job: TrainingJob, keys: tuple[str, ...], default: str, step_keys: tuple[str, ...]) -> Interval | None:
    stated = argument(job, *keys)
    name = default if stated is None else word(stated)
    if name not in ("no", "steps", "epoch", "best"):
        return None
    strategy = stated or Fact(default, DefaultOrigin("transformers"))
    steps: Fact[Any] = Fact(float(DEFAULT_STEPS), DefaultOrigin("transformers"))
    for key in step_keys:
        written = argument(job, key)
        if written is None or written.value == 0:
            continue
        number = argument_number(job, key)
        if number is None or is_unknown(written.value) or number.value < 0:
            return None
        steps = number
        break
    return Interval(name, strategy, float(steps.value), steps)
