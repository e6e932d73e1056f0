"""Jobs of measured steps: facts in the words of the job file, with the model's config inline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob


def training_job(mapping: Mapping[str, Any]) -> TrainingJob:
    job = TrainingJob(str(mapping.get("name", "job")))
    for key, value in mapping.items():
        if key != "name":
            state(job, key, value, SettingOrigin("steps", key))
    job.hardware = resolve_hardware(job)
    origin = SettingOrigin("steps", "model")
    job.model = ModelFacts("inline", architecture_from_config(mapping["model"]), "the job file", origin)
    return job
