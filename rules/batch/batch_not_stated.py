"""BAT022."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, deepspeed_settings, handed_to_deepspeed, trainer_readings
from .deepspeed_batch_identity import MICRO, TOTAL


class BatchNotStated(Rule):
    """A DeepSpeed file has neither a total nor a micro-batch size, not even as `auto`.

    transformers and Accelerate fill in what is written as "auto"; a key that is not there stays away, and DeepSpeed stops
    with "Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided", after the model has been loaded.

    How sure: read in the sources of all three (transformers 5.24, Accelerate 1.15, DeepSpeed 0.16), not run. Elastic
    training chooses the batch itself. A warning of medium confidence.
    """

    code = "BAT022"
    name = "batch-not-stated"
    family = "batch"
    severity = "warning"
    confidence = "medium"
    catalogue = ("ds.batch-underspecified",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/config.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "run.sh": "deepspeed --num_gpus 4 main.py --deepspeed --deepspeed_config ds.json",
                "ds.json": """
                {"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}
                """,
            },
            count=1,
            note="DeepSpeed reads the file itself",
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
                {"gradient_clipping": 1.0, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}
                """,
            },
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        named = argument(job, "deepspeed", "deepspeed_config") if trainer_readings(job) else handed_to_deepspeed(job)
        if settings is None or named is None or not settings.certain:
            return
        if settings.has(TOTAL) or settings.has(MICRO) or settings.on("elasticity", "enabled"):
            return
        if not settings.has("zero_optimization"):
            return  # a file that DeepSpeed cannot use for more than this
        seen: set[int] = context.shared.setdefault(self.code, set())
        if id(settings.reading) in seen:
            return
        seen.add(id(settings.reading))
        yield self.finding(
            f"the DeepSpeed file has neither {MICRO} nor {TOTAL}: DeepSpeed stops at its start",
            settings.reading,
            (named, "used by this run"),
            help=f'"{MICRO}": "auto"' if trainer_readings(job) else f'state "{MICRO}"',
            job=job,
        )
