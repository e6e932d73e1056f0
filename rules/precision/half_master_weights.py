"""PRC011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer, scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Route

from .stated_precision import deepspeed_sections, on

KEYS = (("fp16", "fp16_master_weights_and_grads"), ("bf16", "bf16_master_weights_and_grads"))
ALL_STAGES_SINCE = "0.18"
"""First DeepSpeed minor release read that takes 16-bit masters with ZeRO 1 and 3 as well (0.17.6: stage 2 alone)."""


class HalfMasterWeights(Rule):
    """DeepSpeed is asked for 16-bit master weights without what they need.

    ``fp16_master_weights_and_grads`` and ``bf16_master_weights_and_grads`` need ZeRO and the optimizer on the CPU
    (DeepSpeedCPUAdam); bf16 masters may stay on the GPU where ``bf16_optimizer_states`` is on too, and that key needs bf16
    masters. DeepSpeed stops with an assertion when it reads the file or builds the optimizer.

    How sure: assertions of DeepSpeedConfig and of the ZeRO optimizers. Up to 0.17 only ZeRO stage 2 takes fp16 masters, so
    for stages 1 and 3 it is reported where such a release is pinned.
    """

    code = "PRC011"
    name = "half-master-weights"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/base_optimizer.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/config.py",
    )
    catalogue = ("ds.fp16-master-weights", "ds.bf16-master-weights-stage")
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
              "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}
            }
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 3},
              "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}
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
              "zero_optimization": {"stage": 0},
              "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}
            }
            """,
            at="fp16_master_weights_and_grads",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}
            }
            """,
            at="bf16_master_weights_and_grads",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true, "bf16_optimizer_states": true}
            }
            """,
            at="bf16_optimizer_states",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        version = context.version(reading, "deepspeed")
        for section in deepspeed_sections(reading):
            states = on(reading, *section, "bf16", "bf16_optimizer_states")
            if states and not on(reading, *section, "bf16", "bf16_master_weights_and_grads"):
                yield self.finding(
                    "bf16_optimizer_states needs bf16_master_weights_and_grads, which is off",
                    reading.origin(*section, "bf16", "bf16_optimizer_states"),
                    help="switch bf16_master_weights_and_grads on as well, or remove the key",
                )
                continue
            for half, key in KEYS:
                if on(reading, *section, half, key):
                    yield from self._masters(reading, section, half, key, states, version)

    def _masters(
        self, reading: Reading, section: Route, half: str, key: str, states: bool, version: str | None
    ) -> Iterator[Finding]:
        stage_value = scalar(reading.at(*section, "zero_optimization", "stage"))
        stage = integer(stage_value) if stage_value is not None else 0
        if stage is None:
            return
        where = reading.origin(*section, half, key)
        if stage == 0:
            yield self.finding(
                f"{key} needs ZeRO, which is off",
                where,
                (reading.origin(*section, "zero_optimization"), "ZeRO stage 0"),
                help="set zero_optimization.stage to 2 and offload the optimizer to the CPU, or remove the key",
            )
            return
        if half == "fp16" and stage != 2 and always_below(version, ALL_STAGES_SINCE):
            yield self.finding(
                f"{key} works with ZeRO stage 2 alone before DeepSpeed {ALL_STAGES_SINCE}, the stage is {stage}",
                where,
                (reading.origin(*section, "zero_optimization", "stage"), f"stage {stage}"),
                help="use stage 2, or remove the key",
            )
            return
        if not self._offloads(reading, section) and not (half == "bf16" and states):
            sure = half == "bf16" or bool(always_at_least(version, ALL_STAGES_SINCE)) or stage == 2
            yield self.finding(
                f"{key} needs the optimizer on the CPU, and offload_optimizer is not set to it",
                where,
                (reading.origin(*section, "zero_optimization"), "no optimizer offload"),
                help='set zero_optimization.offload_optimizer to {"device": "cpu"}, or remove the key',
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
            )

    def _offloads(self, reading: Reading, section: Route) -> bool:
        zero = (*section, "zero_optimization")
        if isinstance(reading.at(*zero, "offload_optimizer"), Mapping):
            device = scalar(reading.at(*zero, "offload_optimizer", "device"))
            return device is not None and device != "none"
        return on(reading, *zero, "cpu_offload")
