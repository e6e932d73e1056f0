"""A job's model: a config.json on disk, the project's own facts, the Hugging Face cache, the catalogue; in this order."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cfglint.catalog.architecture import Architecture, UnknownArchitecture, architecture_from_config
from cfglint.jobs.facts import CatalogueOrigin, FileOrigin, Origin, SettingOrigin
from cfglint.jobs.job import Job, ModelFacts, TrainingJob
from cfglint.jobs.named_models import guessed_model, overlaid, stated_name, trained_model

CONFIG_LIMIT = 4 * 2**20
"""A config.json above 4 MiB is not read."""

_FAMILY_OF_NAMES = {"nemo": "megatron", "megatron-lm": "megatron"}
"""Frameworks that call models as another one does."""


class ModelSearch:
    """Finds models for the jobs of a run; each config is read once."""

    def __init__(self, root: Path, settings_models: Mapping[str, Mapping[str, Any]]) -> None:
        self.root = root
        self.settings_models = {name.lower(): (name, config) for name, config in settings_models.items()}
        self._configs: dict[Path, Mapping[str, Any] | None] = {}
        self._architectures: dict[Path, Architecture | str] = {}

    def find(self, job: Job) -> ModelFacts | None:
        """The model of a job, or None where no model is named."""
        fact = job.model_id
        if fact is None or not isinstance(fact.value, str) or not fact.value:
            return None
        name = fact.value
        for reading in job.readings:
            inline = reading.context.get("model_config")
            if isinstance(inline, Mapping):
                stated = str(inline.get("_name_or_path") or name)
                return self._from_config(stated, overlaid(inline), "the job file", fact.origin)
        folder = self._folder(fact.origin, job)
        for path in self._local(name, folder):
            config = self._config(path)
            if config is not None:
                return self._from_path(name, path, config, fact.origin)
        told = stated_name(job)
        for path in self._local(told, folder) if told != name else ():
            config = self._config(path)
            if config is not None:
                return self._from_path(told, path, config, fact.origin)
        if name.lower() in self.settings_models:
            known, config = self.settings_models[name.lower()]
            return self._from_config(known, config, "settings", SettingOrigin("settings", f"models.{known}"))
        cached = _hub_cache(name)
        if cached is not None:
            config = self._config(cached)
            if config is not None:
                return self._from_path(name, cached, config, fact.origin)
        found = _from_catalogue(name)
        if found.row is None and told != name:
            mounted = _from_catalogue(told)
            found = mounted if mounted.row is not None else found
        if found.row is not None:
            return found
        framework = job.value("framework")
        named = _from_name(name, framework if isinstance(framework, str) else None)
        if named is not None and isinstance(job, TrainingJob):
            return named
        return replace(found, guess=guessed_model(told))

    def _folder(self, origin: Origin, job: Job) -> Path:
        if isinstance(origin, FileOrigin):
            return (self.root / origin.document.path).parent
        return (self.root / job.primary.document.path).parent if job.primary else self.root

    def _local(self, name: str, folder: Path) -> list[Path]:
        """Where a config.json of ``name`` can lie: the path itself, and ``.cfglint/models`` upward from the file."""
        found: list[Path] = []
        if "://" not in name and "${" not in name and len(name) < 1024:
            for base in (folder, self.root):
                given = Path(os.path.expanduser(name))
                path = given if given.is_absolute() else base / given
                if path.name.endswith(".json"):
                    found.append(path)
                found.append(path / "config.json")
            parts = [p for p in name.strip("/").split("/") if p not in ("", ".", "..")]
            here = folder
            while parts:
                store = here / ".cfglint" / "models"
                found.append(store.joinpath(*parts, "config.json"))
                if len(parts) > 2:
                    found.append(store.joinpath(*parts[-2:], "config.json"))
                if here == here.parent or here == self.root:
                    break
                here = here.parent
        return found

    def _config(self, path: Path) -> Mapping[str, Any] | None:
        if path not in self._configs:
            self._configs[path] = read_config(path)
        return self._configs[path]

    def _from_path(self, name: str, path: Path, config: Mapping[str, Any], origin: Origin) -> ModelFacts:
        if path not in self._architectures:
            try:
                self._architectures[path] = architecture_from_config(config)
            except UnknownArchitecture as error:
                self._architectures[path] = str(error)
        made = self._architectures[path]
        try:
            shown = str(path.resolve().relative_to(self.root.resolve()))
        except ValueError:
            shown = str(path)
        if isinstance(made, str):
            fallback = _from_catalogue(name)
            if fallback.architecture is not None:
                return replace(fallback, config=config)
            return ModelFacts(name, None, shown, origin, problem=made, config=config)
        return ModelFacts(name, made, shown, origin, row=_row(name))

    def _from_config(self, name: str, config: Mapping[str, Any], source: str, origin: Origin) -> ModelFacts:
        try:
            return ModelFacts(name, architecture_from_config(config), source, origin, row=_row(name))
        except UnknownArchitecture as error:
            return ModelFacts(name, None, source, origin, problem=str(error))


def _row(name: str) -> Any:
    from cfglint.catalog.models import find_model

    return find_model(name)


def _from_catalogue(name: str) -> ModelFacts:
    from cfglint.catalog.models import architecture_of, find_model

    row = find_model(name)
    if row is None:
        return ModelFacts(name, None, "", CatalogueOrigin(""), problem=f"{name} is not in the catalogue")
    architecture = architecture_of(row)
    return ModelFacts(row.id, architecture, "catalogue", CatalogueOrigin(row.source), row=row)


def _from_name(name: str, framework: str | None) -> ModelFacts | None:
    """A model that a training job names after a known one. What only serving reads of a name is read there."""
    made = trained_model(name, _FAMILY_OF_NAMES.get(framework or "", framework))
    if made is None:
        return None
    taken = f"{name} is taken as {made.id}"
    if made.architecture.num_hidden_layers and made.layers_of and made.layers_of != made.architecture.num_hidden_layers:
        taken += f" with {made.architecture.num_hidden_layers} of its {made.layers_of} layers"
    if made.format:
        taken += " with quantized weights"
    return ModelFacts(
        name,
        made.architecture,
        "catalogue",
        CatalogueOrigin(made.source),
        taken_as=f"{taken}, as its name says",
        format=made.format,
    )


def read_config(path: Path) -> Mapping[str, Any] | None:
    """A ``config.json`` as a mapping; None where there is none, or none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > CONFIG_LIMIT:
            return None
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _hub_cache(name: str) -> Path | None:
    """``config.json`` of the newest snapshot in the Hugging Face cache, or None."""
    if name.count("/") != 1 or name.startswith((".", "/")):
        return None
    home = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface"), "hub"
    )
    snapshots = Path(home, f"models--{name.replace('/', '--')}", "snapshots")
    try:
        found = [p / "config.json" for p in snapshots.iterdir() if (p / "config.json").is_file()]
    except OSError:
        return None
    return max(found, key=lambda p: p.stat().st_mtime) if found else None
