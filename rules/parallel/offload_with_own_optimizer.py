"""PAR023."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import deepspeed_settings, handed_to_deepspeed

REFUSED_SINCE = "0.8.3"
"""First DeepSpeed release with ``zero_force_ds_cpu_optimizer``, on by default (DeepSpeed pull request 2971)."""


class OffloadWithOwnOptimizer(Rule):
    """The optimizer is offloaded and the DeepSpeed file names none: the script's own must be DeepSpeed's CPU Adam.

    With `offload_optimizer` DeepSpeed steps on the CPU, and from 0.8.3 on it refuses an optimizer that is not made for it: "You
    are using ZeRO-Offload with a client provided optimizer (<class 'torch.optim.adamw.AdamW'>) which in most cases will yield
    poor performance. Please either use deepspeed.ops.adam.DeepSpeedCPUAdam or set an optimizer in your ds-config". transformers
    and Accelerate exchange the optimizer by themselves; a script that calls `deepspeed.initialize` does not.

    How sure: reported many times. Which optimizer the script makes is not in its files, so it is information.
    """

    code = "PAR023"
    name = "offload-with-own-optimizer"
    family = "parallel"
    severity = "info"
    confidence = "medium"
    catalogue = ("par.offload-client-optimizer",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/pull/2971",
        "https://github.com/InternLM/xtuner/issues/236",
        "https://github.com/deepspeedai/DeepSpeed/issues/7524",
    )
    good = (
        example(
            {
                "run.sh": "deepspeed --num_gpus 4 main.py --deepspeed --deepspeed_config ds.json",
                "ds.json": """
                {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "run.sh": "deepspeed --num_gpus 4 main.py --deepspeed --deepspeed_config ds.json",
                "ds.json": """
                {"train_micro_batch_size_per_gpu": 2,
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
            at="device",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings, named = deepspeed_settings(job), handed_to_deepspeed(job)
        if settings is None or named is None or not settings.certain or settings.has("optimizer"):
            return
        device = settings.value("zero_optimization", "offload_optimizer", "device")
        if device not in ("cpu", "nvme") or settings.on("zero_force_ds_cpu_optimizer") is False:
            return
        if always_below(job.versions.get("deepspeed"), REFUSED_SINCE):
            return
        yield self.finding(
            f"the optimizer is offloaded to {device} and the file names none: DeepSpeed stops unless the script makes a "
            "DeepSpeedCPUAdam",
            settings.fact("zero_optimization", "offload_optimizer", "device"),
            (named, "handed to DeepSpeed itself"),
            help='name it in the file ("optimizer": {"type": "AdamW", …}), or set zero_force_ds_cpu_optimizer: false',
            job=job,
        )
