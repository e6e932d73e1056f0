"""One run: files in, findings out. The command line, the hook, CI, the editor and the Python API all call this."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfglint.dialects.recognise import FileReport, recognise_files
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import Job, ServingJob, TrainingJob
from cfglint.jobs.linker import Group, HardwareOptions, Surroundings, Target, link
from cfglint.lint.context import Context
from cfglint.lint.engine_rules import ENGINE_RULES, UnreadableComment
from cfglint.lint.finding import SEVERITY_ORDER, Finding
from cfglint.lint.registry import RuleSet, find_rules
from cfglint.lint.rule import Rule, RuleFault
from cfglint.lint.selection import RuleSelection, check_options, check_settings, rule_options, severity_of
from cfglint.lint.suppress import silence
from cfglint.settings import HardwareSetting, Settings
from cfglint.source import read_file
from cfglint.source.node import Document, SourceFile

INTERNAL_FAULT = "INT001"
"""Code of the finding that stands for a rule that raised."""


@dataclass
class RunResult:
    """What a run found. ``findings`` are sorted by path, line and code; silenced ones are kept and marked."""

    findings: list[Finding]
    context: Context
    files: dict[str, FileReport]
    faults: list[RuleFault] = field(default_factory=list)
    rules: Mapping[str, type[Rule]] = field(default_factory=dict)

    @property
    def shown(self) -> list[Finding]:
        return [f for f in self.findings if f.suppressed is None]


def understand(
    files: Sequence[SourceFile],
    settings_for: Callable[[str], Settings],
    hardware: HardwareOptions | None = None,
    root: Path | None = None,
) -> tuple[Context, dict[str, FileReport]]:
    """Recognise files and link them into jobs, without running rules: what ``estimate`` needs."""
    root = root or Path.cwd()
    readings, reports = recognise_files(files, lambda path: settings_for(path).dialect(path))
    all_settings = list({id(s): s for s in (settings_for(f.path) for f in files)}.values())
    surroundings = _surroundings(files, all_settings, settings_for, root)
    jobs = link(readings, hardware or HardwareOptions(), surroundings)
    settings = all_settings[0] if len(all_settings) == 1 else None
    return Context({f.path: f for f in files}, readings, jobs, settings, root), reports


def run(
    files: Sequence[SourceFile],
    settings_for: Callable[[str], Settings],
    hardware: HardwareOptions | None = None,
    *,
    selection: RuleSelection | None = None,
    root: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    """Lint files that have been read already.

    Raises:
        PluginError: a rule plugin cannot be loaded.
        SettingsError: a settings file cannot be used.
    """
    selection = selection or RuleSelection()
    context, reports = understand(files, settings_for, hardware, root)
    plugins = sorted({p for f in files for p in settings_for(f.path).plugins})
    all_settings = {id(s): s for s in (settings_for(f.path) for f in files)}.values()
    if _nothing_to_do(context, reports, selection, all_settings):
        return RunResult([], context, reports, [], ENGINE_RULES)
    rules = find_rules(plugins, ENGINE_RULES)
    selection.check(rules.heads)
    for settings in all_settings:
        check_settings(settings, rules.heads)
        check_options(settings, rules)
    runner = _Runner(rules, settings_for, selection, context, reports)
    findings = runner.findings(progress)
    findings += silence(findings, context.files, settings_for, rules.heads, runner.active)
    findings.sort(key=_order)
    return RunResult(_distinct(findings), context, reports, runner.faults, rules)


def _nothing_to_do(
    context: Context, reports: Mapping[str, FileReport], selection: RuleSelection, all_settings: Iterable[Settings]
) -> bool:
    """True where no file is ours, none speaks to cfglint, and nobody names a rule: then no rule need be loaded."""
    return (
        not context.readings
        and not any(r.broken_as or r.fault for r in reports.values())
        and not any("cfglint:" in f.text for f in context.files.values())
        and not (selection.select or selection.ignore or selection.extend_select)
        and all(settings.path is None for settings in all_settings)
    )


class _Runner:
    """Runs each rule over files, readings and jobs; a rule that raises becomes a finding, and the run goes on."""

    def __init__(
        self,
        rules: RuleSet,
        settings_for: Callable[[str], Settings],
        selection: RuleSelection,
        context: Context,
        reports: Mapping[str, FileReport],
    ) -> None:
        self.rules = rules
        self.settings_for = settings_for
        self.selection = selection
        self.context = context
        self.reports = reports
        self.faults: list[RuleFault] = []
        self._instances: dict[tuple[int, str], list[Rule]] = {}
        self._choices: dict[int, frozenset[str]] = {}

    def findings(self, progress: Callable[[int, int], None] | None) -> list[Finding]:
        found: list[Finding] = list(self._unread())
        subjects = list(self._subjects())
        for i, (method, subject, path) in enumerate(subjects):
            for rule in self._rules(path, method):
                found.extend(self._run(rule, method, subject, path))
            if progress is not None:
                progress(i + 1, len(subjects))
        return found

    def _unread(self) -> Iterator[Finding]:
        """Files on which a dialect failed."""
        for path, report in self.reports.items():
            if report.fault is not None:
                self.faults.append(RuleFault("", path, report.fault))
                yield Finding(
                    code=INTERNAL_FAULT,
                    name=ENGINE_RULES[INTERNAL_FAULT].name,
                    severity="error",
                    confidence="high",
                    message=f"reading this file failed: {report.fault}",
                    places=(),
                    path=path,
                    help="this is a fault of cfglint, not of your file; please report it",
                )

    def active(self, path: str) -> frozenset[str]:
        """Codes of the rules that looked at a path. A file that no dialect claims is asked only about its comments."""
        chosen = self._chosen(self.settings_for(path))
        report = self.reports.get(path)
        return chosen if report is None or report.dialects else chosen & {UnreadableComment.code}

    def _subjects(self) -> Iterator[tuple[str, Any, str]]:
        context = self.context
        for path, file in context.files.items():
            report = self.reports.get(path)
            # a file that no dialect claims is somebody else's, whatever is wrong with it
            if report is not None and (report.dialects or report.broken_as):
                yield "check_file", file, path
        for reading in context.readings:
            yield "check_reading", reading, reading.document.path
        for training in context.jobs.training:
            yield "check_training", training, _path(training)
        for serving in context.jobs.serving:
            yield "check_serving", serving, _path(serving)

    def _chosen(self, settings: Settings) -> frozenset[str]:
        if id(settings) not in self._choices:
            self._choices[id(settings)] = self.selection.chosen(self.rules.heads, settings)
        return self._choices[id(settings)]

    def _rules(self, path: str, method: str) -> list[Rule]:
        """The rules that look at this kind of subject; only they are imported."""
        settings = self.settings_for(path)
        key = (id(settings), method)
        if key not in self._instances:
            chosen = self._chosen(settings)
            self._instances[key] = [
                self.rules[code](rule_options(head, settings))
                for code, head in self.rules.heads.items()
                if code in chosen and method in head.checks
            ]
        return self._instances[key]

    def _run(self, rule: Rule, method: str, subject: Any, path: str) -> Iterator[Finding]:
        try:
            made: Iterable[Finding] = getattr(rule, method)(subject, self.context)
            for finding in made:
                settings = self.settings_for(finding.reported_path or path)
                if not finding.path:
                    finding.path = path
                if not self.selection.wants(finding, settings):
                    continue
                finding.severity = severity_of(finding, settings)
                yield finding
        except (Exception, SystemExit) as error:  # a plugin that calls sys.exit must not end the run unnoticed
            from traceback import format_exc

            detail = format_exc()
            self.faults.append(RuleFault(rule.code, path, f"{type(error).__name__}: {error}", detail))
            yield Finding(
                code=INTERNAL_FAULT,
                name=ENGINE_RULES[INTERNAL_FAULT].name,
                severity="error",
                confidence="high",
                message=f"rule {rule.code} ({rule.name}) failed here: {type(error).__name__}: {error}",
                places=(),
                path=path,
                help="this is a fault of the rule, not of your file; please report it. "
                f"`--ignore {rule.code}` runs without it",
            )


def _path(job: Job) -> str:
    return job.primary.document.path if job.primary else ""


def _order(finding: Finding) -> tuple[str, int, int, int, str]:
    primary = finding.primary
    line, column = (primary.start.line, primary.start.column) if primary else (0, 0)
    return finding.reported_path, line, column, -SEVERITY_ORDER[finding.severity], finding.code


def _distinct(findings: list[Finding]) -> list[Finding]:
    """The same words at the same place once, however many jobs share the file."""
    seen: set[tuple[str, str, int, str]] = set()
    kept = []
    for finding in findings:
        key = (
            finding.code,
            finding.reported_path,
            finding.primary.span.start if finding.primary else -1,
            finding.message,
        )
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept


def _surroundings(
    files: Sequence[SourceFile], all_settings: list[Settings], settings_for: Callable[[str], Settings], root: Path
) -> Surroundings:
    def display(settings: Settings, path: str) -> str:
        return os.path.relpath(os.path.join(settings.root, path), root).replace(os.sep, "/")

    def target(path: str) -> Target | None:
        found = settings_for(path).target(path)
        if found is None:
            return None
        hardware = found.hardware
        return Target(hardware.gpu, hardware.gpus, hardware.nodes, hardware.origin)

    def load(path: Path) -> list[Reading]:
        shown = os.path.relpath(path, root).replace(os.sep, "/")
        readings, _ = recognise_files([read_file(path, shown)], lambda p: settings_for(p).dialect(p))
        return readings

    read: dict[str, SourceFile | None] = {os.path.normpath(file.path): file for file in files}

    def document(path: str) -> Document | None:
        if path not in read:
            on_disk = root / path
            read[path] = read_file(on_disk, path) if os.path.isfile(on_disk) else None
        file = read[path]
        return file.documents[0] if file is not None and file.documents else None

    groups = [
        Group(
            group.name,
            tuple(display(settings, f) for f in group.files),
            _facts(group.hardware, group.framework),
            group.hardware.origin,
        )
        for settings in all_settings
        for group in settings.jobs
    ]
    models: dict[str, Mapping[str, Any]] = {}
    for settings in all_settings:
        for model in settings.models.values():
            config = model.config if model.config is not None else _config(model.path)
            if config is not None:
                models[model.id] = config
    return Surroundings(
        root=root,
        target=target,
        groups=groups,
        models=models,
        versions=lambda path: settings_for(path).frameworks,
        accelerators=tuple(a for s in all_settings for a in s.accelerators),
        load=load,
        document=document,
    )


def _facts(hardware: HardwareSetting, framework: str | None) -> dict[str, Any]:
    stated = {"gpu": hardware.gpu, "gpus_per_node": hardware.gpus, "nodes": hardware.nodes, "framework": framework}
    return {name: value for name, value in stated.items() if value is not None}


def _config(path: Path | None) -> Mapping[str, Any] | None:
    from cfglint.jobs.models import read_config

    if path is None:
        return None
    return read_config(path / "config.json" if os.path.isdir(path) else path)


__all__ = ["Context", "HardwareOptions", "RunResult", "ServingJob", "TrainingJob", "run", "understand"]
