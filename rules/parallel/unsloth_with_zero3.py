"""PAR002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, trainer_readings

LOADERS = {"use_unsloth": "Unsloth", "use_kt": "KTransformers"}


class UnslothWithZero3(Rule):
    """Unsloth (or KTransformers) is combined with DeepSpeed ZeRO-3, which it cannot load for.

    These loaders place whole layers on a device, ZeRO-3 partitions every parameter as it is made. LLaMA-Factory stops with
    "Unsloth is incompatible with DeepSpeed ZeRO-3"; older releases fail later with "DeepSpeed Zero-3 is not compatible with
    `low_cpu_mem_usage=True` or with passing a `device_map`".

    How sure: the check is in LLaMA-Factory's parser (0.9.5) and reported. Only its own switches are looked at.
    """

    code = "PAR002"
    name = "unsloth-with-zero3"
    family = "parallel"
    severity = "error"
    catalogue = ("par.unsloth-zero3", "par.device-map-zero3")
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/3949",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
    )
    good = (
        example(
            {
                "lora.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                stage: sft
                do_train: true
                finetuning_type: lora
                template: qwen
                dataset: our_data
                use_unsloth: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "lora.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                stage: sft
                do_train: true
                finetuning_type: lora
                template: qwen
                dataset: our_data
                use_unsloth: true
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
            },
            at="use_unsloth",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stage = job.zero_stage
        if stage is None or stage.value != 3 or not any(r.dialect == "llamafactory" for r in trainer_readings(job)):
            return
        for key, name in LOADERS.items():
            switch = argument_on(job, key)
            if switch is not None and switch.value:
                yield self.finding(
                    f"{name} does not work with DeepSpeed ZeRO-3: LLaMA-Factory stops with a ValueError",
                    switch,
                    (stage, "ZeRO-3"),
                    help=f"switch {key} off, or use ZeRO stage 2",
                    job=job,
                )
