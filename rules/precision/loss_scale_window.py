"""PRC010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import deepspeed_sections, number_at, on


class LossScaleWindow(Rule):
    """The loss scale window is zero: DeepSpeed divides by it.

    With dynamic loss scaling the number of good steps is taken modulo ``loss_scale_window``. Zero ends with a
    ZeroDivisionError while training; recent releases refuse the file at the start.

    How sure: DynamicLossScaler.update_scale in every release read (0.8 to 0.19). Without effect, and not reported, where
    fp16 is off or ``loss_scale`` is fixed.
    """

    code = "PRC010"
    name = "loss-scale-window"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py",
    )
    catalogue = ("ds.loss-scale-window-zero",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 1000}
            }
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 128, "loss_scale_window": 0}
            }
            """,
            note="a fixed loss scale has no window",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 0}
            }
            """,
            at="loss_scale_window",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for section in deepspeed_sections(reading):
            window = number_at(reading, *section, "fp16", "loss_scale_window")
            fixed = (number_at(reading, *section, "fp16", "loss_scale") or 0) > 0
            if window == 0 and not fixed and on(reading, *section, "fp16", "enabled"):
                yield self.finding(
                    "loss_scale_window is 0: the dynamic loss scale divides by it",
                    reading.origin(*section, "fp16", "loss_scale_window"),
                    help="1000 is DeepSpeed's default",
                )
