"""BAT015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, trainer_readings, word


class PlateauWithoutEvaluation(Rule):
    """The `reduce_lr_on_plateau` schedule follows the evaluation metric, and there is no evaluation.

    transformers stops with "lr_scheduler_type reduce_lr_on_plateau requires an eval strategy" (the same for `greedy`).

    How sure: the check is in `TrainingArguments` (5.24). An evaluation strategy that is not stated is `no`, unless
    `do_eval` scripts set it; the strategy must be in the file to count.
    """

    code = "BAT015"
    name = "plateau-without-evaluation"
    family = "batch"
    severity = "error"
    catalogue = ("hf.scheduler-plateau-needs-eval",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            lr_scheduler_type: reduce_lr_on_plateau
            eval_strategy: epoch
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            lr_scheduler_type: reduce_lr_on_plateau
            """,
            at="lr_scheduler_type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        scheduler = argument(job, "lr_scheduler_type")
        name = word(scheduler)
        if name not in ("reduce_lr_on_plateau", "greedy") or any(r.dialect == "axolotl" for r in trainer_readings(job)):
            return
        strategy = argument(job, "eval_strategy", "evaluation_strategy")
        if strategy is not None and word(strategy) != "no":
            return
        yield self.finding(
            f"{name} follows the evaluation metric, and evaluation is off: transformers stops with a ValueError",
            scheduler,
            (strategy, "no evaluation") if strategy is not None else None,
            help="state eval_strategy: steps or epoch, or take another schedule",
            job=job,
        )
