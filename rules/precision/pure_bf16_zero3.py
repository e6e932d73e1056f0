"""PRC024."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import on


class PureBf16Zero3(Rule):
    """LLaMA-Factory's `pure_bf16` together with DeepSpeed ZeRO-3.

    LLaMA-Factory raises "`pure_bf16` is incompatible with DeepSpeed ZeRO-3." when it reads the arguments: DeepSpeed keeps fp32
    masters of what it shards, which pure_bf16 asks not to have.

    How sure: read in LLaMA-Factory 0.9.5 (hparams/parser.py). Reported where the run names a DeepSpeed file with stage 3.
    """

    code = "PRC024"
    name = "pure-bf16-zero3"
    family = "precision"
    severity = "error"
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                stage: sft
                do_train: true
                finetuning_type: full
                template: qwen
                dataset: our_data
                pure_bf16: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "bf16": {"enabled": "auto"},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                stage: sft
                do_train: true
                finetuning_type: full
                template: qwen
                dataset: our_data
                pure_bf16: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "bf16": {"enabled": "auto"},
                  "zero_optimization": {"stage": 3}
                }
                """,
            },
            at="pure_bf16",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading, stage = job.reading("llamafactory"), job.zero_stage
        if reading is None or stage is None or stage.value != 3 or not on(reading, "pure_bf16"):
            return
        yield self.finding(
            "LLaMA-Factory takes pure_bf16 up to ZeRO-2, the stage is 3",
            reading.origin("pure_bf16"),
            (stage, "stage 3"),
            help="use bf16: true, or ZeRO-2",
            job=job,
        )
