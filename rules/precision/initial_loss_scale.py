"""PRC007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint import fixes
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.rule import Parameter, Rule, example

from .stated_precision import deepspeed_sections, number_at, runs_in_fp16

DEFAULT_POWER = 16
"""DeepSpeed's ``initial_scale_power``."""


class InitialLossScale(Rule):
    """The loss scale starts so high that the first optimizer steps are all skipped.

    Dynamic loss scaling starts at 2^initial_scale_power and halves it with each step whose gradients overflow; such a step
    is skipped. fp16 ends at 65,504, just below 2^16, so from 2^32 about sixteen steps do nothing (one more for each unit
    of hysteresis), while the learning-rate schedule moves on: a warmup of a few steps is used up.

    How sure: DeepSpeed's DynamicLossScaler. Without effect where fp16 is off or ``loss_scale`` is fixed, and then nothing is
    said; with ``enabled: "auto"`` only where a job switches fp16 on.
    """

    code = "PRC007"
    name = "initial-loss-scale"
    family = "precision"
    severity = "warning"
    fixable = "unsafe"
    parameters = {
        "max_power": Parameter(20, "largest initial_scale_power that is not reported: four steps or so are skipped")
    }
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py",
    )
    catalogue = ("ds.initial-scale-power-high",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}
            }
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 32}
            }
            """,
            note="fp16 is not on, so there is no loss scale",
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 1024, "initial_scale_power": 32}
            }
            """,
            note="a fixed loss scale",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 32}
            }
            """,
            at="initial_scale_power",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for section in deepspeed_sections(reading):
            power = number_at(reading, *section, "fp16", "initial_scale_power")
            if not isinstance(power, int) or power <= self.options["max_power"]:
                continue
            if (number_at(reading, *section, "fp16", "loss_scale") or 0) > 0:
                continue
            if not runs_in_fp16(reading, (*section, "fp16", "enabled"), context):
                continue
            edit = fixes.replace_value(reading, (*section, "fp16", "initial_scale_power"), str(DEFAULT_POWER))
            yield self.finding(
                f"the loss scale starts at 2^{power}: about {power - DEFAULT_POWER} optimizer steps are skipped until "
                f"gradients fit into fp16 (2^{DEFAULT_POWER})",
                reading.origin(*section, "fp16", "initial_scale_power"),
                (reading.origin(*section, "fp16", "enabled"), "fp16"),
                help=f"{DEFAULT_POWER} is DeepSpeed's default",
                fixes=(Fix(f"start at 2^{DEFAULT_POWER}", (edit,), safe=False),) if edit else (),
                data={"skipped_steps": power - DEFAULT_POWER},
            )
