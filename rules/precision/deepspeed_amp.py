"""PRC012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer, scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Route

from .stated_precision import deepspeed_sections, on

REMOVED_IN = "0.19.8"
"""First DeepSpeed release that refuses the section; 0.19.7 still takes it."""


class DeepspeedAmp(Rule):
    """DeepSpeed's Apex AMP section, which recent releases refuse and ZeRO never took.

    Up to 0.19.7 ``amp`` cannot be combined with ZeRO ("Amp and ZeRO are not currently compatible") nor with fp16 or bf16
    ("Cannot enable both amp with (legacy) fp16 or bfloat16 mode"). DeepSpeed 0.19.8 has removed Apex AMP and stops at the
    section, even where it is switched off.

    How sure: assertions of DeepSpeed's engine and configuration. An error where it is on together with ZeRO, fp16 or bf16,
    or a release without it is pinned; where only the release decides it is a warning.
    """

    code = "PRC012"
    name = "deepspeed-amp"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/engine.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
    )
    catalogue = ("ds.amp-with-zero",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true}
            }
            """,
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 4,
                  "zero_optimization": {"stage": 2},
                  "fp16": {"enabled": "auto"},
                  "amp": {"enabled": "auto", "opt_level": "auto"}
                }
                """,
                "requirements.txt": """
                deepspeed==0.16.9
                """,
            },
            note="transformers fills in what is auto; this release takes the section",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "amp": {"enabled": true, "opt_level": "O1"}
            }
            """,
            at="enabled",
            count=1,
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 4,
                  "zero_optimization": {"stage": 2},
                  "bf16": {"enabled": true},
                  "amp": {"enabled": false}
                }
                """,
                "requirements.txt": """
                deepspeed==0.19.8
                """,
            },
            at="amp",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        version = context.version(reading, "deepspeed")
        for section in deepspeed_sections(reading):
            if not isinstance(reading.at(*section, "amp"), Mapping):
                continue
            enabled = on(reading, *section, "amp", "enabled")
            if enabled:
                other = self._other(reading, section)
                if other is not None:
                    route, words = other
                    yield self.finding(
                        f"amp is on together with {words}: DeepSpeed takes one of them",
                        reading.origin(*section, "amp", "enabled"),
                        (reading.origin(*route), words),
                        help="remove amp and enable fp16 or bf16",
                    )
                    continue
            judged = self._release(version, enabled)
            if judged is not None:
                severity, confidence = judged
                yield self.finding(
                    f"DeepSpeed {REMOVED_IN} has removed Apex AMP and stops at the amp section",
                    reading.origin(*section, "amp"),
                    help="remove amp; enable fp16, bf16 or torch_autocast",
                    severity=severity,
                    confidence=confidence,
                )

    def _other(self, reading: Reading, section: Route) -> tuple[Route, str] | None:
        stage = integer(scalar(reading.at(*section, "zero_optimization", "stage")))
        if stage is not None and stage > 0:
            return (*section, "zero_optimization", "stage"), f"ZeRO stage {stage}"
        for half in ("fp16", "bf16"):
            if on(reading, *section, half, "enabled"):
                return (*section, half, "enabled"), half
        return None

    def _release(self, version: str | None, enabled: bool) -> tuple[Severity, Confidence] | None:
        if always_at_least(version, REMOVED_IN):
            return "error", "high"
        if always_below(version, REMOVED_IN) or not enabled:
            return None
        return "warning", "medium"
