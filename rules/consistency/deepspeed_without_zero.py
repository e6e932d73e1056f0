"""CON012."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath

from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import accelerate_reading, argument, deepspeed_settings, guessed, trainer_readings
from .mismatch import compared_settings, named_by_trainer


class DeepspeedWithoutZero(Rule):
    """The DeepSpeed file has no `zero_optimization`, which Accelerate requires.

    Accelerate, and with it transformers' trainer, stops with "Please specify the ZeRO optimization config in the DeepSpeed
    config" where the section is missing. Stage 0 is allowed, but it must be written.

    How sure: the check is in Accelerate's source (`DeepSpeedPlugin.__post_init__`, 1.15) and runs for files that the
    trainer's `deepspeed` or Accelerate's `deepspeed_config_file` names. DeepSpeed itself takes such a file, so others are
    left out. Where no release of transformers is stated it is a warning for the trainer's: before 4.30 it did not ask Accelerate.
    """

    code = "CON012"
    name = "deepspeed-without-zero"
    family = "consistency"
    severity = "error"
    catalogue = ("ds.zero-missing",)
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",)
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
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0}}
                """,
            },
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "steps_per_print": 100,
                 "autotuning": {"enabled": true, "fast": true}}
                """,
            },
            note="DeepSpeed's autotuner chooses the stage",
        ),
    )
    bad = (
        example(
            {
                "accelerate.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: DEEPSPEED
                num_processes: 8
                deepspeed_config:
                  deepspeed_config_file: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}
                """,
            },
            count=1,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "steps_per_print": 100,
                 "bf16": {"enabled": "auto"}}
                """,
            },
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        by_accelerate = self._named_by_accelerate(job)
        settings = deepspeed_settings(job) if by_accelerate is not None else compared_settings(job)
        if settings is None or not settings.certain or settings.has("zero_optimization"):
            return
        if by_accelerate is None and not named_by_trainer(job):
            return
        if settings.has("autotuning"):
            return  # the autotuner starts the runs, and writes the stages it tries into their settings
        stated = context.version(job, "transformers")
        if stated is not None and always_below(stated, "4.30"):
            return  # the trainer hands the file to DeepSpeed itself
        yield self.finding(
            "the DeepSpeed settings have no zero_optimization: Accelerate stops with a ValueError",
            (settings.reading, "no zero_optimization here"),
            (by_accelerate or argument(job, "deepspeed"), "named here"),
            help='add "zero_optimization": {"stage": 2}, or stage 0 for none',
            severity="error" if stated is not None or by_accelerate is not None else "warning",
            confidence="high" if stated is not None or by_accelerate is not None else "medium",
            job=job,
        )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        """Accelerate's file and the one it names, with no run in sight."""
        named = reading.value("deepspeed_config", "deepspeed_config_file") if reading.dialect == "accelerate" else None
        if not isinstance(named, str) or any(trainer_readings(job) for job in training(context, reading)):
            return
        folder = PurePosixPath(reading.document.path).parent
        paths = {posixpath.normpath(named), posixpath.normpath(str(folder / named))}
        for other in context.readings:
            if (
                other.dialect != "deepspeed"
                or other.document.path not in paths
                or other.at("zero_optimization") is not None
            ):
                continue
            if other.at("autotuning") is None and not any(trainer_readings(job) for job in training(context, other)):
                yield self.finding(
                    "the DeepSpeed settings have no zero_optimization: Accelerate stops with a ValueError",
                    (other, "no zero_optimization here"),
                    (reading.origin("deepspeed_config", "deepspeed_config_file"), "named here"),
                    help='add "zero_optimization": {"stage": 2}, or stage 0 for none',
                )

    def _named_by_accelerate(self, job: TrainingJob) -> Fact[str] | None:
        """Accelerate's ``deepspeed_config_file``, in a file that is not merely a neighbour."""
        reading = accelerate_reading(job)
        if reading is None or guessed(job, reading):
            return None
        named = reading.value("deepspeed_config", "deepspeed_config_file")
        return (
            Fact(named, reading.origin("deepspeed_config", "deepspeed_config_file")) if isinstance(named, str) else None
        )


def training(context: Context, reading: Reading) -> Iterator[TrainingJob]:
    """The training jobs a reading belongs to."""
    return (job for job in context.jobs_of(reading) if isinstance(job, TrainingJob))
