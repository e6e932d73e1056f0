"""EVL001."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Severity
from cfglint.lint.fixes import insert_key, replace_value
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_on, trainer_readings

LOWER = frozenset({
    "loss", "perplexity", "ppl", "wer", "cer", "ter", "mse", "rmse", "mae", "nll", "bpb", "bpc", "error", "latency",
})  # fmt: skip
"""Words of a metric's name that mean that lower is better."""

HIGHER = frozenset({
    "accuracy", "acc", "f1", "bleu", "sacrebleu", "rouge", "rouge1", "rouge2", "rougel", "rougelsum", "precision", "recall",
    "auc", "roc", "mcc", "matthews", "pearson", "pearsonr", "spearman", "spearmanr", "map", "mrr", "ndcg", "em", "chrf",
    "reward", "rewards", "accuracies", "margins", "meteor", "bertscore",
})  # fmt: skip
"""Words that mean that higher is better."""

KNOWS_LOSS_SUFFIX_FROM = "4.42"
"""transformers releases from here on take every metric that ends in ``loss`` as lower is better (#31142)."""


class MetricDirection(Rule):
    """The best checkpoint is chosen in the wrong direction of its metric.

    `greater_is_better` decides which of two evaluations is the better one. transformers' own guess is true for every metric
    that does not end in `loss`: with `metric_for_best_model: perplexity` and nothing else, the checkpoint with the highest
    perplexity is kept as the best and loaded at the end. Early stopping and `save_strategy: best` follow it too. Nothing is
    logged.

    How sure: the guess is in `TrainingArguments` (5.24; before 4.42 only `loss` and `eval_loss` counted). The direction is
    read from the words of the metric's name; a name with words of both kinds, or of none, is left out. It is an error where
    the best model is loaded or saved, else a warning.
    """

    code = "EVL001"
    name = "metric-direction"
    family = "evaluation"
    severity = "error"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/transformers/pull/31142",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: epoch
            save_strategy: epoch
            load_best_model_at_end: true
            metric_for_best_model: perplexity
            greater_is_better: false
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: epoch
            save_strategy: epoch
            load_best_model_at_end: true
            metric_for_best_model: eval_loss
            """,
            note="the trainer knows that a loss is better lower",
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
            save_strategy: epoch
            load_best_model_at_end: true
            metric_for_best_model: perplexity
            """,
            at="metric_for_best_model",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            eval_strategy: epoch
            save_strategy: epoch
            load_best_model_at_end: true
            metric_for_best_model: eval_loss
            greater_is_better: true
            """,
            at="greater_is_better",
            count=1,
        ),
        example(
            "classify.yaml",
            """
            model_name_or_path: google-bert/bert-base-uncased
            per_device_train_batch_size: 32
            num_train_epochs: 3
            eval_strategy: epoch
            save_strategy: epoch
            load_best_model_at_end: true
            metric_for_best_model: accuracy
            greater_is_better: false
            """,
            at="greater_is_better",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        metric = argument(job, "metric_for_best_model")
        if metric is None or not isinstance(metric.value, str) or not trainer_readings(job):
            return
        lower = lower_is_better(metric.value)
        written = argument(job, "greater_is_better")
        greater = argument_on(job, "greater_is_better")
        if lower is None or (written is not None and greater is None):
            return
        if greater is None:
            greater = Fact(not self._known_loss(job, metric.value), DefaultOrigin("transformers"))
        if greater.value is not lower:
            return
        guess = isinstance(greater.origin, DefaultOrigin)
        kept = "highest" if greater.value else "lowest"
        best = argument_on(job, "load_best_model_at_end")
        saved = argument(job, "save_strategy")
        matters = bool(best and best.value) or (saved is not None and saved.value == "best")
        severity: Severity = "error" if matters else "warning"
        said = (
            "greater_is_better is not set, so the trainer takes it as true"
            if guess
            else f"greater_is_better is {'true' if greater.value else 'false'}"
        )
        yield self.finding(
            f"the checkpoint with the {kept} {metric.value} is kept as the best: {said}",
            greater if not guess else metric,
            (metric, f"{'lower' if lower else 'higher'} is better") if not guess else None,
            (best, "loads it at the end") if best is not None and best.value else None,
            help=f"state greater_is_better: {'false' if lower else 'true'}",
            fixes=self._fix(job, guess, lower),
            severity=severity,
            job=job,
        )

    def _known_loss(self, job: TrainingJob, name: str) -> bool:
        """Whether transformers itself takes the metric as lower is better."""
        if always_below(job.versions.get("transformers"), KNOWS_LOSS_SUFFIX_FROM):
            return name in ("loss", "eval_loss")
        return name.endswith("loss")

    def _fix(self, job: TrainingJob, guess: bool, lower: bool) -> tuple[Fix, ...]:
        text = "false" if lower else "true"
        for reading in trainer_readings(job):
            edit = None
            if guess and reading.at("metric_for_best_model") is not None:
                edit = insert_key(reading, ("metric_for_best_model",), "greater_is_better", text)
            elif not guess and reading.at("greater_is_better") is not None:
                edit = replace_value(reading, ("greater_is_better",), text)
            if edit is not None:
                return (Fix(f"greater_is_better: {text}", (edit,), safe=False),)
        return ()


def lower_is_better(metric: str) -> bool | None:
    """The direction a metric's name shows; None where it shows none, or both."""
    words = set(re.split(r"[^a-z0-9]+", metric.lower()))
    if "bits" in words and "per" in words:
        return True
    down, up = bool(words & LOWER), bool(words & HIGHER)
    return down if down != up else None
