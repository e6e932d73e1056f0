"""PRC017."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin, DerivedOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import trains_adapters
from .stated_precision import inference_only, uses_deepspeed, uses_fsdp

PLAIN_OPTIMIZERS = (
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_8bit",
    "paged_adamw_8bit",
    "paged_adamw_32bit",
    "adafactor",
)
"""Optimizers that update the parameter in its own dtype, without a compensated or stochastic rounding."""


class Bf16WeightsWithoutMaster(Rule):
    """All parameters are trained in bf16, without an fp32 copy.

    bf16 has eight bits of precision: an update smaller than 1/512 of a parameter is rounded away. At the usual
    learning rates of fine-tuning most updates are, and the loss stays higher than with fp32 parameters under bf16 autocast.
    DeepSpeed keeps fp32 masters by itself, and Accelerate's FSDP casts what it trains.

    How sure: the arithmetic is certain, the harm depends on the run. People choose it to save six bytes per parameter, so
    it is information for a strict reader, except in a script's own arguments with a learning rate of 1e-5 or less, where
    Adam's updates are below 1/512 of four weights in five (weights of standard deviation 0.02). It is said only where the
    file itself asks for bf16 weights; what merely follows from
    the checkpoint is dtype-follows-checkpoint's. A launcher that is not in sight may bring DeepSpeed: medium confidence.
    """

    code = "PRC017"
    name = "bf16-weights-without-master"
    family = "precision"
    severity = "info"
    confidence = "medium"
    parameters = {
        "max_learning_rate": Parameter(1e-4, "largest learning rate that is reported: larger updates survive"),
        "told_to_all": Parameter(1e-5, "learning rate up to which it is not for strict readers alone"),
    }
    evidence = (
        "https://github.com/pytorch/pytorch/issues/120376",
        "https://github.com/areal-project/AReaL/issues/1292",
        "https://github.com/pytorch/ao/pull/1124",
    )
    catalogue = ("bf16.no-fp32-master",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            torch_dtype: float32
            bf16: true
            per_device_train_batch_size: 4
            learning_rate: 1.0e-5
            num_train_epochs: 1
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            torch_dtype: bfloat16
            bf16: true
            use_lora: true
            lora_r: 16
            per_device_train_batch_size: 4
            learning_rate: 1.0e-5
            num_train_epochs: 1
            """,
            note="adapters are fp32",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            torch_dtype: bfloat16
            bf16: true
            per_device_train_batch_size: 4
            learning_rate: 1.0e-5
            num_train_epochs: 1
            """,
            at="torch_dtype",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        weights, rate, optimizer = job.weight_dtype, job.learning_rate, job.optimizer
        if job.partial or weights is None or weights.value != "bf16" or trains_adapters(job) is not False:
            return
        if isinstance(weights.origin, (DefaultOrigin, DerivedOrigin)) or uses_deepspeed(job) or uses_fsdp(job):
            return
        if optimizer is None or optimizer.value not in PLAIN_OPTIMIZERS or inference_only(job):
            return
        if rate is None or not isinstance(rate.value, float) or rate.value > self.options["max_learning_rate"]:
            return
        masters = job.master_weights
        if masters is not None and masters.value:
            return
        finding = self.finding(
            f"parameters are trained in bf16 without an fp32 copy: at learning rate {rate.value:g} updates below 1/512 of a "
            "parameter are lost",
            (weights, "parameters in bf16"),
            (rate, "small updates"),
            help="load in float32 and let bf16 autocast compute (two more bytes per parameter, twice the gradients and "
            "states), or use an optimizer with stochastic rounding",
            job=job,
        )
        small = self.options["told_to_all"]
        if not isinstance(small, (int, float)) or rate.value > small or job.reading("hf-training-args") is None:
            finding.persona = "strict"
        yield finding
