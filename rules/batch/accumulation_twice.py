"""BAT019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from ..trainer import argument_number, sections


class AccumulationTwice(Rule):
    """The trainer's `accelerator_config` changes what the batch arguments mean.

    `gradient_accumulation_kwargs.num_steps` beside a `gradient_accumulation_steps` above 1 stops with a ValueError: the
    trainer does not know which is meant. `split_batches: true` makes `per_device_train_batch_size` the batch of all devices
    together, so the global batch is smaller by the number of GPUs; transformers only logs it.

    How sure: both are in transformers' source (5.24). `split_batches` can be meant, so it is a warning, for more than one
    GPU.
    """

    code = "BAT019"
    name = "accumulation-twice"
    family = "batch"
    severity = "error"
    catalogue = ("hf.accel-num-steps-conflict", "hf.split-batches")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 1
            accelerator_config:
              split_batches: false
              dispatch_batches: false
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 1
            accelerator_config:
              gradient_accumulation_kwargs:
                num_steps: 4
            """,
            at="num_steps",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            accelerator_config:
              split_batches: true
            """,
            gpu="A100-80GB",
            gpus=8,
            at="split_batches",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        accumulation = argument_number(job, "gradient_accumulation_steps")
        micro = job.micro_batch_size
        for settings in sections(job, "accelerator_config"):
            route = ("gradient_accumulation_kwargs", "num_steps")
            node = settings.node(*route)
            if isinstance(node, Scalar) and accumulation is not None and accumulation.value > 1:
                yield self.finding(
                    "num_steps in accelerator_config beside gradient_accumulation_steps: the trainer stops with a ValueError",
                    settings.fact(*route),
                    accumulation,
                    help="keep gradient_accumulation_steps alone",
                    job=job,
                )
            world = job.hardware.world_size
            if boolean(settings.value("split_batches")) is True and world is not None and world > 1:
                size: Fact[int] | None = micro
                said = f"{size.value} is the batch of all {world} GPUs together" if size is not None else "it is split"
                yield self.finding(
                    f"split_batches changes per_device_train_batch_size: {said}",
                    settings.fact("split_batches"),
                    size,
                    help="take split_batches out, or give the global batch on purpose",
                    severity="warning",
                    confidence="medium",
                    job=job,
                )
