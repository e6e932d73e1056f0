"""PAR015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings


class SummedGradientsWithZero3(Rule):
    """DeepSpeed's `gradient_allreduce_op: sum` is set with ZeRO stage 3, which only averages.

    DeepSpeed stops with "gradient_allreduce_op='sum' is not supported with ZeRO stage 3" when it reads the file.

    How sure: the check is in DeepSpeed's config.py (0.19.8); older releases do not know the key.
    """

    code = "PAR015"
    name = "summed-gradients-with-zero3"
    family = "parallel"
    severity = "error"
    catalogue = ("par.zero3-sum-op",)
    evidence = ("https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",)
    good = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}
            """,
            at="gradient_allreduce_op",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        settings = Settings(reading, ())
        operation = settings.value("gradient_allreduce_op")
        if not isinstance(operation, str) or operation.lower() != "sum":
            return
        if settings.integer("zero_optimization", "stage") != 3:
            return
        yield self.finding(
            "gradient_allreduce_op sum does not work with ZeRO stage 3: DeepSpeed stops with a ValueError",
            settings.fact("gradient_allreduce_op"),
            (settings.fact("zero_optimization", "stage"), "ZeRO stage 3"),
            help="leave the key out: gradients are averaged",
        )
