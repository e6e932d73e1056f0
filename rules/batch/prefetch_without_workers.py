"""BAT020."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..checkpointing.intervals import applies
from ..trainer import argument, argument_number, shown


class PrefetchWithoutWorkers(Rule):
    """`dataloader_prefetch_factor` is set and no workers would prefetch.

    Batches are prefetched by worker processes only. transformers stops with "--dataloader_prefetch_factor can only be set
    when data is loaded in a different process, i.e. when --dataloader_num_workers > 0"; 0 workers is the default.

    How sure: the check is in `TrainingArguments` (4.57, 5.24). Where the number of workers is not stated and a script may
    set it in code, it is a warning.
    """

    code = "BAT020"
    name = "prefetch-without-workers"
    family = "batch"
    severity = "error"
    catalogue = ("hf.prefetch-without-workers",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            dataloader_num_workers: 4
            dataloader_prefetch_factor: 2
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
            dataloader_num_workers: 0
            dataloader_prefetch_factor: 2
            """,
            at="dataloader_prefetch_factor",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        factor = argument_number(job, "dataloader_prefetch_factor")
        if factor is None or not applies(job):
            return
        stated, workers = argument(job, "dataloader_num_workers"), argument_number(job, "dataloader_num_workers")
        if stated is not None and (workers is None or workers.value != 0):
            return
        yield self.finding(
            f"dataloader_prefetch_factor {shown(factor.value)} with no workers: the trainer stops with a ValueError",
            factor,
            workers,
            help="set dataloader_num_workers to 1 or more",
            severity="error" if stated is not None else "warning",
            confidence="high" if stated is not None else "medium",
            job=job,
        )
