"""CKP003."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import accelerate_reading, deepspeed_settings, guessed, trainer_readings

KEYS = (
    "stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save", "gather_fp16_weights_on_model_save",
)  # fmt: skip
"""The key, its name without the stage, which DeepSpeed takes as well, and their old names."""


class Zero3WeightsNotGathered(Rule):
    """ZeRO-3 saves each rank's share of the weights: the model cannot be loaded as it is saved.

    Each rank has its share of every parameter. Without `stage3_gather_16bit_weights_on_model_save` (in Accelerate's file
    `zero3_save_16bit_model`) transformers saves DeepSpeed's shards and says that `zero_to_fp32.py` must be run on them;
    scripts that save a state dict themselves write tensors of size 0, and find out when they load them.

    How sure: in transformers' `save_model`, and reported for years. Gathering takes time and the memory of one whole 16-bit
    model on the host, so leaving it off can be meant: it is information, with low confidence for a DeepSpeed file that no run
    in sight names.
    """

    code = "CKP003"
    name = "zero3-weights-not-gathered"
    family = "checkpointing"
    severity = "info"
    catalogue = ("ckpt.zero3-no-gather",)
    evidence = (
        "https://github.com/huggingface/transformers/pull/25817",
        "https://github.com/deepspeedai/DeepSpeed/issues/2413",
        "https://github.com/huggingface/peft/issues/453",
    )
    good = (
        example(
            {
                "lora.yml": """
                base_model: Qwen/Qwen2.5-7B
                datasets:
                  - path: our/data
                    type: alpaca
                sequence_len: 2048
                micro_batch_size: 1
                num_epochs: 1
                deepspeed: zero3.json
                """,
                "zero3.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 3, "gather_16bit_weights_on_model_save": true}}
                """,
            },
            note="DeepSpeed takes the name without the stage as well",
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}
                """,
            },
            at="stage",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stage = job.zero_stage
        if stage is None or stage.value != 3 or not (trainer_readings(job) or job.partial):
            return
        settings = deepspeed_settings(job)
        accelerate = accelerate_reading(job)
        where: Fact[Any] | None = None
        if settings is not None and settings.integer("zero_optimization", "stage") == 3:
            if not settings.certain:
                return
            for key in KEYS:
                if settings.has("zero_optimization", key):
                    if settings.on("zero_optimization", key) is not False:
                        return
                    where = settings.fact("zero_optimization", key)
            key = KEYS[0]
            where = where or settings.fact("zero_optimization", "stage")
            subject: object = settings.reading
        elif accelerate is not None and isinstance(accelerate.at("deepspeed_config"), Mapping):
            route = ("deepspeed_config", "zero3_save_16bit_model")
            if guessed(job, accelerate) or accelerate.value("deepspeed_config", "deepspeed_config_file") is not None:
                return
            if accelerate.at(*route) is not None and boolean(accelerate.value(*route)) is not False:
                return
            key = "zero3_save_16bit_model"
            where = Fact(None, accelerate.origin(*route)) if accelerate.at(*route) is not None else stage
            subject = accelerate
        else:
            return
        seen: set[int] = context.shared.setdefault(self.code, set())
        if id(subject) in seen:
            return
        seen.add(id(subject))
        yield self.finding(
            f"ZeRO-3 without {key}: the model is saved as DeepSpeed's shards, which zero_to_fp32.py puts together",
            where,
            (stage, "each rank has a part of every weight") if where is not stage else None,
            help=f"set {key}: true where the saved model is to be loaded as it is",
            confidence="low" if job.partial else self.confidence,
            job=job,
        )
