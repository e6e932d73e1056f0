"""CKP007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import number
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, argument_on, trainer_readings, word


class EvaluationWithoutData(Rule):
    """LLaMA-Factory is to evaluate, and no evaluation data is named.

    With `eval_strategy` or `do_eval` on, LLaMA-Factory stops with "Please make sure eval_dataset be provided or
    val_size >1e-6".

    How sure: the check is in LLaMA-Factory's parser (0.9.5). Other trainers take the evaluation data from code.
    """

    code = "CKP007"
    name = "evaluation-without-data"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.eval-without-dataset",)
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    good = (
        example(
            "lora.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: sft
            do_train: true
            finetuning_type: lora
            template: qwen
            dataset: our_data
            val_size: 0.1
            eval_strategy: steps
            eval_steps: 500
            """,
        ),
    )
    bad = (
        example(
            "lora.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: sft
            do_train: true
            finetuning_type: lora
            template: qwen
            dataset: our_data
            eval_strategy: steps
            eval_steps: 500
            """,
            at="eval_strategy",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        readings = trainer_readings(job)
        if not readings or any(r.dialect != "llamafactory" or r.context.get("layout") == "v1" for r in readings):
            return
        strategy, on = argument(job, "eval_strategy", "evaluation_strategy"), argument_on(job, "do_eval")
        name = word(strategy)
        cause = strategy if name in ("steps", "epoch") else on if on is not None and on.value else None
        if cause is None or argument(job, "eval_dataset", "tokenized_path", "dev_ratio") is not None:
            return  # dev_ratio: val_size as releases of 2023 have it
        size = argument(job, "val_size")
        if size is not None and (number(size.value) is None or (number(size.value) or 0) > 1e-6):
            return
        yield self.finding(
            "evaluation is on and neither eval_dataset nor val_size gives data for it: LLaMA-Factory stops with a ValueError",
            cause,
            help="give eval_dataset, or a val_size such as 0.1",
            job=job,
        )
