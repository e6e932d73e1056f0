"""BAT012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..trainer import argument_number, shown, trainer_readings


class WarmupTwice(Rule):
    """Both `warmup_steps` and `warmup_ratio` are set; only the steps count.

    transformers takes `warmup_steps` wherever it is above 0 and mentions it at log level info, so the share that a reader
    sees in the file is not what is run. Axolotl refuses the pair: "warmup_steps and warmup_ratio are mutually exclusive".

    How sure: read in transformers 4.57 (training_args.py) and in Axolotl's schema. A value of 0 counts as not set.
    """

    code = "BAT012"
    name = "warmup-twice"
    family = "batch"
    severity = "warning"
    catalogue = ("hf.warmup-both",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            warmup_steps: 0
            warmup_ratio: 0.03
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            warmup_steps: 100
            warmup_ratio: 0.03
            """,
            at="warmup_ratio",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps, share = argument_number(job, "warmup_steps"), argument_number(job, "warmup_ratio")
        if steps is None or share is None or steps.value <= 0 or share.value <= 0:
            return
        axolotl = trainer_readings(job)[0].dialect == "axolotl"
        severity: Severity = "error" if axolotl else "warning"
        effect = "Axolotl refuses the pair" if axolotl else "the share has no effect"
        yield self.finding(
            f"warmup_steps {shown(steps.value)} and warmup_ratio {shown(share.value)} are both set: {effect}",
            (share, "refused beside warmup_steps" if axolotl else "passed over"),
            (steps, "" if axolotl else "in force"),
            help="keep one of the two",
            severity=severity,
            job=job,
        )
