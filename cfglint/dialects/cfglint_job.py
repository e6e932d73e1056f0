"""cfglint's own job file: a job in the field's standard terms, for what-if questions and tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.schema import holds_placeholder, is_unknown, load_schema, type_members
from cfglint.dialects.values import integer, number
from cfglint.jobs.facts import UNKNOWN, FactField, FactSet, FileOrigin, Origin, Reading, beyond_counting
from cfglint.jobs.job import ServingJob, TrainingJob
from cfglint.jobs.versions import is_version
from cfglint.source.node import Document, Mapping, Node, Route, Sequence, at, plain

RENAMED = {"model": "model_id", "expert_parallel": "enable_expert_parallel"}
"""Keys of the job file that bear another name than the fact they state."""
LISTS = frozenset({"lora_targets", "lora_modules_to_save", "lora_kernels"})
STRUCTURE = frozenset({"cfglint", "name", "kind", "jobs"})
VERSION: Final = 1
"""What ``cfglint:`` says: the form of the file."""

LEAST: Final = {
    "zero_stage": 0, "max_steps": -1, "max_model_len": -1, "dataset_tokens": 0, "epochs": 0,
    "cpu_offload_gb": 0, "swap_space": 0, "gpu_memory_utilization": 0, "mem_fraction_static": 0,
    "rollout_gpu_memory_utilization": 0,
}  # fmt: skip
"""Smallest number a key takes; 1 where it stands for a size or a count. -1 is the frameworks' word for no limit."""
MOST: Final = {
    "zero_stage": 3, "fsdp_version": 2, "gpu_memory_utilization": 1, "mem_fraction_static": 1,
    "rollout_gpu_memory_utilization": 1,
}  # fmt: skip


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
    markers = frozenset({"cfglint", "kind", "gpus_per_node"})

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
                    reading = self._job(document, job, ("jobs", i), str(i + 1))
                    complaint = structure_complaint("cfglint", _plain(root, "cfglint"))
                    if complaint and "cfglint" not in job:
                        reading.context.setdefault("wrong_values", []).append(("cfglint", complaint))
                    yield reading
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
                complaint = structure_complaint(key, plain(entry.value))
                if complaint:
                    reading.context.setdefault("wrong_values", []).append((key, complaint))
                continue
            origin = FileOrigin(document, (*base, key), entry.key.span, entry.value.span)
            value, complaint = read_value(key, plain(entry.value))
            if complaint:
                reading.context.setdefault("wrong_values", []).append((key, complaint))
            state(reading.facts, key, value, origin)
            if key == "model" and isinstance(entry.value, Mapping):
                config = reading.context["model_config"] = plain(entry.value)
                complaint = config_complaint(config)
                if complaint:
                    reading.context.setdefault("wrong_values", []).append((key, complaint))
        return reading


def read_value(key: str, value: Any) -> tuple[Any, str]:
    """A key's value as the job takes it, with what is wrong with it in words; a wrong value becomes UNKNOWN."""
    table = load_schema(JobDialect.name)
    info = table.key("jobs", 0, key)
    if isinstance(value, str) and holds_placeholder(value):
        return UNKNOWN, ""
    if info is None or value is None or is_unknown(value):
        return value, ""
    kinds = set(type_members(info.type))
    if isinstance(value, (str, float)) and not kinds & {"str", "bool"}:
        read = integer(value) if "float" not in kinds else number(value)
        value = value if read is None else read
    complaint = table.check_type(("jobs", 0, key), value) or ""
    if not complaint and isinstance(value, (int, float)) and not isinstance(value, bool) and "str" not in kinds:
        least, most = LEAST.get(key, 1), MOST.get(key)
        if not value >= least or (most is not None and value > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            complaint = f"expected a number {bounds}, found {value}"
        elif beyond_counting(value):
            complaint = "expected a number that can be counted with, found a larger one"
    if not complaint and key == "framework_version" and not is_version(str(value)):
        complaint = "expected a version"
    return (UNKNOWN, complaint) if complaint else (value, "")


def config_complaint(config: Any) -> str:
    """What no model can be in a ``config.json`` written out as ``model``; that its family is not known is no complaint."""
    from cfglint.catalog.architecture import ImpossibleArchitecture, UnknownArchitecture, architecture_from_config
    from cfglint.jobs.named_models import overlaid

    try:
        architecture_from_config(overlaid(config))
    except ImpossibleArchitecture as error:
        return str(error)
    except UnknownArchitecture:
        pass
    return ""


def structure_complaint(key: str, value: Any) -> str:
    """What is wrong with one of :data:`STRUCTURE`'s keys, empty where nothing is."""
    if key == "cfglint" and (value != VERSION or isinstance(value, bool)):
        return f"expected {VERSION}, the only version of the job file there is"
    if key == "kind" and value not in ("train", "serve"):
        return 'expected "train" or "serve"'
    return ""


def state(facts: FactSet, key: str, value: Any, origin: Origin) -> None:
    """State one key of a job file; null means not known, except ``compute_dtype: null``, which means no autocast."""
    name = RENAMED.get(key, key)
    if value is UNKNOWN:
        facts.state(name, UNKNOWN, origin)
        return
    if value is None:
        if key == "compute_dtype":
            facts.state(name, "none", origin)
        return
    if value in ("auto", "???") and key not in ("kv_cache_dtype", "dtype"):
        facts.state(name, UNKNOWN, origin)
        return
    if name in LISTS and isinstance(value, str):
        value = [value]
    if name == "framework_version":
        value = str(value)  # YAML reads 0.8 as a number
    if key == "model" and not isinstance(value, str):
        value = "(config in the job file)"
    if key == "expert_parallel" and not isinstance(value, bool):
        # a number of ranks: switched on where there are several
        facts.state("expert_parallel_size", value, origin)
        value = value > 1 if isinstance(value, int) else value
    facts.state(name, value, origin)


def _plain(root: Node, key: str) -> Any:
    return plain(at(root, key))


DIALECT = JobDialect()
