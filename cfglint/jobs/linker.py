"""From readings to jobs: follow what files say of each other, put their facts together, resolve hardware.

Precedence inside a job: arguments on the command line, the run's own file, what launches it, the files it names;
framework defaults come behind everything that a file states.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfglint.catalog.accelerators import Accelerator
from cfglint.jobs.defaults import settle_defaults
from cfglint.jobs.facts import (
    PROCESSES,
    UNKNOWN,
    DefaultOrigin,
    FactSet,
    FlagOrigin,
    Origin,
    Reading,
    Reference,
    SettingOrigin,
)
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import Job, Jobs, ServingJob, TrainingJob
from cfglint.jobs.pragma import Pragmas, read_pragmas
from cfglint.jobs.precision import settle_precision
from cfglint.jobs.versions import is_version, versions_beside
from cfglint.source.node import Document

PART_ROLES = frozenset({"deepspeed", "accelerate", "fsdp", "adapter"})
PART_DIALECTS = ("deepspeed", "accelerate")
"""Parts that are linked to a sole neighbouring run, and that make a partial job when nothing names them."""


@dataclass(frozen=True)
class HardwareOptions:
    """``--gpu``, ``--gpus``, ``--nodes``."""

    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Target:
    """Hardware that settings give for a path."""

    gpu: str | None
    gpus: int | None
    nodes: int | None
    origin: SettingOrigin


@dataclass(frozen=True)
class Group:
    """``[[tool.cfglint.jobs]]``: files that belong together."""

    name: str
    files: tuple[str, ...]
    facts: Mapping[str, Any]
    origin: SettingOrigin


@dataclass
class Surroundings:
    """What settings add to a run. ``root`` is where paths on the command line start."""

    root: Path = field(default_factory=Path.cwd)
    target: Callable[[str], Target | None] = lambda path: None
    groups: Sequence[Group] = ()
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model id to its ``config.json`` mapping, from settings."""
    versions: Callable[[str], Mapping[str, str]] = lambda path: {}
    accelerators: tuple[Accelerator, ...] = ()
    """Rows of the project's own settings, looked at before the catalogue."""
    load: Callable[[Path], list[Reading]] = lambda path: []
    """Readings of a file on disk that was not among the files given."""
    document: Callable[[str], Document | None] = lambda path: None
    """The first document of a file among those given or on disk, by its path from ``root``, whether a dialect claims it or not."""


def link(readings: Iterable[Reading], options: HardwareOptions, surroundings: Surroundings) -> Jobs:
    """Put readings together into jobs."""
    found = list(readings)
    return _Linker(found, options, surroundings).link() if found else Jobs()


