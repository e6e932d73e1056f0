"""BAT010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument, parameter_count, shown, trainer_readings, trains_adapters

LARGE_MODEL = 3_000_000_000
"""Parameters from which a model's fine-tuning rates are well below those of small encoders."""

SEVEN_BILLION = 6_500_000_000
"""Parameters from which the bound itself is reported: 1e-4 is the rate that is copied from adapters."""

ADAMS = (
    "adamw", "adam_mini", "paged_adamw", "stable_adamw", "fused_adam", "optimi_adamw", "ademamix", "paged_ademamix",
)  # fmt: skip
"""Beginnings of optimizer names whose steps have the size of the learning rate."""


class LearningRateOutOfRange(Rule):
    """The learning rate is far from what full fine-tuning, or adapters, of such a model use.

    Full fine-tuning of a large model with Adam uses 1e-6 to 5e-5; adapters start from zero and need about ten times as
    much, 1e-5 to 1e-3. Most often one of the two is copied to the other: full fine-tuning at an adapter's rate diverges
    or forgets the model, adapters at a full rate hardly learn, and neither is said anywhere.

    How sure: experience of many recipes, no law: it is information, for models from three billion parameters, with Adam, and
    for supervised fine-tuning with transformers' trainer. Pretraining, preference methods and reinforcement learning, and
    rates that are defaults or unknown, are left out. The bounds are parameters.
    """

    code = "BAT010"
    name = "learning-rate-out-of-range"
    family = "batch"
    severity = "info"
    confidence = "medium"
    catalogue = ("peft.lr-full-ft-range",)
    evidence = (
        "https://arxiv.org/abs/2405.09673",
        "https://arxiv.org/abs/2305.14314",
    )
    parameters = {
        "full_most": Parameter(
            1e-4, "above this rate, and from 7B at it, full fine-tuning is reported; recipes use 1e-6 to 5e-5"
        ),
        "adapter_least": Parameter(2e-6, "up to this rate adapters are reported; recipes use 1e-5 to 5e-4"),
        "adapter_most": Parameter(5e-3, "above this rate adapters are reported"),
    }
    good = (
        example(
            "lora.yml",
            """
            base_model: meta-llama/Llama-3.1-8B
            adapter: lora
            lora_r: 16
            lora_alpha: 32
            lora_target_linear: true
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            optimizer: adamw_torch_fused
            learning_rate: 0.0002
            """,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: google-bert/bert-base-uncased
            per_device_train_batch_size: 32
            learning_rate: 1.0e-4
            num_train_epochs: 3
            """,
            note="a small encoder",
        ),
    )
    bad = (
        example(
            "full.yml",
            """
            base_model: meta-llama/Llama-3.1-8B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            optimizer: adamw_torch_fused
            learning_rate: 0.001
            """,
            at="learning_rate",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        rate, method = job.learning_rate, job.value("method")
        if rate is None or isinstance(rate.origin, DefaultOrigin) or not isinstance(rate.value, (int, float)):
            return
        if method == "pretrain" and job.reading("llamafactory") is not None:
            method = "full"  # its stage pt goes on from a checkpoint
        if method not in ("full", "lora", "qlora", "dora") or rate.value <= 0:
            return
        if not trainer_readings(job) or argument(job, "rl") is not None:
            return  # a preference or reinforcement method the job's method has no word for
        optimizer = job.value("optimizer")
        if not isinstance(optimizer, str) or not optimizer.startswith(ADAMS) or parameter_count(job) < LARGE_MODEL:
            return
        bounds = {name: value for name, value in self.options.items() if isinstance(value, (int, float))}
        if trains_adapters(job):
            low, high, usual = bounds.get("adapter_least"), bounds.get("adapter_most"), "1e-5 to 1e-3 is usual"
            what = "adapters"
        elif job.value("quantization"):
            return  # quantized weights are not trained: a script that names no adapter brings its own
        else:
            low, high, usual = None, bounds.get("full_most"), "1e-6 to 5e-5 is usual"
            what = "full fine-tuning"
        below = low is not None and rate.value <= low
        above = high is not None and (
            rate.value > high or (rate.value == high and parameter_count(job) >= SEVEN_BILLION)
        )
        if not below and not above:
            return
        yield self.finding(
            f"learning rate {shown(float(rate.value))} for {what} of {parameter_count(job) / 1e9:.1f} B parameters: {usual}",
            rate,
            (job.fact("method"), what),
            help="adapters take about ten times the rate of full fine-tuning",
            job=job,
        )
