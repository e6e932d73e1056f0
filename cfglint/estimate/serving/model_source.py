"""The model a server loads: the job's own, or what a quantized re-publication says it is made from."""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.catalog.architecture import Architecture
from cfglint.jobs.job import ServingJob


@dataclass(frozen=True)
class ServedModel:
    architecture: Architecture | None
    id: str
    source: str
    problem: str = ""


def served_model(job: ServingJob) -> ServedModel:
    """The job's model; ``problem`` names what is missing."""
    if job.model is None:
        return ServedModel(None, str(job.value("model_id") or ""), "", "the model")
    if job.model.architecture is None:
        return ServedModel(
            None, job.model.id, job.model.source, job.model.problem or f"dimensions of the model {job.model.id}"
        )
    return ServedModel(job.model.architecture, job.model.id, job.model.source)
