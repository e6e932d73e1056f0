"""BAT003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, place
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_number, deepspeed_settings, shown, trainer_readings, word


class WarmupWithoutEffect(Rule):
    """A warmup is set with the `constant` scheduler, which has none.

    transformers' `constant` schedule starts at the full learning rate and ignores `warmup_ratio` and `warmup_steps`, in
    silence; the schedule with a warmup is `constant_with_warmup`. The first steps then run at full rate with an
    optimizer whose moments are still empty, which is what the warmup was meant to avoid.

    How sure: `get_scheduler` in transformers' optimization.py returns before it looks at the warmup (4.45 to 5.24). A
    DeepSpeed scheduler replaces the trainer's: then nothing is said.
    """

    code = "BAT003"
    name = "warmup-without-effect"
    family = "batch"
    severity = "warning"
    fixable = "unsafe"
    catalogue = ("hf.constant-scheduler-warmup",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/optimization.py",
        "https://huggingface.co/docs/transformers/main_classes/optimizer_schedules",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            lr_scheduler_type: constant_with_warmup
            warmup_ratio: 0.03
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            lr_scheduler_type: constant
            warmup_steps: 0
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
            lr_scheduler_type: constant
            warmup_ratio: 0.03
            """,
            at="warmup_ratio",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        scheduler = argument(job, "lr_scheduler_type", "lr_scheduler")
        if word(scheduler) != "constant":
            return
        settings = deepspeed_settings(job)
        if settings is not None and settings.has("scheduler"):
            return
        for key in ("warmup_steps", "warmup_ratio"):
            warmup = argument_number(job, key)
            if warmup is None or warmup.value <= 0:
                continue
            yield self.finding(
                f"{key} {shown(warmup.value)} has no effect: the constant scheduler has no warmup",
                warmup,
                (scheduler, "starts at the full learning rate"),
                help="constant_with_warmup warms up and then stays constant",
                fixes=self._fix(job),
                job=job,
            )
            return

    def _fix(self, job: TrainingJob) -> tuple[Fix, ...]:
        for reading in trainer_readings(job):
            for key in ("lr_scheduler_type", "lr_scheduler"):
                if reading.at(key) is not None and place(reading.origin(key)) is not None:
                    quote = '"' if reading.document.file.format in ("json", "toml") else ""
                    edit = replace_value(reading, (key,), f"{quote}constant_with_warmup{quote}")
                    return (Fix("use constant_with_warmup", (edit,), safe=False),) if edit else ()
        return ()