class _Linker:
    def __init__(self, readings: list[Reading], options: HardwareOptions, surroundings: Surroundings) -> None:
        self.readings = readings
        self.options = options
        self.around = surroundings
        self.by_path: dict[str, list[Reading]] = {}
        for reading in readings:
            self.by_path.setdefault(os.path.normpath(reading.document.path), []).append(reading)
        self.inside: dict[tuple[str, str], list[Reading]] = {}
        """Readings of files that stand inside others, by the outer file's path and the inner one's name."""
        for reading in readings:
            name = reading.context.get("inside")
            if name is not None:
                key = (reading.document.path, os.path.normpath(name))
                self.inside.setdefault(key, []).append(reading)
        self.inline: dict[int, list[Reading]] = {}
        """Readings of the arguments a launch line gives, by the ``id`` of the launch."""
        for reading in readings:
            launch = reading.context.get("launched_by")
            if launch is not None:
                self.inline.setdefault(id(launch), []).append(reading)
        self.pragmas: dict[int, Pragmas | None] = {}
        """What the comments of a file say, by its ``id``; a script may hold thousands of jobs."""
        self.used: set[int] = set()
        from cfglint.jobs.models import ModelSearch  # a run over files that are nobody's needs no models

        self.models = ModelSearch(surroundings.root, surroundings.models)

    def link(self) -> Jobs:
        drafts: list[list[Reading]] = []
        grouped = self._groups()
        drafts.extend(members for _, members in grouped)
        drafts.extend(self._launched())
        for reading in self.readings:
            if reading.role == "run" and id(reading) not in self.used:
                self.used.add(id(reading))
                drafts.append([self._composed(reading)])
        for members in drafts:
            self._follow(members)
        uncertain = self._neighbours(drafts)
        jobs = Jobs()
        names = _names(drafts)
        for i, members in enumerate(drafts):
            group = grouped[i][0] if i < len(grouped) else None
            job = self._job(names[i], members, uncertain.get(id(members), set()), group)
            (jobs.serving if isinstance(job, ServingJob) else jobs.training).append(job)  # type: ignore[arg-type]
        for reading in self.readings:
            if reading.role == "part" and reading.dialect in PART_DIALECTS and id(reading) not in self.used:
                job = self._job(reading.document.name, [reading], set(), None)
                job.partial = True
                jobs.training.append(job)  # type: ignore[arg-type]
        return jobs

    def _groups(self) -> list[tuple[Group, list[Reading]]]:
        found = []
        for group in self.around.groups:
            members: list[Reading] = []
            for path in group.files:
                members.extend(self.by_path.get(os.path.normpath(path), []))
            runs = [r for r in members if r.role in ("run", "arguments")]
            if not members or not (runs or any(r.role == "launch" for r in members)):
                continue
            order = {"arguments": 0, "run": 1, "launch": 2}
            members.sort(key=lambda r: order.get(r.role, 3))
            self.used.update(id(r) for r in members)
            found.append((group, members))
        return found

    def _launched(self) -> list[list[Reading]]:
        drafts: list[list[Reading]] = []
        for launch in self.readings:
            if launch.role != "launch" or id(launch) in self.used:
                continue
            inline = self.inline.get(id(launch), [])
            configs = self._configs(launch, inline)
            self.used.add(id(launch))
            self.used.update(id(r) for r in inline)
            if configs:
                drafts.extend(
                    [config, *_over(inline, config), launch, *self._merged(launch, config)] for config in configs
                )
            elif any(r.role == "run" for r in inline):
                drafts.append([*inline, launch])
            elif launch.context.get("trains") is False:
                self._follow([launch])  # the files it names are no jobs of their own either
            elif inline or any(r.role in PART_ROLES for r in launch.references):
                drafts.append([launch, *inline])
        for run in self.readings:
            if run.role == "run" and run.kind == "serve" and id(run) not in self.used:
                named = [
                    r
                    for reference in run.references
                    if reference.role == "config"
                    for r in self.resolve(reference)
                    if r.kind == "serve" and r is not run
                ]
                if named:
                    self.used.update(id(r) for r in (run, *named))
                    drafts.append([run, *named])
        return drafts

    def _configs(self, launch: Reading, inline: list[Reading]) -> list[Reading]:
        """The configs that a command names, composed from the files they build on with the command's own choices."""
        found: list[Reading] = []
        seen: list[Reading] = []
        for reference in (r for reading in (launch, *inline) for r in reading.references if r.role == "config"):
            for run in self.resolve(reference):
                if run.document is launch.document or run in seen or (run.role != "run" and "hydra" not in run.context):
                    continue
                seen.append(run)
                composed = self._composed(run, overrides=next((r for r in inline if r.dialect == run.dialect), None))
                if composed.role == "run":
                    self.used.add(id(run))
                    found.append(composed)
        return found

    def _merged(self, launch: Reading, config: Reading) -> list[Reading]:
        """Parts of the config's own format that the command names beside it: gpt-neox merges all files it is given."""
        found: list[Reading] = []
        for reference in launch.references:
            for part in self.resolve(reference) if reference.role == "config" else ():
                if part.role == "part" and part.dialect == config.dialect and "hydra" not in part.context:
                    self.used.add(id(part))
                    found.append(part)
        return found

    def _follow(self, members: list[Reading]) -> None:
        """Append the parts that members name, and the parts those name."""
        i = 0
        while i < len(members):
            for reference in members[i].references:
                if reference.role not in PART_ROLES:
                    continue
                for part in self.resolve(reference):
                    if part not in members and part.role in ("part", "model"):
                        members.append(part)
                        self.used.add(id(part))
            i += 1

    def _neighbours(self, drafts: list[list[Reading]]) -> dict[int, set[int]]:
        """Sole neighbours in a folder: one training run, one part of a dialect, neither speaking for or against it."""
        uncertain: dict[int, set[int]] = {}
        parts: dict[tuple[str, str], list[Reading]] = {}
        for reading in self.readings:
            if reading.role == "part" and reading.dialect in PART_DIALECTS:
                key = (os.path.dirname(reading.document.path), reading.dialect)
                parts.setdefault(key, []).append(reading)
        runs: dict[str, list[list[Reading]]] = {}
        for members in drafts:
            if members[0].kind == "train" and members[0].dialect != "cfglint-job":
                runs.setdefault(os.path.dirname(members[0].document.path), []).append(members)
        for (folder, dialect), found in parts.items():
            if len(found) != 1 or id(found[0]) in self.used or len(runs.get(folder, ())) != 1:
                continue
            members = runs[folder][0]
            if any(r.dialect == dialect for r in members):
                continue
            if any(reference.role == dialect for r in members for reference in r.references):
                continue
            members.append(found[0])
            self.used.add(id(found[0]))
            uncertain.setdefault(id(members), set()).add(id(found[0]))
            before = len(members)
            self._follow(members)
            uncertain[id(members)].update(id(r) for r in members[before:])
        return uncertain

    def _composed(self, reading: Reading, depth: int = 8, overrides: Reading | None = None) -> Reading:
        """A file over the files it builds on; itself where one of them is not at hand.

        What it builds on are references of role ``defaults``, or what Hydra's list names, with ``overrides`` of a command.
        """
        by_hydra = reading.context.get("hydra")
        if by_hydra is not None:
            chosen = overrides.context.get("choices", {}) if overrides is not None else {}
            whole: Reading = by_hydra(self._document, chosen, overrides)
            return whole
        compose = reading.context.get("compose")
        if compose is None or depth == 0:
            return reading
        parents: list[Reading] = []
        for reference in reading.references:
            if reference.role == "defaults":
                found = [r for r in self.resolve(reference) if r.dialect == reading.dialect and r.role != "launch"]
                if not found or found[0] is reading:
                    return reading
                parents.append(self._composed(found[0], depth - 1))
        composed: Reading = compose(parents)
        return composed

    def _document(self, path: str) -> Document | None:
        found = self.by_path.get(path)
        return found[0].document if found else self.around.document(path)

    def resolve(self, reference: Reference) -> list[Reading]:
        """Readings of the file a reference names: written by the same script, among the files given, else on disk."""
        written = self.inside.get((reference.origin.document.path, os.path.normpath(reference.target)))
        if written is not None:
            return written
        paths = candidate_paths(reference, self.around.root)
        away = _is_away(reference)
        for path in paths:
            found = self.by_path.get(path)
            if found is None and away:
                found = self._on_disk(path)
            if found is not None:
                return found
        for path in paths:
            found = self._on_disk(path)
            if found is not None:
                return found
        return []

    def _on_disk(self, path: str) -> list[Reading] | None:
        on_disk = self.around.root / path
        if not os.path.isfile(on_disk):  # false, too, for names no file system takes
            return None
        self.by_path[path] = self.around.load(on_disk)
        return self.by_path[path]

    def _job(self, name: str, members: list[Reading], uncertain: set[int], group: Group | None) -> Job:
        serving = members[0].kind == "serve"
        job: Job = ServingJob(name, members) if serving else TrainingJob(name, members)
        self._versions(job, members)
        self._facts(job, members, uncertain)
        self._framework_version(job)
        if group is not None:
            for key, value in group.facts.items():
                job.state_first(key, value, group.origin)
        self._pragmas(job, members)
        for fact, value, flag in (
            ("gpu", self.options.gpu, "--gpu"),
            ("gpus_per_node", self.options.gpus, "--gpus"),
            ("nodes", self.options.nodes, "--nodes"),
        ):
            if value is not None:
                job.state_first(fact, value, FlagOrigin(flag))
        target = self.around.target(members[0].document.path)
        if target is not None:
            for fact, value in (("gpu", target.gpu), ("gpus_per_node", target.gpus), ("nodes", target.nodes)):
                if value is not None:
                    job.state(fact, value, target.origin)
        job.hardware = resolve_hardware(job, self.around.accelerators)
        job.model = self.models.find(job)
        if isinstance(job, TrainingJob):
            settle_precision(job)
            job.sharding_open = _sharding_open(job, members)
        return job

    def _facts(self, job: Job, members: list[Reading], uncertain: set[int]) -> None:
        order = sorted(members, key=lambda r: 0 if r.role == "arguments" else 1)
        defaults = FactSet()
        open_counts: set[str] = set()
        for reading in order:
            sure = id(reading) not in uncertain
            _share_processes(reading, members)
            for fact_name in reading.facts.names():
                if reading.role == "part" and fact_name in open_counts:
                    continue  # the launch gives a number of its own, which wins and is not known here
                if reading.role == "launch" and fact_name in COUNTS and reading.facts.undecided(fact_name):
                    open_counts.add(fact_name)
                for fact in reading.facts.statements(fact_name):
                    behind = isinstance(fact.origin, DefaultOrigin)
                    (defaults if behind else job).state(
                        fact_name, fact.value, fact.origin, certain=sure and fact.certain
                    )
        stated = defaults.fact("framework_version") or job.fact("framework_version")
        versions = dict(job.versions)
        framework = job.value("framework")
        if stated is not None and isinstance(framework, str):
            versions.setdefault(framework, str(stated.value))
        job.extend(settle_defaults(defaults, versions))
        if job.fact("framework") is None:
            framework = next((r.framework for r in members if r.framework), None)
            if framework is not None:
                job.state("framework", framework, members[0].origin())

    def _pragmas(self, job: Job, members: list[Reading]) -> None:
        seen: set[int] = set()
        for reading in reversed(members):
            file = reading.document.file
            if id(file) in seen:
                continue
            seen.add(id(file))
            if id(file) not in self.pragmas:
                self.pragmas[id(file)] = read_pragmas(file) if "cfglint:" in file.text else None
            pragmas = self.pragmas[id(file)]
            if pragmas is None:
                continue
            for fact, statement in (("gpu", pragmas.gpu), ("gpus_per_node", pragmas.gpus), ("nodes", pragmas.nodes)):
                if statement is not None:
                    job.state_first(fact, statement.value, statement.origin(reading.document))

    def _versions(self, job: Job, members: list[Reading]) -> None:
        for reading in members:
            stated = reading.context.get("versions")
            if isinstance(stated, dict):
                for framework, version in stated.items():
                    _state_version(job, framework, version)
        path = members[0].document.path
        for framework, version in self.around.versions(path).items():
            _state_version(job, framework, version)
        folder = (self.around.root / path).parent
        for framework, version in versions_beside(folder, self.around.root):
            _state_version(job, framework, version)

    def _framework_version(self, job: Job) -> None:
        """One answer, whether the version stands in a file's own key or beside it."""
        stated_version = job.fact("framework_version")
        framework = job.value("framework")
        if isinstance(framework, str):
            if stated_version is not None:
                _state_version(job, framework, str(stated_version.value))
            elif framework in job.versions:
                origin: Origin = SettingOrigin("requirements, lock file, image tag or settings", framework)
                job.state("framework_version", job.versions[framework], origin)


