"""What each setting would free: what-if copies of a job, estimated again."""

from __future__ import annotations

from typing import Any

from cfglint.jobs.facts import FlagOrigin
from cfglint.jobs.job import ServingJob

Lever = tuple[str, Any, float, str]


def with_fact(job: ServingJob, name: str, value: Any) -> ServingJob:
    """A copy of the job in which one fact has another value."""
    copy = ServingJob(job.name, job.readings)
    copy.extend(job)
    copy.model, copy.hardware, copy.versions = job.model, job.hardware, job.versions
    copy.state_first(name, value, FlagOrigin(f"what if {name}"))
    return copy


def serving_levers(job: ServingJob) -> list[Lever]:
    """(setting, new value, bytes freed per device, note), the largest first."""
    return []
