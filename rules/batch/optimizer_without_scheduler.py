"""BAT023."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, deepspeed_settings, trainer_readings

REFUSED_SINCE = "4.30"
REFUSED_BELOW = "4.33"
"""transformers 4.29.2 and 4.33.3 take such a file, 4.30.2 to 4.32.1 do not (deepspeed.py, ``deepspeed_optim_sched``)."""

OF_THE_TIME = "evaluation_strategy"
OF_THE_TIME_BELOW = "4.46"
"""A key that transformers no longer takes since 4.46: the file is of those releases' time (training_args.py)."""


class OptimizerWithoutScheduler(Rule):
    """The DeepSpeed file has an optimizer and no scheduler, which transformers 4.30 to 4.32 refuse.

    These releases stop with "Found `optimizer` configured in the DeepSpeed config, but no `scheduler`. Please configure a
    scheduler in the DeepSpeed config". Others make the schedule themselves.

    How sure: transformers' source, release by release. An error where the release is stated. Where it is not, information,
    and only in a file with `evaluation_strategy`, which later releases no longer take: it was written in their time.
    """

    code = "BAT023"
    name = "optimizer-without-scheduler"
    family = "batch"
    severity = "error"
    catalogue = ("ds.optimizer-without-scheduler",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.32.1/src/transformers/deepspeed.py",
        "https://github.com/AetherCortex/Llama-X/issues/30",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
                 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
                """,
                "requirements.txt": "transformers==4.45.2",
            },
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                eval_strategy: "no"
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
                 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
                """,
            },
            note="a key of later releases",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
                 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
                """,
                "requirements.txt": "transformers==4.31.0",
            },
            at="optimizer",
            count=1,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                evaluation_strategy: "no"
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
                 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
                """,
            },
            at="optimizer",
            count=1,
            note="no release is stated, and the file is of that time",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings, stated = deepspeed_settings(job), context.version(job, "transformers")
        if settings is None or not settings.certain or not trainer_readings(job):
            return
        if not settings.has("optimizer") or settings.has("scheduler"):
            return
        dated = argument(job, OF_THE_TIME) if stated is None else None
        if dated is None and not (always_at_least(stated, REFUSED_SINCE) and always_below(stated, REFUSED_BELOW)):
            return
        which = f"the stated transformers ({stated}) stops" if dated is None else "transformers 4.30 to 4.32 stop"
        yield self.finding(
            f"an optimizer without a scheduler in the DeepSpeed file: {which}",
            settings.fact("optimizer"),
            (argument(job, "deepspeed"), "named here"),
            *([(dated, f"a key of releases before {OF_THE_TIME_BELOW}")] if dated is not None else []),
            help=f"take the optimizer out of the DeepSpeed file, or use transformers {REFUSED_BELOW} or later",
            severity="error" if dated is None else "info",
            confidence="high" if dated is None else "low",
            job=job,
        )
