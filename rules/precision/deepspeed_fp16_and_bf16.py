"""PRC005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .stated_precision import deepspeed_sections, on


class DeepspeedFp16AndBf16(Rule):
    """DeepSpeed's fp16 and bf16 are both enabled.

    DeepSpeed stops with "bfloat16 and fp16 modes cannot be simultaneously enabled" when it reads the file.

    How sure: an assertion of DeepSpeedConfig in every release from 0.8 to 0.19. ``"auto"`` is no value here: transformers
    fills it in, and enables one of them.
    """

    code = "PRC005"
    name = "deepspeed-fp16-and-bf16"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/config.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
    )
    catalogue = ("ds.fp16-bf16-both",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": "auto",
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": "auto"},
              "bf16": {"enabled": "auto"}
            }
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": false, "loss_scale": 0},
              "bf16": {"enabled": true}
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
              "fp16": {"enabled": true},
              "bf16": {"enabled": true}
            }
            """,
            at="enabled",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for section in deepspeed_sections(reading):
            # DeepSpeed looks at the old name only where the new one is absent
            brain = "bf16" if isinstance(reading.at(*section, "bf16"), Mapping) else "bfloat16"
            if on(reading, *section, "fp16", "enabled") and on(reading, *section, brain, "enabled"):
                yield self.finding(
                    f"fp16 and {brain} are both enabled: DeepSpeed takes one of them",
                    reading.origin(*section, "fp16", "enabled"),
                    (reading.origin(*section, brain, "enabled"), "also enabled"),
                    help=f"keep {brain} where the accelerator has bf16 (Ampere and later), else fp16",
                )
