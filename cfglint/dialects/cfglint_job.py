"""cfglint's own job file: a job in the field's standard terms, for what-if questions and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.dialects.base import Dialect, Recognition
from cfglint.jobs.facts import UNKNOWN, FactField, FactSet, FileOrigin, Origin, Reading
from cfglint.jobs.job import ServingJob, TrainingJob
from cfglint.source.node import Document, Mapping, Node, Route, Sequence, at, plain

RENAMED = {"model": "model_id", "expert_parallel": "enable_expert_parallel"}
"""Keys of the job file that bear another name than the fact they state."""
LISTS = frozenset({"lora_targets", "lora_modules_to_save"})
STRUCTURE = frozenset({"cfglint", "name", "kind", "jobs"})


def fact_names(kind: str) -> set[str]:
    """Names of the facts a job of this kind has."""
    owner = ServingJob if kind == "serve" else TrainingJob
    return {name for cls in owner.__mro__ for name, value in vars(cls).items() if isinstance(value, FactField)}


class JobDialect(Dialect):
    name = "cfglint-job"
    title = "cfglint job file"
    kind = "both"
    schema = "cfglint-job"
    summary = "a job in cfglint's own words"
    markers = frozenset({"cfglint"})

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        version = root.get("cfglint")
        if version is None or ("kind" not in root and "jobs" not in root and "model" not in root):
            return None
        return Recognition(100, "cfglint: 1")

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        jobs = root.get("jobs")
        if isinstance(jobs, Sequence):
            for i, job in enumerate(jobs.items):
                if isinstance(job, Mapping):
                    yield self._job(document, job, ("jobs", i), str(i + 1))
        else:
            yield self._job(document, root, (), "")

    def _job(self, document: Document, root: Mapping, base: Route, fallback: str) -> Reading:
        kind = "serve" if _plain(root, "kind") == "serve" else "train"
        reading = Reading(self.name, document, root, role="run", kind=kind, base=base)
        name = _plain(root, "name")
        reading.name = str(name) if name is not None and base else fallback
        framework = _plain(root, "framework")
        reading.framework = framework if isinstance(framework, str) else None
        for key, entry in root.index.items():
            if key in STRUCTURE:
                continue
            origin = FileOrigin(document, (*base, key), entry.key.span, entry.value.span)
            state(reading.facts, key, plain(entry.value), origin)
            if key == "model" and isinstance(entry.value, Mapping):
                reading.context["model_config"] = plain(entry.value)
        return reading


def state(facts: FactSet, key: str, value: Any, origin: Origin) -> None:
    """State one key of a job file; null means not known, except ``compute_dtype: null``, which means no autocast."""
    name = RENAMED.get(key, key)
    if value is None:
        if key == "compute_dtype":
            facts.state(name, "none", origin)
        return
    if value in ("auto", "???") and key not in ("kv_cache_dtype", "dtype"):
        facts.state(name, UNKNOWN, origin)
        return
    if name in LISTS and isinstance(value, str):
        value = [value]
    if key == "model" and not isinstance(value, str):
        value = "(config in the job file)"
    facts.state(name, value, origin)


def _plain(root: Node, key: str) -> Any:
    return plain(at(root, key))


DIALECT = JobDialect()
