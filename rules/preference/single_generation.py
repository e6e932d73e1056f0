"""RLH002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .sampling_batch import sampling_batch


class SingleGeneration(Rule):
    """GRPO or RLOO with one completion per prompt: there is nothing to compare it with.

    The advantage of a completion is its reward against the group's mean, which with one completion is always zero. The
    trainer raises "GRPO requires at least 2 generations per prompt".

    How sure: read in TRL 0.15 to 1.16, in Axolotl 0.19 and in ms-swift 3.8 to 4.6. ms-swift's distillation, GRPO with a
    teacher, samples one completion on purpose and is left alone.
    """

    code = "RLH002"
    name = "single-generation"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
        "https://github.com/huggingface/trl/pull/3199",
        "https://github.com/modelscope/ms-swift/issues/3980",
    )
    catalogue = ("rl.grpo-gen-batch-divisible",)
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 2
            learning_rate: 1.0e-6
            """,
        ),
        example(
            "distil.sh",
            """
            swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-3B-Instruct --teacher_model Qwen/Qwen2.5-7B-Instruct \\
              --dataset our/data --num_generations 1
            """,
            note="distillation from a teacher",
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 1
            learning_rate: 1.0e-6
            """,
            at="num_generations",
            count=1,
        ),
        example(
            "grpo.sh",
            "swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-3B-Instruct --dataset our/data --num_generations 1",
            at="num_generations",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        yield from self._in_swift(job)
        batch = sampling_batch(job)
        if batch is not None and batch.generations is not None and batch.num_generations < 2:
            yield self.finding(
                f"num_generations is {batch.num_generations}: advantages are taken within a group, which needs 2 or more",
                batch.generations,
                help="num_generations: 8 is TRL's default",
                job=job,
            )

    def _in_swift(self, job: TrainingJob) -> Iterator[Finding]:
        """ms-swift has TRL's trainer and arguments of its own, and refuses it itself."""
        reading = job.reading("ms-swift")
        if reading is None or str(reading.value("rlhf_type")).lower() != "grpo":
            return
        if any(reading.at(key) is not None for key in ("teacher_model", "teacher_model_server")):
            return  # distillation: the teacher's probabilities are the reward
        count = integer(reading.value("num_generations"))
        if count is not None and count < 2:
            yield self.finding(
                f"num_generations is {count}: advantages are taken within a group, which needs 2 or more",
                reading.origin("num_generations"),
                help="num_generations: 8 is the default",
                job=job,
            )
