"""MEM017."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, sections, trainer_readings


class CheckpointingTwice(Rule):
    """Activation checkpointing is on in FSDP's settings and in the trainer's arguments.

    transformers refuses the pair: "The activation_checkpointing in FSDP config and the gradient_checkpointing in training
    arg can't be set to True simultaneously". With FSDP its own is the better one: the trainer's gathers the parameters once
    more in backward.

    How sure: the check is in transformers' trainer.py (4.57, 5.24), for `fsdp_config` in the arguments and in Accelerate's
    file alike. Axolotl is left out: it hands only one of them on.
    """

    code = "MEM017"
    name = "checkpointing-twice"
    family = "memory"
    severity = "error"
    catalogue = ("mem.fsdp-double-ckpt",)
    evidence = (
        "https://github.com/huggingface/transformers/issues/30404",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            gradient_checkpointing: false
            fsdp: full_shard auto_wrap
            fsdp_config:
              activation_checkpointing: true
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            gradient_checkpointing: true
            fsdp: full_shard auto_wrap
            fsdp_config:
              activation_checkpointing: true
            """,
            at="activation_checkpointing",
            count=1,
        ),
        example(
            {
                "run.sh": """
                torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --gradient_checkpointing True \\
                  --per_device_train_batch_size 1 --num_train_epochs 1 --fsdp full_shard --fsdp_config fsdp.json
                """,
                "fsdp.json": """
                {"transformer_layer_cls_to_wrap": ["Qwen2DecoderLayer"], "activation_checkpointing": true}
                """,
            },
            at="activation_checkpointing",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        readings = trainer_readings(job)
        if not readings or any(r.dialect not in ("hf-training-args", "trl") for r in readings):
            return
        trainer = argument_on(job, "gradient_checkpointing", "activation_checkpointing")
        if trainer is None or not trainer.value or job.value("fsdp") in (None, "none"):
            return
        for settings in sections(job, "fsdp_config"):
            if settings.reading.dialect == "accelerate" and settings.reading.context.get("distributed_type") != "FSDP":
                continue
            for key in ("activation_checkpointing", "fsdp_activation_checkpointing"):
                if boolean(settings.value(key)) is True:
                    yield self.finding(
                        "FSDP's activation checkpointing and the trainer's are both on: the trainer stops with a ValueError",
                        settings.fact(key),
                        (trainer, "the trainer's"),
                        help="keep FSDP's, and switch gradient_checkpointing off",
                        job=job,
                    )
                    return
