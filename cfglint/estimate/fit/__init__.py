"""What would fit: largest sizes, changes of settings ranked by cost, the smallest accelerators."""

from __future__ import annotations

from cfglint.estimate.fit.result import Change, Fit, KeptBatch, Largest, OnAccelerator, Setting
from cfglint.estimate.fit.training import fit_training, fitting_changes
from cfglint.estimate.fit.what_if import WhatIf
from cfglint.jobs.job import Job, ServingJob, TrainingJob

__all__ = [
    "Change",
    "Fit",
    "KeptBatch",
    "Largest",
    "OnAccelerator",
    "Setting",
    "WhatIf",
    "fit",
    "fit_training",
    "fitting_changes",
]


def fit(job: Job) -> Fit:
    """What would fit of a training or serving job."""
    if isinstance(job, ServingJob):
        from cfglint.estimate.fit.serving import fit_serving

        return fit_serving(job)
    if isinstance(job, TrainingJob):
        return fit_training(job)
    raise TypeError(f"not a job: {job!r}")
