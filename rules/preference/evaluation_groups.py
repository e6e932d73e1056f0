"""RLH004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .sampling_batch import completions, in_words, sampling_batch


class EvaluationGroups(Rule):
    """GRPO's evaluation batch is no multiple of the generations per prompt.

    The config raises "The global eval batch size (… * …) must be divisible by the number of generations used for evaluation"
    when evaluation is on.

    How sure: read in TRL 0.15 to 0.19 and 0.22 to 1.16; 0.20 and 0.21 do not check. Reported where evaluation is on in the
    file and the number of processes is known; an error where the stated release surely checks.
    """

    code = "RLH004"
    name = "evaluation-groups"
    family = "preference"
    severity = "error"
    evidence = ("https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",)
    catalogue = ("rl.grpo-eval-divisible",)
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            per_device_eval_batch_size: 4
            eval_strategy: "no"
            num_generations: 8
            learning_rate: 1.0e-6
            """,
            gpus=1,
            gpu="H100",
        ),
    )
    bad = (
        example(
            {
                "grpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/DeepMath-103K
                per_device_train_batch_size: 8
                per_device_eval_batch_size: 4
                eval_strategy: steps
                num_generations: 8
                learning_rate: 1.0e-6
                """,
                "requirements.txt": """
                trl==1.2.0
                """,
            },
            gpus=1,
            gpu="H100",
            at="per_device_eval_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        batch = sampling_batch(job)
        if batch is None or batch.reading.dialect != "trl" or batch.world_size is None or batch.num_generations < 2:
            return
        reading = batch.reading
        when = reading.value("eval_strategy") or reading.value("evaluation_strategy")
        if when not in ("steps", "epoch") or boolean(reading.value("do_eval")) is False:
            return
        size, groups = integer(reading.value("per_device_eval_batch_size")), reading.value("num_generations_eval")
        wanted = integer(groups) if groups is not None else batch.num_generations
        if reading.value("per_device_eval_batch_size") is None:
            size = 8  # TrainingArguments' default
        if size is None or not wanted or size * batch.world_size % wanted == 0:
            return
        stated = context.version(job, "trl")
        checked = always_at_least(stated, "0.22") is True or (
            always_below(stated, "0.20") and always_at_least(stated, "0.15") is True
        )
        yield self.finding(
            f"the evaluation batch is {completions(size * batch.world_size)} ({size} × {in_words(batch.world_size)}), no "
            f"multiple of {wanted} generations per prompt",
            reading.origin("per_device_eval_batch_size")
            if reading.entry("per_device_eval_batch_size")
            else batch.micro_batch,
            (batch.generations, "generations per prompt"),
            help=f"per_device_eval_batch_size: {_next(size, batch.world_size, wanted)}, or num_generations_eval",
            severity="error" if checked else "warning",
            confidence="high" if checked else "medium",
            job=job,
        )


def _next(size: int, world: int, wanted: int) -> int:
    while size * world % wanted:
        size += 1
    return size
