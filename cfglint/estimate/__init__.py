"""Estimates of a job: memory per device and host, effective batch, compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfglint.estimate.result import Estimate
    from cfglint.jobs.job import Job

PLACED_LATER = "vllm-recipe"
"""What wraps a command whose parallel sizes are added when it is used."""


def estimate(job: Job) -> Estimate:
    """Estimate a training or serving job."""
    from cfglint.jobs.job import ServingJob, TrainingJob

    if isinstance(job, ServingJob):
        from cfglint.estimate.serving import estimate_serving

        made = estimate_serving(job)
        sized = any(job.stated(f"{kind}_parallel_size") for kind in ("tensor", "pipeline"))
        if not sized and any(r.context.get("wrapper") == PLACED_LATER for r in job.readings):
            # its reader chooses how many GPUs serve the model
            made.memory.missing.append("tensor_parallel_size")
            made.memory.verdict = "fits" if made.memory.verdict == "fits" else "unknown"
        return made
    if isinstance(job, TrainingJob):
        from cfglint.estimate.undecided import estimate_undecided

        return estimate_undecided(job)
    raise TypeError(f"not a job: {job!r}")
