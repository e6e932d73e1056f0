"""BAT004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import remove_key
from cfglint.lint.rule import Rule, example

from ..trainer import argument, deepspeed_settings, trainer_readings, word
from .deepspeed_scheduler import CURVES, EQUIVALENT, scheduler_type


class SchedulerOverridden(Rule):
    """DeepSpeed's scheduler replaces the one the trainer's arguments ask for.

    Where the DeepSpeed file has a `scheduler`, transformers makes no schedule of its own: `lr_scheduler_type: cosine`
    is passed over in silence, and with `WarmupLR` the learning rate stays where the warmup left it, to the end of the
    run. This shows only in a plot of the learning rate.

    How sure: transformers hands the schedule over wherever the key is there (integrations/deepspeed.py,
    `deepspeed_optim_and_sched`), and users report it. WarmupLR counts as constant with warmup, WarmupDecayLR as linear,
    WarmupCosineLR as cosine; other types and a scheduler the trainer's arguments do not name are left out.
    """

    code = "BAT004"
    name = "scheduler-overridden"
    family = "batch"
    severity = "warning"
    fixable = "unsafe"
    catalogue = ("ds.scheduler-overrides-hf",)
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/394",
        "https://github.com/hiyouga/LlamaFactory/issues/2495",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                lr_scheduler_type: linear
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_num_steps": "auto",
                    "warmup_max_lr": "auto"}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="WarmupDecayLR is the linear schedule",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                lr_scheduler_type: cosine
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="lr_scheduler_type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not trainer_readings(job):
            return
        settings = deepspeed_settings(job)
        kind = scheduler_type(settings)
        asked = argument(job, "lr_scheduler_type", "lr_scheduler")
        name = word(asked)
        if settings is None or kind is None or asked is None or name is None or not settings.certain:
            return
        same = EQUIVALENT.get(kind.strip().lower())
        if same is None or name in same:
            return
        what = CURVES[kind.strip().lower()]
        edit = remove_key(settings.reading, (*settings.prefix, "scheduler"))
        yield self.finding(
            f"lr_scheduler_type {name} has no effect: DeepSpeed's {kind} replaces it, the learning rate {what}",
            (asked, "passed over"),
            (settings.fact("scheduler", "type"), "in force"),
            help="take the scheduler out of the DeepSpeed file: the trainer's schedule is in force then",
            fixes=(Fix("take the scheduler out of the DeepSpeed file", (edit,), safe=False),) if edit else (),
            job=job,
        )
