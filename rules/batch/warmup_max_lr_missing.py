"""BAT006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import deepspeed_settings, shown
from .deepspeed_scheduler import scheduler_type

OWN_DEFAULT = 0.001
"""``warmup_max_lr`` of WarmupLR and WarmupDecayLR where it is not given (deepspeed/runtime/lr_schedules.py)."""
FIXED_IN = "0.17.2"
"""First release whose WarmupLR takes the optimizer's learning rate (DeepSpeed#7360); WarmupDecayLR keeps its default."""


class WarmupMaxLrMissing(Rule):
    """DeepSpeed's warmup goes to its own 0.001 and not to the optimizer's learning rate.

    The schedulers WarmupLR and WarmupDecayLR set the learning rate themselves. Without `warmup_max_lr` the maximum is
    0.001, whatever `optimizer.params.lr` says: hundreds of times too high for most fine-tuning, and nothing is logged.

    How sure: reported, and in DeepSpeed's source. WarmupLR takes the optimizer's rate since 0.17.2, WarmupDecayLR keeps
    0.001 in the newest release read (0.19.8). Nothing is said where the optimizer's rate is 0.001, or is not in the file.
    """

    code = "BAT006"
    name = "warmup-max-lr-missing"
    family = "batch"
    severity = "warning"
    fixable = "unsafe"
    catalogue = ("ds.warmup-max-lr-missing",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/issues/7303",
        "https://github.com/deepspeedai/DeepSpeed/pull/7360",
    )
    good = (
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 1,
                  "optimizer": {"type": "AdamW", "params": {"lr": 5e-7}},
                  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
                  "zero_optimization": {"stage": 1}
                }
                """,
                "requirements.txt": "deepspeed>=0.18",
            },
            note="fixed in DeepSpeed 0.17.2",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 1,
              "optimizer": {"type": "AdamW", "params": {"lr": 5e-7}},
              "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
              "zero_optimization": {"stage": 1}
            }
            """,
            at="type",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = deepspeed_settings(job)
        kind = (scheduler_type(settings) or "").strip().lower()
        if settings is None or kind not in ("warmuplr", "warmupdecaylr"):
            return
        rate = settings.value("optimizer", "params", "lr")
        if rate is None or rate == OWN_DEFAULT or settings.has("scheduler", "params", "warmup_max_lr"):
            return
        decided = always_at_least(job.versions.get("deepspeed"), FIXED_IN)
        if kind == "warmuplr" and decided:
            return
        params = settings.node("scheduler", "params")
        edit = None
        if isinstance(params, Mapping) and params.keys():
            after = (*settings.prefix, "scheduler", "params", params.keys()[-1])
            text = '"auto"' if isinstance(rate, str) else shown(rate)
            edit = insert_key(settings.reading, after, "warmup_max_lr", text)
        yield self.finding(
            f"the learning rate warms up to {OWN_DEFAULT}, not to the optimizer's {shown(rate)}: warmup_max_lr is missing",
            settings.fact("scheduler", "type"),
            (settings.fact("optimizer", "params", "lr"), "overridden by the scheduler"),
            help="state warmup_max_lr"
            + (f"; DeepSpeed {FIXED_IN} and later take the optimizer's" if kind == "warmuplr" else ""),
            fixes=(Fix("add warmup_max_lr with the optimizer's learning rate", (edit,), safe=False),) if edit else (),
            confidence="high" if kind == "warmupdecaylr" or decided is False else "medium",
            job=job,
        )
