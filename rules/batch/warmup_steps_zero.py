"""BAT007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..consistency.mismatch import compared_settings
from ..trainer import deepspeed_settings, shown
from .deepspeed_scheduler import EQUIVALENT, scheduler_type

REFUSED_FROM = "0.19.6"
"""First release that is known to refuse it (transformers' own comment; the check stands in the tag of 0.19.3)."""
CLAMPED_BELOW = "0.19.3"


class WarmupStepsZero(Rule):
    """DeepSpeed's `warmup_num_steps` is 0, which newer releases refuse.

    Releases before 0.19.3 made it 2 in silence; since then the scheduler raises "warmup_num_steps must be a positive
    integer" when the engine is made.

    How sure: the check is in DeepSpeed's lr_schedules.py (0.19.8 read). It is an error where the version is known to have
    it, a warning where the version is not known, and nothing where it is older.
    """

    code = "BAT007"
    name = "warmup-steps-zero"
    family = "batch"
    severity = "error"
    catalogue = ("ds.warmup-zero",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/lr_schedules.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 1,
              "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 1, "warmup_max_lr": 1e-5, "total_num_steps": 1000}},
              "zero_optimization": {"stage": 1}
            }
            """,
        ),
    )
    bad = (
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 1,
                  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 0, "warmup_max_lr": 1e-5, "total_num_steps": 1000}},
                  "zero_optimization": {"stage": 1}
                }
                """,
                "requirements.txt": "deepspeed==0.19.8",
            },
            at="warmup_num_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        kind = (scheduler_type(settings) or "").strip().lower()
        if settings is None or kind not in EQUIVALENT:
            return
        steps = settings.number("scheduler", "params", "warmup_num_steps")
        version = job.versions.get("deepspeed")
        if steps is None or steps > 0 or always_below(version, CLAMPED_BELOW):
            return
        certain = always_at_least(version, REFUSED_FROM)
        severity: Severity = "error" if certain else "warning"
        advice = '"auto"' if compared_settings(job) is not None else "1"
        yield self.finding(
            f"warmup_num_steps is {shown(steps)}: DeepSpeed {CLAMPED_BELOW} and later stop with a ValueError",
            settings.fact("scheduler", "params", "warmup_num_steps"),
            help=f"write {advice} for no warmup",
            severity=severity,
            confidence="high" if certain else "medium",
            job=job,
        )
