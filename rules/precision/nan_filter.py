"""PRC023."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import TRAINERS, fp16_fact, inference_only


class NanFilter(Rule):
    """NaN losses of an fp16 run are logged as the mean of the finite ones.

    ``logging_nan_inf_filter``, on by default, replaces a NaN or infinite step loss by the mean logged so far. A run
    whose loss is NaN at every step is then logged with a loss of 0.0, beside a gradient norm of NaN.

    How sure: transformers' training loop, 4.44 to 5.24. Only the log is concerned, so this is information for a strict
    reader, and only for fp16 runs, where NaN is to be expected.
    """

    code = "PRC023"
    name = "nan-filter"
    family = "precision"
    severity = "info"
    persona = "strict"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    catalogue = ("trainer.nan-filter-hides-nan",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            fp16: true
            logging_nan_inf_filter: false
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="fp16",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        fact = fp16_fact(job)
        reading = job.reading(*TRAINERS)
        if fact is None or reading is None or inference_only(job):
            return
        if any(r.at("logging_nan_inf_filter") is not None for r in job.readings if r.dialect in TRAINERS):
            return
        yield self.finding(
            "NaN losses are filtered from the log: an fp16 run that has gone wrong shows a loss of 0.0",
            (fact, "fp16"),
            help="set logging_nan_inf_filter: false",
            job=job,
        )
