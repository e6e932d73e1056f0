"""PRC009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example

from .stated_precision import deepspeed_sections, number_at, off, on

TYPED_SINCE = "0.17.6"
"""First DeepSpeed release read whose ``min_loss_scale`` is a typed integer (0.16.9 takes any number)."""
UNTYPED_UNTIL = "0.17"


class MinimumLossScale(Rule):
    """The smallest loss scale is not a whole number above zero.

    DeepSpeed reads ``min_loss_scale`` as an integer since 0.17: 0.5 or 1e-10 ends with a validation error, even where fp16 is
    off. Earlier releases take it, and then the loss scale falls below 1, where gradients are scaled down and vanish: the
    stop at "Current loss scale already at minimum" is only put off. A run that needs less than 1 overflows in its
    activations, which no loss scale helps against.

    How sure: an error where a release with the typed field is pinned; a warning where the release is not known, or takes
    it and fp16 is on.
    """

    code = "PRC009"
    name = "minimum-loss-scale"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py",
        "https://github.com/ymcui/Chinese-LLaMA-Alpaca/issues/534",
        "https://github.com/hiyouga/LlamaFactory/issues/986",
    )
    catalogue = ("ds.min-loss-scale-fraction",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0, "min_loss_scale": 1}
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
              "fp16": {"enabled": "auto", "loss_scale": 0, "min_loss_scale": 1e-10}
            }
            """,
            at="min_loss_scale",
            count=1,
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 4,
                  "zero_optimization": {"stage": 2},
                  "bf16": {"enabled": true},
                  "fp16": {"enabled": false, "min_loss_scale": 0.5}
                }
                """,
                "requirements.txt": """
                deepspeed==0.19.8
                """,
            },
            at="min_loss_scale",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        version = context.version(reading, "deepspeed")
        for section in deepspeed_sections(reading):
            route = (*section, "fp16", "min_loss_scale")
            value = number_at(reading, *route)
            if value is None:
                continue
            fraction = not float(value).is_integer()
            if not fraction and value > 0:
                continue
            possible = on(reading, *section, "fp16", "enabled") or is_unknown(
                scalar(reading.at(*section, "fp16", "enabled"))
            )
            judged = self._judge(version, fraction, possible, off(reading, *section, "fp16", "enabled"))
            if judged is None:
                continue
            severity, confidence = judged
            effect = (
                "DeepSpeed 0.17 and later take whole numbers only"
                if fraction and not always_below(version, UNTYPED_UNTIL)
                else "below 1 gradients are scaled down and vanish"
            )
            yield self.finding(
                f"min_loss_scale is {value:g}: {effect}",
                reading.origin(*route),
                help="use 1; a run that reaches it overflows in its activations: use bf16 or fp32",
                severity=severity,
                confidence=confidence,
            )

    def _judge(
        self, version: str | None, fraction: bool, possible: bool, off: bool
    ) -> tuple[Severity, Confidence] | None:
        if fraction and always_at_least(version, TYPED_SINCE):
            return "error", "high"
        if fraction and not always_below(version, UNTYPED_UNTIL):
            return ("info" if off else "warning"), "medium"
        return ("warning", "medium") if possible else None
