"""EVL003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.estimate.training.profiles import PROFILES
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Severity
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Parameter, Rule, example

from ..checkpointing.intervals import applies, evaluating
from ..trainer import argument, trainer_readings


class EvaluationBatchDefault(Rule):
    """Evaluation runs with the default batch of 8, several times the batch that training was fitted to.

    `per_device_eval_batch_size` is 8 where it is not given. Evaluation keeps no activations, but it makes the logits of the
    whole batch: 8 sequences of 8 k tokens with a vocabulary of 150 k are 39 GiB in fp32. A run whose training needed a
    micro-batch of 1 then dies in its first evaluation.

    How sure: the default is in transformers' source. It is information, and said only where evaluation is on, training uses
    a stated micro-batch of 1 or 2, and the sequences are long; both bounds are parameters. Where the model is known, it is
    said only if evaluation needs more than training does; a run that then does not fit is MEM001's.
    """

    code = "EVL003"
    name = "evaluation-batch-default"
    family = "evaluation"
    severity = "info"
    confidence = "medium"
    fixable = "unsafe"
    catalogue = ("mem.eval-batch-default-8",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )
    parameters = {
        "tokens": Parameter(4096, "sequence length from which it is reported"),
        "micro_batch": Parameter(2, "micro-batches of training up to this size are reported"),
    }
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            per_device_eval_batch_size: 1
            num_train_epochs: 3
            eval_strategy: epoch
            max_length: 8192
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 3
            eval_strategy: epoch
            max_length: 8192
            """,
            at="per_device_train_batch_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not applies(job) or argument(job, "per_device_eval_batch_size", "per_gpu_eval_batch_size") is not None:
            return
        evaluate, micro, length = evaluating(job), job.micro_batch_size, job.sequence_length
        if evaluate is None or evaluate.strategy == "no" or micro is None or length is None:
            return
        if (
            isinstance(micro.origin, DefaultOrigin)
            or not isinstance(length.value, int)
            or not isinstance(micro.value, int)
        ):
            return
        tokens, most = self.options["tokens"], self.options["micro_batch"]
        if not isinstance(tokens, int) or not isinstance(most, int) or length.value < tokens or micro.value > most:
            return
        memory = context.estimate(job).memory
        evaluation = memory.phases.get("evaluation")
        if evaluation is not None and (memory.at != "evaluation" or memory.verdict in ("oom", "likely-oom")):
            return  # training needs more anyway, or MEM001 says what evaluation needs
        training = max((size for phase, size in memory.phases.items() if phase != "evaluation"), default=0.0)
        needs = f": {evaluation / GIB:.1f} GiB against {training / GIB:.1f} in training" if evaluation else ""
        severity: Severity = "info"
        yield self.finding(
            f"evaluation uses the default batch of {PROFILES['transformers'].evaluation_batch_size}, training a micro-batch "
            f"of {micro.value}, both with {length.value} tokens{needs}",
            micro,
            (evaluate.strategy_fact, "evaluates during training"),
            (length, ""),
            help=f"state per_device_eval_batch_size: {micro.value}",
            fixes=self._fix(job, micro.value),
            severity=severity,
            job=job,
        )

    def _fix(self, job: TrainingJob, batch: int) -> tuple[Fix, ...]:
        for reading in trainer_readings(job):
            edit = insert_key(reading, ("per_device_train_batch_size",), "per_device_eval_batch_size", str(batch))
            if edit is not None:
                return (Fix(f"per_device_eval_batch_size: {batch}", (edit,), safe=False),)
        return ()
