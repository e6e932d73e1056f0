"""PAR021."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import texts
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..trainer import placeholder, trainer_readings

READ_OTHERWISE_FROM = "5.10"
"""First transformers release read without these checks."""


class FsdpOptions(Rule):
    """The trainer's `fsdp` options do not make a sharding: `offload` alone, or two strategies at once.

    transformers stops with "`--fsdp offload` can't work on its own", or "`--fsdp full_shard` is not compatible with `--fsdp
    shard_grad_op`".

    How sure: the checks of TrainingArguments from 4.45 to 5.9; 5.10 and later read `fsdp` in another way. An error where the
    stated release is before 5.10, a warning without a stated release.
    """

    code = "PAR021"
    name = "fsdp-options"
    family = "parallel"
    severity = "error"
    catalogue = ("par.fsdp-offload-only",)
    evidence = ("https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard offload auto_wrap
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: offload
            """,
            at="fsdp",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard shard_grad_op auto_wrap
            """,
            at="fsdp",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stated = job.versions.get("transformers")
        if always_at_least(stated, READ_OTHERWISE_FROM):
            return
        severity: Severity = "error" if always_below(stated, READ_OTHERWISE_FROM) else "warning"
        for reading in trainer_readings(job):
            if reading.dialect == "axolotl":
                continue
            value = reading.value("fsdp")
            if isinstance(value, str) and not placeholder(value):
                options = value.lower().split()
            else:
                options = [option.lower() for option in texts(reading.at("fsdp")) or []]
            if options == ["offload"]:
                yield self.finding(
                    "fsdp: offload says what is offloaded and not how to shard: the trainer stops with a ValueError",
                    reading.origin("fsdp"),
                    help="fsdp: full_shard offload",
                    severity=severity,
                    confidence="high" if severity == "error" else "medium",
                    job=job,
                )
            elif "full_shard" in options and "shard_grad_op" in options:
                yield self.finding(
                    "fsdp names two strategies, full_shard and shard_grad_op: the trainer stops with a ValueError",
                    reading.origin("fsdp"),
                    help="keep one of the two",
                    severity=severity,
                    confidence="high" if severity == "error" else "medium",
                    job=job,
                )
