"""CKP001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..consistency.mismatch import complete
from ..trainer import argument_on, shown
from .intervals import Interval, applies, evaluating, saving

SHARE_UNIT = 1_000_000
"""Shares are compared in millionths, as transformers does."""


class BestModelIntervals(Rule):
    """`load_best_model_at_end` is on, and checkpoints are not written when the model is evaluated.

    The best model can only be loaded if it was saved when it was evaluated, so transformers refuses other combinations:
    "--load_best_model_at_end requires the save and eval strategy to match" and "requires the saving steps to be a round
    multiple of the evaluation steps".

    How sure: the checks are in `TrainingArguments` (4.57, 5.24; since 4.10). Defaults count: `eval_strategy` is `no`,
    `save_strategy` is `steps`, both intervals are 500, and `eval_steps` falls back to `logging_steps`. Where a script may
    set a default itself it is a warning. `save_strategy: best` is free of this.
    """

    code = "CKP001"
    name = "best-model-intervals"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.best-model-strategy",)
    evidence = (
        "https://github.com/huggingface/transformers/pull/12786",
        "https://github.com/hiyouga/LlamaFactory/issues/8133",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: steps
            eval_steps: 100
            save_strategy: steps
            save_steps: 200
            load_best_model_at_end: true
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: steps
            eval_steps: 0.05
            save_strategy: steps
            save_steps: 0.1
            load_best_model_at_end: true
            """,
            note="shares of the run, the one twice the other",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: epoch
            save_strategy: steps
            save_steps: 200
            load_best_model_at_end: true
            """,
            at="save_strategy",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: steps
            eval_steps: 200
            save_strategy: steps
            save_steps: 500
            load_best_model_at_end: true
            """,
            at="save_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        best = argument_on(job, "load_best_model_at_end")
        if best is None or not best.value or not applies(job):
            return
        save, evaluate = saving(job), evaluating(job)
        if save is None or evaluate is None or save.strategy == "best":
            return
        if save.strategy != evaluate.strategy:
            severity: Severity = "error" if complete(job) or (save.stated and evaluate.stated) else "warning"
            yield self.finding(
                f"load_best_model_at_end needs saving and evaluation at the same time: save_strategy is {save.strategy}"
                f"{self._default(save)}, eval_strategy {evaluate.strategy}{self._default(evaluate)}",
                save.strategy_fact,
                evaluate.strategy_fact,
                (best, "needs both to match"),
                help="give both the same strategy, or use save_strategy: best",
                severity=severity,
                confidence="high" if severity == "error" else "medium",
                job=job,
            )
        elif save.strategy == "steps" and not self._multiple(save, evaluate):
            known = not isinstance(save.steps_fact.origin, DefaultOrigin) and not isinstance(
                evaluate.steps_fact.origin, DefaultOrigin
            )
            yield self.finding(
                f"load_best_model_at_end needs save_steps to be a multiple of eval_steps: {shown(save.steps)} is no "
                f"multiple of {shown(evaluate.steps)}",
                save.steps_fact,
                evaluate.steps_fact,
                (best, "needs a checkpoint at an evaluation"),
                help=f"save every {self._advice(save, evaluate)} steps",
                severity="error" if known or complete(job) else "warning",
                confidence="high" if known or complete(job) else "medium",
                job=job,
            )

    def _default(self, interval: Interval) -> str:
        return "" if interval.stated else " (the default)"

    def _multiple(self, save: Interval, evaluate: Interval) -> bool:
        if evaluate.steps <= 0:
            return True
        if save.steps < 1 and evaluate.steps < 1:
            unit = int(evaluate.steps * SHARE_UNIT)
            return unit == 0 or int(save.steps * SHARE_UNIT) % unit == 0
        return save.steps >= 1 and evaluate.steps >= 1 and save.steps % evaluate.steps == 0

    def _advice(self, save: Interval, evaluate: Interval) -> str:
        if save.steps < 1 or evaluate.steps < 1:
            return shown(evaluate.steps)
        return shown(max(1, round(save.steps / evaluate.steps)) * evaluate.steps)
