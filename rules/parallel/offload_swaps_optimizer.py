"""PAR013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import deepspeed_settings, trainer_fact, trainer_readings

KEPT = frozenset({
    "adamw_torch", "adamw_torch_fused", "adamw_torch_xla", "adamw_torch_npu_fused", "adamw_torch_4bit", "adamw_torch_8bit",
    "paged_adamw_32bit", "adagrad", "lion", "paged_lion_32bit",
})  # fmt: skip
"""Optimizers Accelerate replaces by DeepSpeed's CPU version of the same (utils/deepspeed.py,
``map_pytorch_optim_to_deepspeed``), and torchao's, which nothing is known of."""


class OffloadSwapsOptimizer(Rule):
    """With the optimizer offloaded, Accelerate replaces this optimizer by DeepSpeed's CPU Adam.

    DeepSpeed steps offloaded states on the CPU, so Accelerate exchanges the trainer's optimizer. Torch's and bitsandbytes'
    32-bit AdamW become DeepSpeedCPUAdam in AdamW mode; everything else (8-bit AdamW, Adafactor, SGD, GaLore, Muon …) becomes
    plain Adam with L2 regularization, with the learning rate and weight decay of the one that was asked for. Nothing is
    logged.

    How sure: read in Accelerate 1.15, not measured. Left out: DeepSpeed files with an `optimizer` of their own, or with
    `zero_force_ds_cpu_optimizer: false`, and optimizers that are defaults.
    """

    code = "PAR013"
    name = "offload-swaps-optimizer"
    family = "parallel"
    severity = "warning"
    confidence = "medium"
    catalogue = ("ds.offload-optimizer-swap",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/deepspeed.py",
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                optim: adamw_torch_fused
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
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
                optim: adafactor
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto",
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
            at="optim",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        offload, optimizer = job.offload_optimizer, trainer_fact(job, "optimizer")
        if offload is None or offload.value not in ("cpu", "nvme") or not trainer_readings(job) or optimizer is None:
            return
        if job.zero_stage is None or isinstance(optimizer.origin, DefaultOrigin):
            return
        if not isinstance(optimizer.value, str) or optimizer.value in KEPT:
            return
        settings = deepspeed_settings(job)
        if settings is not None and (
            settings.has("optimizer") or settings.on("zero_force_ds_cpu_optimizer") is False or not settings.certain
        ):
            return
        yield self.finding(
            f"{optimizer.value} is replaced by DeepSpeed's CPU Adam (not AdamW), since the optimizer is offloaded",
            (optimizer, "replaced"),
            (offload, "steps on the CPU"),
            help="use adamw_torch, or keep the optimizer on the GPU, or set zero_force_ds_cpu_optimizer: false",
            job=job,
        )
