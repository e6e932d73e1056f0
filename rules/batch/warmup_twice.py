"""BAT012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..trainer import argument_number, shown, trainer_readings

SHARE_WINS_FROM = "5"
"""First transformers release that writes ``warmup_ratio`` over ``warmup_steps``; 4.57 does the opposite."""
SHARE_GONE_FROM = "5.15"
"""First transformers release without ``warmup_ratio``."""


class WarmupTwice(Rule):
    """Both `warmup_steps` and `warmup_ratio` are set; only one of them counts.

    transformers 4 takes `warmup_steps` wherever it is above 0; transformers 5 up to 5.14 puts `warmup_ratio` in its place.
    Either way one of the two numbers that a reader sees is not what is run, and the next upgrade changes which. From 5.15 on
    there is no `warmup_ratio`. Axolotl refuses the pair: "warmup_steps and warmup_ratio are mutually exclusive".

    How sure: read in transformers (training_args.py of 4.57, 5.0 and 5.14) and in Axolotl's schema. A value of 0 counts as
    not set.
    """

    code = "BAT012"
    name = "warmup-twice"
    family = "batch"
    severity = "warning"
    catalogue = ("hf.warmup-both",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/training_args.py",
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
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                warmup_steps: 100
                warmup_ratio: 0.03
                """,
                "requirements.txt": "transformers==5.4.0",
            },
            at="warmup_ratio",
            count=1,
            note="the share is in force here",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps, share = argument_number(job, "warmup_steps"), argument_number(job, "warmup_ratio")
        if steps is None or share is None or steps.value <= 0 or share.value <= 0:
            return
        axolotl = trainer_readings(job)[0].dialect == "axolotl"
        severity: Severity = "error" if axolotl else "warning"
        version = job.versions.get("transformers")
        steps_win, share_wins = always_below(version, SHARE_WINS_FROM), always_at_least(version, SHARE_WINS_FROM)
        if axolotl:
            effect = "Axolotl refuses the pair"
        elif share_wins and always_at_least(version, SHARE_GONE_FROM):
            return  # SCH005 says that the key is gone
        elif steps_win or share_wins:
            effect = f"the {'share' if steps_win else 'number of steps'} has no effect"
        else:
            effect = "transformers 4 takes the steps, 5 the share"
        if axolotl:
            labels = ("refused beside warmup_steps", "")
        elif steps_win or share_wins:
            labels = ("passed over", "in force") if steps_win else ("in force", "passed over")
        else:
            labels = ("", "")
        yield self.finding(
            f"warmup_steps {shown(steps.value)} and warmup_ratio {shown(share.value)} are both set: {effect}",
            (share, labels[0]),
            (steps, labels[1]),
            help="keep one of the two",
            severity=severity,
            job=job,
        )
