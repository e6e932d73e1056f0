"""PRC006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .overflow_families import family_of
from .stated_precision import TRAINERS, on


class Fp16FullEvaluation(Rule):
    """Evaluation casts a model to fp16 that does not fit into its range.

    ``fp16_full_eval`` converts all weights to fp16 before evaluation or prediction. With a family that overflows fp16 the
    evaluation loss is NaN and generated text is empty, although training itself was fine. It takes effect only where
    evaluation or prediction is called outside of training (``trainer.evaluate()`` after it, or ``do_eval`` alone).

    How sure: the cast is read in transformers' ``evaluation_loop``; the families are those of fp16-overflow, so it is a
    warning of medium confidence. T5 clamps its fp16 hidden states when evaluating and is left out.
    """

    code = "PRC006"
    name = "fp16-full-evaluation"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/transformers/issues/36822",
        "https://github.com/vllm-project/vllm/pull/17364",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
    )
    good = (
        example(
            "eval.yaml",
            """
            model_name_or_path: google/gemma-3-4b-it
            bf16: true
            bf16_full_eval: true
            per_device_eval_batch_size: 8
            per_device_train_batch_size: 1
            """,
        ),
        example(
            "eval.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            fp16_full_eval: true
            per_device_eval_batch_size: 8
            per_device_train_batch_size: 1
            """,
        ),
    )
    bad = (
        example(
            "eval.yaml",
            """
            model_name_or_path: google/gemma-3-4b-it
            bf16: true
            fp16_full_eval: true
            per_device_eval_batch_size: 8
            per_device_train_batch_size: 1
            """,
            at="fp16_full_eval",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        for reading in job.readings:
            if reading.dialect not in TRAINERS or not on(reading, "fp16_full_eval") or on(reading, "bf16_full_eval"):
                continue
            match = family_of(job)
            if match is None or match.family.place != "residual" or match.family.level != "measured":
                return
            yield self.finding(
                f"evaluation casts a {match.model_type} model to fp16, where it overflows: {match.family.seen}",
                reading.origin("fp16_full_eval"),
                (job.model_id, f"a {match.model_type} model"),
                help="use bf16_full_eval",
                notes=(f"evidence: {match.family.sources[0]}",),
                job=job,
            )
            return