COUNTS = ("gpus_per_node", "nodes")


def _over(inline: list[Reading], config: Reading) -> list[Reading]:
    """Readings of a command's overrides, which win over the config that it was found to name."""
    for reading in inline:
        if reading.dialect == config.dialect and reading.role == "run":
            reading.role = "arguments"
    return inline


def _share_processes(launch: Reading, members: list[Reading]) -> None:
    """Processes of all machines over the machines that a file names: one where none does (accelerate/commands/launch.py)."""
    total = launch.context.pop(PROCESSES, None)
    if total is None:
        return
    count, origin = total
    nodes = next((value for r in members if (value := r.facts.value("nodes"))), 1)
    launch.facts.state_first("gpus_per_node", count // nodes if count % nodes == 0 else UNKNOWN, origin)


LAUNCH_DECIDES = frozenset({"hf-training-args", "trl", "ms-swift", "llamafactory"})
"""Dialects whose runs take sharding from the launcher's files as often as from their own."""

SHARDING_FACTS = ("zero_stage", "fsdp")


def _sharding_open(job: TrainingJob, members: list[Reading]) -> bool:
    """Whether sharding may still come from a launch that no file at hand shows, or from a variable of the launch."""
    world = job.hardware.world_size
    if world == 1:
        return False
    if any(job.undecided(fact) for fact in SHARDING_FACTS):
        return not any(job.value(fact) for fact in SHARDING_FACTS)
    if any(job.stated(fact) for fact in (*SHARDING_FACTS, "tensor_parallel_size")):
        return False
    named = {reference.role for reading in members for reference in reading.references}
    if (named & set(PART_DIALECTS)) - {reading.dialect for reading in members}:
        return True  # a file that is named and not here
    if members[0].dialect not in LAUNCH_DECIDES:
        return False
    if any(r.dialect in PART_DIALECTS or "deepspeed" in r.context or "fsdp" in r.context for r in members):
        return False
    launches = [r for r in members if r.role == "launch"]
    # `accelerate launch` without a file reads the user's default one, which is not here
    return not launches or any(r.why.startswith("accelerate") for r in launches)


def _state_version(job: Job, framework: str, version: object) -> None:
    if isinstance(version, str) and is_version(version):
        job.versions.setdefault(framework, version)


def _is_away(reference: Reference) -> bool:
    """A file outside the folder cfglint runs in: that folder says nothing of where its own paths start."""
    return reference.origin.document.path.startswith("../")


def candidate_paths(reference: Reference, root: Path) -> list[str]:
    """Normalised paths a reference can mean, likeliest first: by its base, then by the folders up to the root."""
    target = reference.target
    if "://" in target or "${" in target or "$(" in target:
        return []
    folder = os.path.dirname(reference.origin.document.path)
    stored: list[str] = []
    if reference.role == "adapter" and not target.endswith(".json"):
        target = f"{target.rstrip('/')}/adapter_config.json"
        here = folder
        while True:
            stored.append(os.path.normpath(os.path.join(here, ".cfglint", "models", target.lstrip("/"))))
            if here in ("", "/", "."):
                break
            here = os.path.dirname(here)
    if os.path.isabs(target):
        return stored
    beside = os.path.normpath(os.path.join(folder, target))
    upward: list[str] = []
    here = folder
    while here:
        here = os.path.dirname(here)
        upward.append(os.path.normpath(os.path.join(here, target)))
        if here in ("", "/", "."):
            break
    plain = os.path.normpath(target)
    if reference.base == "file":
        order = [beside, plain]
    elif reference.base == "cwd" and not _is_away(reference):
        order = [plain, *reversed(upward), beside]
    else:
        order = [beside, *upward, plain]
    return list(dict.fromkeys([*order, *stored]))


def _names(drafts: list[list[Reading]]) -> list[str]:
    """A job is named after its first reading's file; jobs that share one get what tells them apart after ``#``."""
    paths: dict[str, int] = {}
    for members in drafts:
        paths[members[0].document.path] = paths.get(members[0].document.path, 0) + 1
    names: list[str] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for members in drafts:
        first = members[0]
        path = first.document.path
        launch = first.context.get("launch")
        if first.name:
            name = f"{path}#{first.name}"
        elif paths[path] == 1:
            name = path
        else:
            label = getattr(launch, "name", "") or str(first.document.file.position(first.root.span.start).line)
            name = f"{path}#{label}"
        base = name
        while name in taken:
            numbers[base] = numbers.get(base, 1) + 1
            name = f"{base}-{numbers[base]}"
        taken.add(name)
        names.append(name)
    return names
