"""DAT007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import zero_3


class GenerationUnderZero3(Rule):
    """LLaMA-Factory's `predict_with_generate` under ZeRO-3.

    It raises "`predict_with_generate` is incompatible with DeepSpeed ZeRO-3": every generated token would gather all
    parameters.

    How sure: a check of LLaMA-Factory's parser, in every release from 0.9.0 to 0.9.5; the stage is read from the DeepSpeed
    file the run names.
    """

    code = "DAT007"
    name = "generation-under-zero3"
    family = "data"
    severity = "error"
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    catalogue = ("data.predict-generate-zero3",)
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B-Instruct
                stage: sft
                finetuning_type: lora
                template: qwen
                dataset: identity
                output_dir: out
                predict_with_generate: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_batch_size": "auto", "steps_per_print": 100, "zero_optimization": {"stage": 2}}
                """,
            }
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B-Instruct
                stage: sft
                finetuning_type: lora
                template: qwen
                dataset: identity
                output_dir: out
                predict_with_generate: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_batch_size": "auto", "steps_per_print": 100, "zero_optimization": {"stage": 3}}
                """,
            },
            at="predict_with_generate",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading, sharding = job.reading("llamafactory"), zero_3(job)
        if reading is None or sharding is None or boolean(reading.value("predict_with_generate")) is not True:
            return
        if reading.context.get("trains") is False or always_below(context.version(job, "llamafactory"), "0.9"):
            return
        yield self.finding(
            "predict_with_generate does not work under ZeRO-3: LLaMA-Factory stops with a ValueError",
            reading.origin("predict_with_generate"),
            (sharding, "ZeRO-3"),
            help="use ZeRO-2, or generate in a run of its own",
            job=job,
        )
