"""BAT015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..checkpointing.intervals import applies
from ..consistency.mismatch import complete
from ..trainer import argument, word


class PlateauWithoutEvaluation(Rule):
    """The `reduce_lr_on_plateau` schedule follows the evaluation metric, and there is no evaluation.

    transformers stops with "lr_scheduler_type reduce_lr_on_plateau requires an eval strategy" (the same for `greedy`, which
    came with 5.4).

    How sure: the check is in `TrainingArguments` (4.45 to 5.24). A strategy that is not stated is `no`, but a script of one's
    own may set it in code, and then it is a warning. Axolotl and ms-swift choose a strategy themselves and are left out.
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
        if name not in ("reduce_lr_on_plateau", "greedy") or not applies(job):
            return
        strategy = argument(job, "eval_strategy", "evaluation_strategy")
        if strategy is not None and word(strategy) != "no":
            return
        certain = strategy is not None or complete(job)
        yield self.finding(
            f"{name} follows the evaluation metric, and evaluation is off: transformers stops with a ValueError",
            scheduler,
            (strategy, "no evaluation") if strategy is not None else None,
            help="state eval_strategy: steps or epoch, or take another schedule",
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            job=job,
        )
