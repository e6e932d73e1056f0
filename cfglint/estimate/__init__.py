"""Estimates of a job: memory per device and host, effective batch, compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfglint.estimate.result import Estimate
    from cfglint.jobs.job import Job


def estimate(job: Job) -> Estimate:
    """Estimate a training or serving job."""
    from cfglint.jobs.job import ServingJob, TrainingJob, with_facts

    if isinstance(job, ServingJob):
        from cfglint.estimate.serving import estimate_serving

        return estimate_serving(job)
    if isinstance(job, TrainingJob):
        from cfglint.estimate.training import estimate_training

        made = estimate_training(job)
        if job.sharding_open:
            from cfglint.estimate.open_sharding import either

            return either(made, estimate_training(with_facts(job, zero_stage=3)), job)
        return made
    raise TypeError(f"not a job: {job!r}")
