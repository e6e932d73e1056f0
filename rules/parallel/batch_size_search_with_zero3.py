"""PAR012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, trainer_readings


class BatchSizeSearchWithZero3(Rule):
    """`auto_find_batch_size` is set with DeepSpeed ZeRO-3, where the trainer cannot start over.

    transformers stops with "`auto_find_batch_size` isn't supported yet with DeepSpeed Zero-3. Please consider using Zero-2,
    Zero-1, or FSDP".

    How sure: the check is in transformers' trainer.py (4.57, 5.24).
    """

    code = "PAR012"
    name = "batch-size-search-with-zero3"
    family = "parallel"
    severity = "error"
    catalogue = ("par.auto-find-batch-zero3",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/trainer.py",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                auto_find_batch_size: true
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                auto_find_batch_size: true
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
            },
            at="auto_find_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        search, stage = argument_on(job, "auto_find_batch_size"), job.zero_stage
        if search is None or not search.value or stage is None or stage.value != 3 or not trainer_readings(job):
            return
        yield self.finding(
            "auto_find_batch_size does not work with DeepSpeed ZeRO-3: the trainer stops with a ValueError",
            search,
            (stage, "ZeRO-3"),
            help="switch auto_find_batch_size off; `cfglint fit` says which micro-batch fits",
            job=job,
        )
