"""BAT016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below, in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trainer_readings

FIXED_IN = "4.46"
"""First transformers release that divides by the tokens of all accumulated micro-batches."""


class AccumulationNormalization(Rule):
    """Gradient accumulation in this transformers release weighs micro-batches equally, whatever their length.

    Before 4.46 the loss was averaged per micro-batch and then over the accumulated ones, so tokens of short micro-batches
    counted for more: accumulating is not the same as a larger batch, and the loss differs from the intended one.

    How sure: fixed upstream; said only where the transformers version is known to be older, and once for each version. Data
    packed to one length is not concerned, so a run with packing is left out.
    """

    code = "BAT016"
    name = "accumulation-normalization"
    family = "batch"
    severity = "warning"
    confidence = "medium"
    catalogue = ("hf.ga-normalization-bug",)
    evidence = (
        "https://github.com/huggingface/transformers/pull/34191",
        "https://github.com/huggingface/trl/issues/2175",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                num_train_epochs: 1
                """,
                "requirements.txt": "transformers==4.57.1",
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                num_train_epochs: 1
                """,
                "requirements.txt": "transformers==4.44.2",
            },
            at="gradient_accumulation_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps = job.gradient_accumulation_steps
        version = job.versions.get("transformers")
        if steps is None or not isinstance(steps.value, int) or steps.value < 2 or not trainer_readings(job):
            return
        if not always_below(version, FIXED_IN) or job.value("packing") is True:
            return
        seen: set[str] = context.shared.setdefault(self.code, set())
        if version in seen:
            return
        seen.add(str(version))
        yield self.finding(
            f"transformers {in_words(version)} averages the loss per micro-batch: {steps.value} accumulated steps weigh short "
            "sequences more",
            steps,
            help=f"transformers {FIXED_IN} divides by the tokens of all of them",
            job=job,
        )
