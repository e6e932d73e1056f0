"""MEM020."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_number, trainer_readings


class EmptyCacheSteps(Rule):
    """`torch_empty_cache_steps` is not a positive whole number.

    transformers stops with "`torch_empty_cache_steps` must be an integer bigger than 0". To leave the cache alone, leave the
    key out.

    How sure: a check of TrainingArguments (4.45 to 5.24).
    """

    code = "MEM020"
    name = "empty-cache-steps"
    family = "memory"
    severity = "error"
    catalogue = ("hf.empty-cache-steps",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            torch_empty_cache_steps: 4
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
            torch_empty_cache_steps: 0
            """,
            at="torch_empty_cache_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if any(r.dialect == "axolotl" for r in trainer_readings(job)):
            return  # it has no such key
        stated, number = argument(job, "torch_empty_cache_steps"), argument_number(job, "torch_empty_cache_steps")
        if stated is None or number is None or (number.value > 0 and float(number.value).is_integer()):
            return
        yield self.finding(
            f"torch_empty_cache_steps is {stated.value}: the trainer takes whole numbers above 0, and stops",
            stated,
            help="1 or more, or leave it out",
            job=job,
        )
