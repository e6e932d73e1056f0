"""PRC008."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import deepspeed_sections, number_at, runs_in_fp16

STUDIED: Final = 128
"""A fixed scale from here on is one that recipes of the time of static scaling used."""


class StaticLossScale(Rule):
    """The loss scale is fixed, so it does not follow the gradients.

    With ``loss_scale`` above zero DeepSpeed never changes it: gradients below the smallest fp16 value divided by it are
    lost, and steps that overflow are skipped for as long as they do. Zero means that the scale is found while training.

    How sure: DeepSpeed's documentation of the key. A fixed scale of 128 and more may come from a study of this very model and
    is for a strict reader; a smaller one is often set to be rid of "Current loss scale already at minimum", and leaves the
    steps that overflow out.
    """

    code = "PRC008"
    name = "static-loss-scale"
    family = "precision"
    severity = "info"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py",
        "https://github.com/hiyouga/LlamaFactory/issues/315",
    )
    catalogue = ("ds.static-loss-scale",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0}
            }
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 8}
            }
            """,
            at="loss_scale",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for section in deepspeed_sections(reading):
            scale = number_at(reading, *section, "fp16", "loss_scale")
            if scale is not None and scale > 0 and runs_in_fp16(reading, (*section, "fp16", "enabled"), context):
                finding = self.finding(
                    f"the loss scale stays at {scale:g}: it follows neither overflow nor underflow",
                    reading.origin(*section, "fp16", "loss_scale"),
                    help="0 lets DeepSpeed find it while training",
                )
                if scale >= STUDIED:
                    finding.persona = "strict"
                yield finding
