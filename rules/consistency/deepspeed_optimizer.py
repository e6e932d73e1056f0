"""CON002."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar, Sequence

from ..trainer import Settings, argument, argument_number, trainer_fact
from .mismatch import Mismatch, compared_settings, mismatch_finding

ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}
"""Defaults of transformers' ``TrainingArguments``."""


class DeepspeedOptimizerDiffers(Rule):
    """DeepSpeed's optimizer or warmup settings differ from the trainer's arguments.

    transformers compares `optimizer.params.lr`, `betas`, `eps` and `weight_decay`, and the scheduler's `warmup_max_lr`
    and `warmup_num_steps`, with its own arguments and stops with "Please correct the following DeepSpeed config values
    that mismatch TrainingArguments values". It does so after the model has been loaded.

    How sure: the comparison is in transformers' source (4.45 to 5.24) and exact, so 1e-5 and 2e-5 differ as much as 0 and
    1. `warmup_num_steps` is compared only where the trainer's number of warmup steps follows from its arguments. Where the
    trainer's side is a default and a script may set it in code, it is a warning.
    """

    code = "CON002"
    name = "deepspeed-optimizer-differs"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("ds.hf-lr-mismatch",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
        "https://github.com/huggingface/transformers/issues/29348",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                learning_rate: 1.0e-5
                warmup_ratio: 0.05
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "optimizer": {"type": "AdamW", "params": {"lr": 0.00001, "betas": [0.9, 0.999], "weight_decay": "auto"}},
                  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": 100}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="0.00001 is 1e-5; the trainer's warmup follows from the data's size, which no file says",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                learning_rate: 1.0e-5
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.999], "eps": 1e-8}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="lr",
            count=1,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                learning_rate: 1.0e-5
                warmup_steps: 50
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 100}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="warmup_num_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = compared_settings(job)
        if settings is None:
            return
        finding = mismatch_finding(self, job, settings, _mismatches(job, settings), "optimizer settings")
        if finding is not None:
            yield finding


def _mismatches(job: TrainingJob, settings: Settings) -> Iterator[Mismatch]:
    for route, fact_name, name in (
        (("optimizer", "params", "lr"), "learning_rate", "learning_rate"),
        (("optimizer", "params", "weight_decay"), "weight_decay", "weight_decay"),
        (("scheduler", "params", "warmup_max_lr"), "learning_rate", "learning_rate"),
    ):
        yield from _compared(settings, route, trainer_fact(job, fact_name), name)
    yield from _compared(settings, ("optimizer", "params", "eps"), _adam(job, "adam_epsilon"), "adam_epsilon")
    for i, name in enumerate(("adam_beta1", "adam_beta2")):
        if isinstance(settings.node("optimizer", "params", "betas"), Sequence):
            yield from _compared(settings, ("optimizer", "params", "betas", i), _adam(job, name), name)
    yield from _compared(settings, ("scheduler", "params", "warmup_num_steps"), _warmup_steps(job), "warmup steps")


def _compared(
    settings: Settings, route: tuple[str | int, ...], theirs: Fact[Any] | None, name: str
) -> Iterator[Mismatch]:
    node = settings.node(*route)
    mine = settings.number(*route)
    if theirs is None or mine is None or not isinstance(node, Scalar):
        return
    if mine != theirs.value:
        yield Mismatch(route, settings.fact(*route), theirs, name)


def _adam(job: TrainingJob, key: str) -> Fact[float] | None:
    if argument(job, key) is not None:
        return argument_number(job, key)
    return Fact(ADAM[key], DefaultOrigin("transformers"))


def _warmup_steps(job: TrainingJob) -> Fact[int] | None:
    """The trainer's warmup in steps; None where it depends on the data's size."""
    steps = argument_number(job, "warmup_steps")
    if steps is not None and steps.value >= 1:
        return Fact(int(steps.value), steps.origin)
    share = trainer_fact(job, "warmup_ratio")
    if share is None or not share.value:
        return None
    total = argument_number(job, "max_steps")
    if total is None or total.value < 1:
        return None
    return Fact(math.ceil(total.value * share.value), share.origin)
