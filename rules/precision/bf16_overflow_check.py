"""PRC016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .stated_precision import deepspeed_sections, off, on

DEFAULT_ON_SINCE = "0.19.3"
"""First DeepSpeed release whose ``bf16.check_grad_overflow`` is on by default."""


class Bf16OverflowCheck(Rule):
    """DeepSpeed does not look for inf and NaN in bf16 gradients.

    fp16 steps with bad gradients are skipped by the loss scaler. bf16 has none, and with ``check_grad_overflow`` off one
    batch that gives inf or NaN is written into the weights and stays there. It is off by default before DeepSpeed 0.19.3.

    How sure: DeepSpeed's source. The check costs a little time, and most runs never need it, so this is information. Where no
    release is stated and the file does not name the switch, nothing is said.
    """

    code = "PRC016"
    name = "bf16-overflow-check"
    family = "precision"
    severity = "info"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/pull/8035",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py",
    )
    catalogue = ("ds.bf16-overflow-check-off",)
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
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true, "check_grad_overflow": false}
            }
            """,
            at="check_grad_overflow",
            count=1,
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 2,
                  "zero_optimization": {"stage": 1},
                  "bf16": {"enabled": true}
                }
                """,
                "requirements.txt": "deepspeed==0.16.9",
            },
            at="enabled",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        old = always_below(context.version(reading, "deepspeed"), DEFAULT_ON_SINCE)
        for section in deepspeed_sections(reading):
            half = (*section, "bf16")
            if not isinstance(reading.at(*half), Mapping) or not on(reading, *half, "enabled"):
                continue
            stated = off(reading, *half, "check_grad_overflow")
            if stated or (old and reading.at(*half, "check_grad_overflow") is None):
                yield self.finding(
                    "a batch with inf or NaN gradients is written into the weights: check_grad_overflow is off"
                    + ("" if stated else f" by default before DeepSpeed {DEFAULT_ON_SINCE}"),
                    reading.origin(*half, "check_grad_overflow" if stated else "enabled"),
                    help="switch bf16.check_grad_overflow on",
                )
