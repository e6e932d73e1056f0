"""Estimates of a job: memory per device and host, effective batch, compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfglint.estimate.result import Estimate
    from cfglint.jobs.job import Job


def estimate(job: Job) -> Estimate:
    """Estimate a training or serving job."""
    from cfglint.jobs.job import ServingJob, TrainingJob

    if isinstance(job, ServingJob):
        from cfglint.estimate.serving import estimate_serving

        return estimate_serving(job)
    if isinstance(job, TrainingJob):
        from cfglint.estimate.undecided import estimate_undecided

        return estimate_undecided(job)
    raise TypeError(f"not a job: {job!r}")
