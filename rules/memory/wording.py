"""How the memory rules name a job's accelerator."""

from __future__ import annotations

from cfglint.jobs.job import Job


def accelerator_words(job: Job) -> str:
    """The accelerator's catalogue name, or the name as written where it can mean several."""
    accelerator = job.hardware.accelerator
    return accelerator.id if accelerator is not None else job.hardware.name
