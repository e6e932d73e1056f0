"""The model a server loads: the job's own, or the one a quantized re-publication is named after."""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.catalog.architecture import Architecture
from cfglint.jobs.job import ModelFacts, ServingJob
from cfglint.jobs.named_models import is_bare, is_mirror, published_as, stated_name, without_format


@dataclass(frozen=True)
class ServedModel:
    """``problem`` names what is missing; ``format`` is the quantization that a re-publication's name states."""

    architecture: Architecture | None
    id: str
    problem: str = ""
    format: str | None = None
    assumption: str = ""
    certain: bool = True
    """False where a bare name or a path is all there is: then no verdict is final."""


def served_model(job: ServingJob) -> ServedModel:
    """The job's model, or for a quantized re-publication that is not in the catalogue the model it is named after."""
    name = stated_name(job)
    model = job.model
    if model is not None and model.architecture is not None:
        republished = _format_of_row(model, name)
        if republished is not None:
            return republished
        return ServedModel(model.architecture, model.id, certain=not _may_be_published_smaller(job, model))
    base, label = without_format(name)
    plain = base if label is None else f"{base}-{label}"
    if is_bare(name) or (label is None and is_mirror(name)):
        found = published_as(plain)
        if found is not None:
            return ServedModel(
                found.architecture, found.id, "", None, f"{name} is taken as {found.id}, as its name says"
            )
    if label is not None:
        found = published_as(base)
        if found is not None:
            text = f"{name} is taken as {found.id} with quantized weights, as its name says"
            return ServedModel(found.architecture, found.id, "", label, text, not is_bare(name))
    if model is None:
        return ServedModel(None, name, "model")
    return ServedModel(None, model.id, model.problem or f"dimensions of {model.id}")


def _format_of_row(model: ModelFacts, name: str) -> ServedModel | None:
    """A catalogued re-publication whose row does not have the quantization that its name states."""
    base, label = without_format(name)
    if label is None or model.row is None or model.architecture is None or model.architecture.quantization:
        return None
    found = published_as(base)
    architecture = model.architecture if found is None else found.architecture
    text = f"{name} is taken with weights in {label}, as its name says"
    return ServedModel(architecture, model.id, "", label, text, not is_bare(name))


def _may_be_published_smaller(job: ServingJob, model: ModelFacts) -> bool:
    """A mixture of experts whose checkpoint's dtype nobody read: many are published in FP8 or INT4."""
    row, architecture = model.row, model.architecture
    if row is None or architecture is None or architecture.moe is None or architecture.quantization:
        return False
    stated = job.value("dtype") not in (None, "auto") or job.value("quantization") is not None
    return not stated and not row.native_dtype_sourced


def named_model(name: str) -> Architecture | None:
    """A model named by a setting, a draft model for one; None where the catalogue does not have it."""
    from cfglint.catalog.models import architecture_of, find_model

    row = find_model(name)
    return architecture_of(row) if row is not None else None


__all__ = ["ServedModel", "named_model", "served_model", "without_format"]
