"""CKP009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_number, shown, word
from .intervals import applies

INTERVALS = (
    ("logging_steps", ("logging_strategy",), "steps"),
    ("eval_steps", ("eval_strategy", "evaluation_strategy"), "no"),
    ("save_steps", ("save_strategy",), "steps"),
)
"""Key, the keys of its strategy, and the strategy's default."""


class StepIntervals(Rule):
    """An interval of steps is 0 for logging, or above 1 and no whole number.

    transformers stops with "logging strategy steps requires non-zero --logging_steps" and "--save_steps must be an integer
    if bigger than 1". Values below 1 are shares of the run.

    How sure: the checks are in `TrainingArguments` (4.57, 5.24). They hold for the strategy `steps` only.
    """

    code = "CKP009"
    name = "step-intervals"
    family = "checkpointing"
    severity = "error"
    catalogue = ("hf.logging-steps-zero", "hf.non-integer-steps")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            logging_steps: 0.05
            save_steps: 200.0
            eval_steps: 2.5
            """,
            note="a share, a whole number, and an interval nothing uses",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            save_steps: 2.5
            """,
            at="save_steps",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            logging_steps: 0
            """,
            at="logging_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not applies(job):
            return
        for key, strategies, default in INTERVALS:
            stated = argument(job, *strategies)
            if (default if stated is None else word(stated)) != "steps":
                continue
            steps = argument_number(job, key)
            if steps is None:
                continue
            if key == "logging_steps" and steps.value == 0:
                yield self.finding(
                    "logging_steps is 0 with logging_strategy steps: the trainer stops with a ValueError",
                    steps,
                    help="log every 1 or more steps, or set logging_strategy: no",
                    job=job,
                )
            elif steps.value > 1 and not float(steps.value).is_integer():
                yield self.finding(
                    f"{key} {shown(steps.value)} is above 1 and no whole number: the trainer stops with a ValueError",
                    steps,
                    help=f"write {round(steps.value)}, or a share below 1",
                    job=job,
                )
