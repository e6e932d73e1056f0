"""REP004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer, number
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example


class EarlyStopping(Rule):
    """Axolotl's `early_stopping_patience` without `save_steps` and `eval_steps` that go together.

    Its schema raises "`early_stopping_patience` requires save_steps and eval_steps to be set" and "requires that eval_steps
    should evenly divide save_steps"; ``saves_per_epoch`` and ``evals_per_epoch`` are turned into steps only later.

    How sure: a check of Axolotl's schema, read in 0.19.
    """

    code = "REP004"
    name = "early-stopping"
    family = "reproducibility"
    severity = "warning"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",)
    catalogue = ("repro.early-stopping-steps",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            early_stopping_patience: 3
            eval_steps: 50
            save_steps: 100
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            early_stopping_patience: 3
            evals_per_epoch: 4
            saves_per_epoch: 1
            """,
            at="early_stopping_patience",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            early_stopping_patience: 3
            eval_steps: 30
            save_steps: 100
            """,
            at="eval_steps",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl" or not integer(reading.value("early_stopping_patience")):
            return
        saves, evaluations = number(reading.value("save_steps")), number(reading.value("eval_steps"))
        # early releases checked less: without a stated one this is no certainty
        severity: Severity = "error" if context.version(reading, "axolotl") else "warning"
        missing = [key for key in ("save_steps", "eval_steps") if not reading.value(key)]
        if missing:
            yield self.finding(
                f"early_stopping_patience needs {' and '.join(missing)}",
                reading.origin("early_stopping_patience"),
                help="state save_steps and eval_steps, the first a multiple of the second",
                severity=severity,
            )
        elif saves and evaluations and saves % evaluations:
            yield self.finding(
                f"eval_steps {evaluations:g} does not divide save_steps {saves:g}",
                reading.origin("eval_steps"),
                (reading.origin("save_steps"), "saved here"),
                help="with early_stopping_patience every save needs its evaluation",
                severity=severity,
            )
