"""How the memory rules name a job's accelerator, and settings in the words of the job's own files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cfglint.jobs.job import Job


def accelerator_words(job: Job) -> str:
    """The accelerator's catalogue name, or the name as written where it can mean several."""
    accelerator = job.hardware.accelerator
    return accelerator.id if accelerator is not None else job.hardware.name


def in_own_keys(job: Job, facts: Mapping[str, Any]) -> str:
    """Facts as the job's files would say them: flags of a command, keys of a file; by their own names where no key is known."""
    from cfglint.estimate.fit.result import settings_words  # what only a finding needs
    from cfglint.estimate.fit.settings import settings_for

    settings = settings_for(job, facts)
    return settings_words(settings) if settings else ", ".join(f"{name}: {value}" for name, value in facts.items())
