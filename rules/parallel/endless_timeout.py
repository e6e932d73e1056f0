"""PAR011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument_number, shown

SECONDS_PER_DAY = 86_400


class EndlessTimeout(Rule):
    """`ddp_timeout` is so long that a rank that died or hangs is never noticed.

    The timeout is how long ranks wait for each other before NCCL's watchdog ends the run. 180000000 seconds, the value of
    many templates, are 5.7 years: a hang keeps the GPUs busy, and paid for, until somebody looks.

    How sure: arithmetic. The value is copied on purpose to get over long preprocessing, so it is information, and given
    once per run of cfglint.
    """

    code = "PAR011"
    name = "endless-timeout"
    family = "parallel"
    severity = "info"
    catalogue = ("par.ddp-timeout-huge",)
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/7263",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )
    parameters = {"seconds": Parameter(1_000_000, "timeouts from this length on are reported; 1000000 s are 11.6 days")}
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            ddp_timeout: 7200
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            ddp_timeout: 180000000
            """,
            at="ddp_timeout",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        timeout, least = argument_number(job, "ddp_timeout"), self.options["seconds"]
        if timeout is None or not isinstance(least, (int, float)) or timeout.value < least:
            return
        if context.shared.setdefault(self.code, False):
            return
        context.shared[self.code] = True
        days = timeout.value / SECONDS_PER_DAY
        yield self.finding(
            f"ddp_timeout {shown(int(timeout.value))} s is {days:,.0f} days: a hang is never noticed",
            timeout,
            help="7200 covers long preprocessing; a tokenized data set on disk needs no longer timeout at all",
            job=job,
        )
