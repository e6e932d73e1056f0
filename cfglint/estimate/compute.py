"""Compute of a training job: model FLOPs of one optimizer step, and its time at 40 and 60 % of the dense peak."""

from __future__ import annotations

from cfglint import formulas
from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import BatchEstimate, ComputeEstimate
from cfglint.jobs.job import TrainingJob, likely_architecture

ATTENTION_MIXERS = ("full_attention", "sliding_attention", "chunked_attention", "mla")


def estimate_compute(job: TrainingJob, batch: BatchEstimate, trained_parameters: int | None = None) -> ComputeEstimate:
    """FLOPs per step from the architecture, seconds where one accelerator and the number of GPUs are known."""
    architecture = likely_architecture(job)
    if architecture is None or batch.tokens is None or batch.sequence_length is None:
        return ComputeEstimate()
    parameters = architecture.active_parameters or architecture.total_parameters
    if not parameters:
        return ComputeEstimate()
    attention = 0
    for layer in architecture.layers:
        width = (layer.heads or architecture.num_attention_heads) * (layer.head_dim or architecture.head_dim)
        if layer.mixer not in ATTENTION_MIXERS or width <= 0:
            continue
        seen = min(layer.window or batch.sequence_length, batch.sequence_length)
        attention += formulas.attention_forward_flops_per_token(1, width, seen)
    per_token = formulas.training_flops_per_token(parameters, attention, trained_parameters)
    compute = ComputeEstimate(flops_per_step=float(per_token * batch.tokens))
    accelerator, world = job.hardware.accelerator, job.hardware.world_size
    peak = _dense_peak(accelerator, job) if accelerator else None
    if peak and world and compute.flops_per_step:
        for mfu in formulas.MFU_TARGET:
            compute.seconds_per_step[f"mfu_{mfu * 100:.0f}"] = formulas.step_seconds(
                compute.flops_per_step, peak * world, mfu
            )
    return compute


def _dense_peak(accelerator: Accelerator, job: TrainingJob) -> float | None:
    """FLOPS of one accelerator in the dtype that matrices are multiplied in."""
    dtype = job.value("compute_dtype")
    if dtype in (None, "none"):
        dtype = job.value("weight_dtype") or "bf16"
    if dtype == "fp32":
        dtype = "tf32" if job.value("tf32") else "fp32"
    if job.value("fp8_linear"):
        dtype = "fp8"
    tflops = accelerator.tflops_dense.get(str(dtype)) or accelerator.tflops_dense.get("bf16")
    return tflops * 1e12 if tflops else None
