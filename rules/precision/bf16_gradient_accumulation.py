"""PRC015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import scalar
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from .stated_precision import deepspeed_sections


class Bf16GradientAccumulation(Rule):
    """Gradients of many micro-batches are summed in bf16.

    With ZeRO, DeepSpeed accumulates gradients in the training type unless ``data_types.grad_accum_dtype`` says otherwise.
    bf16 has eight bits of precision: once the sum is 256 times an addend, the addend is lost.

    How sure: get_data_types of DeepSpeed's engine. How much it hurts depends on the gradients, and fp32 costs two more bytes
    per parameter, so this is information for a strict reader.
    """

    code = "PRC015"
    name = "bf16-gradient-accumulation"
    family = "precision"
    severity = "info"
    persona = "strict"
    confidence = "medium"
    parameters = {"min_steps": Parameter(8, "fewest accumulation steps that are reported")}
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/engine.py",
    )
    catalogue = ("ds.bf16-grad-accum-dtype",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "gradient_accumulation_steps": 16,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "data_types": {"grad_accum_dtype": "fp32"}
            }
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "gradient_accumulation_steps": 2,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true}
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
              "gradient_accumulation_steps": 16,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true}
            }
            """,
            at="gradient_accumulation_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps, compute, stage = job.gradient_accumulation_steps, job.compute_dtype, job.zero_stage
        if steps is None or compute is None or stage is None or compute.value != "bf16" or stage.value < 1:
            return
        if not isinstance(steps.value, int) or steps.value < self.options["min_steps"]:
            return
        sections = [(r, s) for r in job.readings for s in deepspeed_sections(r)]
        if not sections or any(scalar(r.at(*s, "data_types", "grad_accum_dtype")) is not None for r, s in sections):
            return
        yield self.finding(
            f"gradients of {steps.value} micro-batches are summed in bf16, which has eight bits of precision",
            (steps, f"{steps.value} additions"),
            (compute, "bf16"),
            help='set data_types.grad_accum_dtype to "fp32" (two more bytes per parameter)',
            job=job,
        )
