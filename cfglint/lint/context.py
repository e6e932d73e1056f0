"""What rules may ask of a run: estimates (made once, on demand), versions, settings, the other files and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import Job, Jobs, ServingJob, TrainingJob
from cfglint.jobs.versions import is_version
from cfglint.source.node import SourceFile

if TYPE_CHECKING:
    from cfglint.estimate.result import Estimate
    from cfglint.settings import Settings


class Context:
    """One run. ``files`` are all files looked at, ``readings`` what dialects read in them, ``jobs`` what they make up."""

    def __init__(
        self,
        files: Mapping[str, SourceFile],
        readings: list[Reading],
        jobs: Jobs,
        settings: Settings | None = None,
        root: Path | None = None,
    ) -> None:
        self.files = files
        self.readings = readings
        self.jobs = jobs
        self.settings = settings
        self.root = root or Path()
        """The folder that paths of the files are relative to."""
        self._estimates: dict[int, Estimate] = {}
        self._jobs_of: dict[int, list[Job]] | None = None
        self.shared: dict[str, Any] = {}
        """Rules may keep run-wide results here, under their own code."""

    def estimate(self, job: Job) -> Estimate:
        """The job's estimate, computed once per run."""
        if id(job) not in self._estimates:
            from cfglint.estimate import estimate

            self._estimates[id(job)] = estimate(job)
        return self._estimates[id(job)]

    def jobs_of(self, reading: Reading) -> list[Job]:
        """The jobs a reading belongs to: none for a file nothing names, several for a shared DeepSpeed file."""
        if self._jobs_of is None:
            self._jobs_of = {}
            for job in [*self.jobs.training, *self.jobs.serving]:
                for member in job.readings:
                    self._jobs_of.setdefault(id(member), []).append(job)
        return self._jobs_of.get(id(reading), [])

    def version(self, subject: Job | Reading, framework: str) -> str | None:
        """A framework's version or specifier for a job or reading, from files or settings; None where nothing says."""
        if isinstance(subject, Job):
            return subject.versions.get(framework)
        for job in self.jobs_of(subject):
            if framework in job.versions:
                return job.versions[framework]
        versions = subject.context.get("versions")
        found = versions.get(framework) if isinstance(versions, dict) else None
        return found if isinstance(found, str) and is_version(found) else None


__all__ = ["Context", "ServingJob", "TrainingJob"]
