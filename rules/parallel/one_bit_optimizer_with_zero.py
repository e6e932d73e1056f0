"""PAR014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings

ONE_BIT = {"onebitadam": "1-bit Adam", "zerooneadam": "0/1 Adam", "onebitlamb": "1-bit LAMB"}
GONE_BY = "0.19"
"""0.19.8 has no such optimizers any more."""


class OneBitOptimizerWithZero(Rule):
    """A 1-bit optimizer is combined with ZeRO, which DeepSpeed refuses.

    These optimizers compress the gradients they exchange themselves, ZeRO reduces them by shard. The engine asserts
    "1bit-Adam is not compatible with ZeRO" when it makes the optimizer.

    How sure: the assertion stands in DeepSpeed's engine.py of the releases before 0.19; newer ones do not have the
    optimizers at all. It is an error for a known older version, else a warning.
    """

    code = "PAR014"
    name = "one-bit-optimizer-with-zero"
    family = "parallel"
    severity = "error"
    catalogue = ("par.onebit-zero",)
    evidence = ("https://www.deepspeed.ai/docs/config-json/",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 16,
              "optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4}},
              "fp16": {"enabled": true},
              "steps_per_print": 100
            }
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 16,
              "optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4}},
              "fp16": {"enabled": true},
              "zero_optimization": {"stage": 1}
            }
            """,
            at="type",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        settings = Settings(reading, ())
        kind = settings.value("optimizer", "type")
        name = ONE_BIT.get(kind.strip().lower()) if isinstance(kind, str) else None
        stage = settings.integer("zero_optimization", "stage")
        if name is None or stage is None or stage < 1:
            return
        old = always_below(context.version(reading, "deepspeed"), GONE_BY)
        yield self.finding(
            f"{name} does not work with ZeRO stage {stage}: DeepSpeed stops with an assertion",
            settings.fact("optimizer", "type"),
            (settings.fact("zero_optimization", "stage"), f"ZeRO stage {stage}"),
            help="use AdamW, or take zero_optimization out",
            severity="error" if old else "warning",
            confidence="high" if old else "medium",
        )
