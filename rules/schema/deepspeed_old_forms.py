"""SCH014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar

LEGACY_GONE_SINCE = "0.5.9"
"""First DeepSpeed release without the old ZeRO stage 1."""


class DeepspeedOldForms(Rule):
    """A DeepSpeed file is written in a form of early releases.

    `zero_optimization: true` means stage 1, and DeepSpeed logs that the form is deprecated. `bfloat16` is the old name of
    `bf16`; where both sections stand in a file the old one is passed over. `legacy_stage1` ends in an exception: "The
    deprecated version of ZeRO Stage 1 is not supported in deepspeed >= 0.5.9".

    How sure: DeepSpeed's source (0.8 to 0.19). The first two still work, so they are information for a strict reader.
    """

    code = "SCH014"
    name = "deepspeed-old-forms"
    family = "schema"
    severity = "error"
    persona = "default"
    catalogue = ("ds.deprecated-zero-bool", "ds.deprecated-bfloat16", "ds.legacy-stage1")
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/config.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
    )
    good = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "bfloat16": {"enabled": true}, "zero_optimization": {"stage": 1}}
            """,
            at="bfloat16",
            count=1,
        ),
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 10, "zero_optimization": true}
            """,
            at="zero_optimization",
            count=1,
        ),
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1, "legacy_stage1": true}}
            """,
            at="legacy_stage1",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        zero = reading.at("zero_optimization")
        if isinstance(zero, Scalar) and isinstance(zero.value, bool):
            yield self._old(
                reading,
                "zero_optimization",
                f"zero_optimization: {'true' if zero.value else 'false'} is the old form of stage {int(zero.value)}",
                f'"zero_optimization": {{"stage": {int(zero.value)}}}',
            )
        if isinstance(reading.at("bfloat16"), Mapping):
            beside = isinstance(reading.at("bf16"), Mapping)
            message = "bfloat16 is passed over: bf16 stands beside it" if beside else "bfloat16 is the old name of bf16"
            yield self._old(reading, "bfloat16", message, "remove it" if beside else "rename it to bf16")
        if boolean(reading.value("zero_optimization", "legacy_stage1")) is True:
            stated = context.version(reading, "deepspeed")
            if not always_below(stated, LEGACY_GONE_SINCE):
                severity: Severity = "warning" if stated is None else "error"
                yield self.finding(
                    f"legacy_stage1 is refused since DeepSpeed {LEGACY_GONE_SINCE}",
                    reading.origin("zero_optimization", "legacy_stage1"),
                    help="remove it",
                    severity=severity,
                )

    def _old(self, reading: Reading, key: str, message: str, help: str) -> Finding:
        finding = self.finding(message, reading.origin(key), help=help, severity="info")
        finding.persona = "strict"
        return finding
