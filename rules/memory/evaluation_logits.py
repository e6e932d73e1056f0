"""MEM011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument, argument_on, trainer_readings, word

LOGIT_BYTES = 4
"""Logits are gathered in fp32: autocast's output is converted back by Accelerate."""

METRIC_KEYS = ("compute_metrics", "include_inputs_for_metrics", "include_for_metrics")
"""Arguments that only runs with a metric of their own have: the first is scripts', the others are transformers'."""


class EvaluationLogits(Rule):
    """Evaluation keeps the logits of every example until its end.

    With a metric of one's own, transformers' evaluation collects the logits of the whole set on the GPU before it calls
    `compute_metrics`: tokens × vocabulary × 4 bytes per example. The run dies in its first evaluation, hours after the
    start. `eval_accumulation_steps` only moves them to the host.

    How sure: in transformers' `evaluation_loop`, and reported for years. The metric function is in code, so a file shows it
    only through `metric_for_best_model` (anything but a loss), `prediction_loss_only: false` or arguments about metrics
    (`compute_metrics`, `include_for_metrics`). It is a warning where one
    example keeps 64 MiB or more, else information. LLaMA-Factory reduces logits first, and Axolotl and TRL bring
    metrics of their own: they are left out.
    """

    code = "MEM011"
    name = "evaluation-logits"
    family = "memory"
    severity = "warning"
    confidence = "medium"
    catalogue = ("mem.eval-logits-accumulate", "mem.eval-accum-host-ram")
    evidence = (
        "https://github.com/huggingface/transformers/issues/18947",
        "https://github.com/huggingface/transformers/issues/8476",
        "https://github.com/huggingface/transformers/issues/25313",
    )
    parameters = {"warn_from": Parameter(64, "MiB of logits per example from which it is a warning")}
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            eval_strategy: steps
            metric_for_best_model: eval_loss
            """,
        ),
        example(
            "classify.yaml",
            """
            model_name_or_path: google-bert/bert-base-uncased
            per_device_train_batch_size: 32
            num_train_epochs: 3
            eval_strategy: epoch
            metric_for_best_model: accuracy
            num_labels: 2
            """,
            note="a classifier has a few logits per example",
        ),
    )
    bad = (
        example(
            "mlm.yaml",
            """
            model_name_or_path: FacebookAI/roberta-base
            do_train: true
            do_eval: true
            eval_strategy: steps
            max_seq_length: 512
            per_device_train_batch_size: 8
            prediction_loss_only: false
            """,
            at="prediction_loss_only",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        readings = trainer_readings(job)
        if not readings or any(r.dialect != "hf-training-args" for r in readings):
            return
        moved = argument(job, "eval_accumulation_steps")
        if job.value("evaluates") is not True or argument(job, "num_labels") is not None:
            return
        for key in ("predict_with_generate", "batch_eval_metrics"):
            on = argument_on(job, key)
            if on is not None and on.value:
                return
        cause = self._cause(job)
        if cause is None:
            return
        length, vocabulary = job.value("sequence_length"), self._vocabulary(job)
        size = length * vocabulary * LOGIT_BYTES if isinstance(length, int) and vocabulary else None
        least = self.options["warn_from"]
        large = size is not None and isinstance(least, (int, float)) and size >= least * 2**20
        if moved is not None:
            if large and size is not None:
                yield self._on_the_host(job, cause, moved, size)
            return
        severity: Severity = "warning" if large else "info"
        amount = (
            f"{length} tokens × {vocabulary} × {LOGIT_BYTES} bytes = {size / GIB:.2f} GiB per example" if size else ""
        )
        yield self.finding(
            "evaluation keeps the logits of every example on the GPU until its end" + (f": {amount}" if amount else ""),
            cause,
            (job.sequence_length, "tokens per example") if size else None,
            help="reduce them in preprocess_logits_for_metrics (an argmax), set batch_eval_metrics, or evaluate the loss only",
            severity=severity,
            confidence="medium" if size else "low",
            job=job,
        )

    def _on_the_host(self, job: TrainingJob, cause: Fact[object], moved: Fact[object], size: int) -> Finding:
        """``eval_accumulation_steps`` moves the logits, it does not drop them."""
        return self.finding(
            f"evaluation keeps {size / GIB:.2f} GiB of logits per example in the host's memory until its end: 1,000 examples "
            f"take {1000 * size / GIB:,.0f} GiB",
            moved,
            (cause, "all logits are kept"),
            help="reduce them in preprocess_logits_for_metrics (an argmax), or set batch_eval_metrics",
            severity="info",
            job=job,
        )

    def _cause(self, job: TrainingJob) -> Fact[object] | None:
        loss_only = argument_on(job, "prediction_loss_only")
        if loss_only is not None:
            return None if loss_only.value else argument(job, "prediction_loss_only")
        for key in METRIC_KEYS:
            own = argument(job, key)
            if own is not None and word(own) not in ("", "no", "none", "false"):
                return own
        metric = argument(job, "metric_for_best_model")
        name = word(metric)
        causal = argument(job, "block_size", "max_seq_length", "max_length", "model_max_length")
        if name is None or name.endswith("loss") or causal is None:
            return None
        return metric

    def _vocabulary(self, job: TrainingJob) -> int:
        size = job.architecture.vocab_size if job.architecture is not None else 0
        return size if isinstance(size, int) else 0
