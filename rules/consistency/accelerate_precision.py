"""CON007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, deepspeed_settings


class AccelerateAgainstDeepspeedPrecision(Rule):
    """`--mixed_precision` and the DeepSpeed file switch on different number formats.

    Accelerate writes its `mixed_precision` into the DeepSpeed settings and refuses a file that has the other format on:
    "`--mixed_precision` arg cannot be set to `bf16` when `fp16` is set in the DeepSpeed config file".

    How sure: the check is in Accelerate's source (1.15). A `mixed_precision` in Accelerate's file is refused beside a
    DeepSpeed file whatever it says (fields-beside-deepspeed-file). Where the trainer's own `fp16` or `bf16` is given, that
    one counts and deepspeed-precision-differs looks at it.
    """

    code = "CON007"
    name = "accelerate-against-deepspeed-precision"
    family = "consistency"
    severity = "error"
    catalogue = ("accel.mixed-precision-vs-ds",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://huggingface.co/docs/accelerate/usage_guides/deepspeed",
    )
    good = (
        example(
            {
                "run.sh": """
                accelerate launch --use_deepspeed --deepspeed_config_file ds.json --mixed_precision bf16 --num_processes 8 train.py
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "run.sh": """
                accelerate launch --use_deepspeed --deepspeed_config_file ds.json --mixed_precision bf16 --num_processes 8 train.py
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}
                """,
            },
            at="mixed_precision",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        launch = job.reading("launch")
        if settings is None or launch is None:
            return
        if any(argument_on(job, name) is not None for name in ("fp16", "bf16")):
            return
        said = launch.value("mixed_precision")
        other = {"bf16": "fp16", "fp8": "fp16", "fp16": "bf16"}.get(said) if isinstance(said, str) else None
        if other is None or settings.on(other, "enabled") is not True:
            return
        yield self.finding(
            f"Accelerate is told {said}, the DeepSpeed file has {other} on: Accelerate stops with a ValueError",
            (launch.origin("mixed_precision"), f"Accelerate: {said}"),
            (settings.fact(other, "enabled"), f"DeepSpeed: {other}"),
            help=f'switch {other} off in the DeepSpeed file, or write "auto" there',
            job=job,
        )
