"""BAT017."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below, in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_number, shown, trainer_readings


class WarmupShareBefore5(Rule):
    """`warmup_steps` is a share of the run, which only transformers 5 understands.

    transformers 5 takes a `warmup_steps` below 1 as a share of all steps. Earlier releases stop with "warmup_steps must be
    of type int and must be 0 or a positive integer"; there the key is `warmup_ratio`.

    How sure: read in transformers 4.45, 4.57 and 5.24; said only where the version is known to be below 5.
    """

    code = "BAT017"
    name = "warmup-share-before-5"
    family = "batch"
    severity = "error"
    fixable = "safe"
    catalogue = ("hf.warmup-fraction-in-v4",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            warmup_steps: 0.03
            """,
            note="right for transformers 5",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                warmup_steps: 0.03
                """,
                "requirements.txt": "transformers>=4.51,<5",
            },
            at="warmup_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps = argument_number(job, "warmup_steps")
        version = job.versions.get("transformers")
        if steps is None or not 0 < steps.value < 1 or not always_below(version, "5"):
            return
        edit = None
        if argument(job, "warmup_ratio") is None:
            reading = next((r for r in trainer_readings(job) if r.value("warmup_steps") is not None), None)
            edit = rename_key(reading, ("warmup_steps",), "warmup_ratio") if reading is not None else None
        yield self.finding(
            f"warmup_steps {shown(steps.value)} is a share, which transformers {in_words(version)} does not take",
            steps,
            help="the share's key is warmup_ratio before transformers 5",
            fixes=(Fix("call it warmup_ratio", (edit,)),) if edit else (),
            job=job,
        )
