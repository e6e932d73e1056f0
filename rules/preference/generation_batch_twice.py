"""RLH003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .sampling_batch import sampling_batch


class GenerationBatchTwice(Rule):
    """`generation_batch_size` and `steps_per_generation` are both stated; each follows from the other.

    The config raises "'generation_batch_size' and 'steps_per_generation' can not be both configured at the same time", even
    where the two agree.

    How sure: read in TRL 0.18 to 1.16.
    """

    code = "RLH003"
    name = "generation-batch-twice"
    family = "preference"
    severity = "error"
    evidence = ("https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",)
    catalogue = ("rl.grpo-gen-batch-divisible",)
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            steps_per_generation: 4
            num_generations: 8
            learning_rate: 1.0e-6
            """,
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            steps_per_generation: 4
            generation_batch_size: 32
            num_generations: 8
            learning_rate: 1.0e-6
            """,
            at="generation_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        batch = sampling_batch(job)
        if batch is None or batch.generation_batch is None or batch.steps_per_generation is None:
            return
        yield self.finding(
            "generation_batch_size and steps_per_generation are both stated: TRL takes one of them",
            batch.generation_batch,
            (batch.steps_per_generation, "also stated"),
            help="keep one of them",
            job=job,
        )
