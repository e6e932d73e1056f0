"""CKP004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..consistency.mismatch import complete
from ..trainer import argument, argument_on
from .intervals import applies, evaluating, saving


class BestWithoutMetric(Rule):
    """`save_strategy: best` has no metric to compare, or no evaluation that would give one.

    transformers stops with "`args.metric_for_best_model` must be provided when using 'best' save_strategy". Without an
    evaluation nothing is ever the best, and no checkpoint is written.

    How sure: the check is in transformers' trainer.py (4.57, 5.24). `load_best_model_at_end` sets the metric to the loss. A
    run without evaluation does train, and its script may save the model at the end: that case is a warning.
    """

    code = "CKP004"
    name = "best-without-metric"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.best-metric-missing",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/trainer.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: steps
            save_strategy: best
            metric_for_best_model: eval_loss
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
            eval_strategy: steps
            save_strategy: best
            """,
            at="save_strategy",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        save, evaluate = (saving(job), evaluating(job)) if applies(job) else (None, None)
        if save is None or save.strategy != "best":
            return
        best = argument_on(job, "load_best_model_at_end")
        if argument(job, "metric_for_best_model") is None and not (best and best.value):
            yield self.finding(
                "save_strategy best without metric_for_best_model: the trainer stops with a ValueError",
                save.strategy_fact,
                help="state metric_for_best_model, for example eval_loss",
                job=job,
            )
        elif evaluate is not None and evaluate.strategy == "no":
            certain = evaluate.stated or complete(job)
            yield self.finding(
                "save_strategy best without evaluation: no checkpoint is ever written",
                save.strategy_fact,
                evaluate.strategy_fact,
                help="state eval_strategy: steps or epoch",
                severity="warning",
                confidence="high" if certain else "medium",
                job=job,
            )
