"""BAT005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, deepspeed_settings
from .deepspeed_scheduler import scheduler_type


class WarmupLrNeverDecays(Rule):
    """DeepSpeed's `WarmupLR` keeps the learning rate constant after its warmup.

    The name suggests a usual schedule, but WarmupLR is a warmup and nothing else: the learning rate stays at its maximum to
    the end. WarmupDecayLR (linear) and WarmupCosineLR decay. It is DeepSpeed's most copied example.

    How sure: documented and in DeepSpeed's lr_schedules.py. A constant rate may be meant, so it is information, and nothing
    is said where the trainer's arguments ask for a constant schedule; where they ask for another one, scheduler-overridden
    says so.
    """

    code = "BAT005"
    name = "warmup-lr-never-decays"
    family = "batch"
    severity = "info"
    catalogue = ("ds.warmuplr-no-decay",)
    evidence = (
        "https://github.com/huggingface/transformers/issues/15508",
        "https://deepspeed.readthedocs.io/en/latest/schedulers.html",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/lr_schedules.py",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000, "warmup_num_steps": 200, "warmup_max_lr": 1e-5}},
              "zero_optimization": {"stage": 2}
            }
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 200, "warmup_max_lr": 1e-5}},
              "zero_optimization": {"stage": 2}
            }
            """,
            at="type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        kind = scheduler_type(settings)
        if settings is None or kind is None or kind.strip().lower() != "warmuplr":
            return
        if argument(job, "lr_scheduler_type", "lr_scheduler") is not None:
            return
        seen: set[int] = context.shared.setdefault(self.code, set())
        if id(settings.reading) in seen:
            return
        seen.add(id(settings.reading))
        yield self.finding(
            f"{kind} never decays: the learning rate stays at its maximum after warmup",
            settings.fact("scheduler", "type"),
            help="WarmupDecayLR decays linearly, WarmupCosineLR along a cosine; both need total_num_steps",
            job=job,
        )
