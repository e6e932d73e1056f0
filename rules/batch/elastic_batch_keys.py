"""BAT018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings
from .deepspeed_batch_identity import ACCUMULATION, MICRO, TOTAL

WITHOUT_FROM = "0.19.8"
"""First DeepSpeed release without elasticity; 0.19.7 has it still."""


class ElasticBatchKeys(Rule):
    """DeepSpeed's elastic training chooses the batch sizes, and the file states them as well.

    With `elasticity.enabled` DeepSpeed computes the batch from the GPUs at hand and raises an ElasticityConfigError where
    one of the batch keys stands in the file, unless `ignore_non_elastic_batch_info` is true.

    How sure: the check is in DeepSpeed's config.py from 0.8 to 0.19.7, and documented; 0.19.8 has no elasticity any more. It
    is an error where the version is known to be older, a warning where it is not known.
    """

    code = "BAT018"
    name = "elastic-batch-keys"
    family = "batch"
    severity = "error"
    catalogue = ("ds.elastic-with-batch",)
    evidence = (
        "https://www.deepspeed.ai/docs/config-json/",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/config.py",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4], "min_gpus": 1,
                "max_gpus": 64, "version": 0.1, "ignore_non_elastic_batch_info": true},
              "train_batch_size": 256,
              "zero_optimization": {"stage": 1}
            }
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4], "min_gpus": 1,
                "max_gpus": 64, "version": 0.1},
              "train_batch_size": 256,
              "zero_optimization": {"stage": 1}
            }
            """,
            at="train_batch_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        settings = Settings(reading, ())
        if settings.on("elasticity", "enabled") is not True:
            return
        if settings.on("elasticity", "ignore_non_elastic_batch_info"):
            return
        version = context.version(reading, "deepspeed")
        if always_at_least(version, WITHOUT_FROM):
            return
        old = always_below(version, WITHOUT_FROM) is True
        stated = [key for key in (TOTAL, MICRO, ACCUMULATION) if settings.has(key)]
        if not stated:
            return
        yield self.finding(
            f"{', '.join(stated)} beside elasticity, which chooses the batch: DeepSpeed stops with an "
            "ElasticityConfigError",
            *(settings.fact(key) for key in stated),
            (settings.fact("elasticity", "enabled"), "elastic training is on"),
            help="take the batch keys out, or set elasticity.ignore_non_elastic_batch_info",
            severity="error" if old else "warning",
            confidence="high" if old else "medium",
        )
