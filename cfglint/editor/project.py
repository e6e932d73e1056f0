"""What an open file is linted with: the configuration files of its project, the open buffers laid over them.

A run happens with the project's root as working directory, as it would on the command line, so that paths in findings,
settings and links between files mean the same in both. Only one run at a time may therefore be under way.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cfglint.dialects.recognise import recognise_files
from cfglint.discovery import discover, excluded, is_candidate
from cfglint.lint.engine import RunResult, run, understand
from cfglint.lint.finding import Finding
from cfglint.lint.registry import PluginError
from cfglint.settings import Settings, SettingsError, SettingsResolver
from cfglint.source import parse_text, read_file
from cfglint.source.node import SourceFile
from cfglint.source.text import SIZE_LIMIT

MOST_FILES: Final = 500
"""Files of a project that an open file is linted with; of more, those nearest to the open ones are taken."""

WHOLE_PROJECT_UP_TO: Final = 60
"""Configuration files up to which rules run over all of a project; of more, only over what belongs to the open ones:
every keystroke would otherwise estimate the memory of hundreds of jobs."""

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Root:
    """A project's folder. ``recursive`` is False for a file outside any repository and workspace: then only its
    neighbours in the folder belong to it, not whatever lies below (it may be the home folder)."""

    folder: str
    recursive: bool = True


def root_of(path: str, workspace_folders: list[str]) -> Root:
    """The nearest folder above a file that is a git repository or a folder of the workspace."""
    folders = {os.path.normpath(folder) for folder in workspace_folders}
    here = own = os.path.dirname(path)
    while True:
        if here in folders or os.path.exists(os.path.join(here, ".git")):
            return Root(here)
        above = os.path.dirname(here)
        if above == here:
            return Root(own, recursive=False)
        here = above


@dataclass
class Analysis:
    """What one run over a project found. ``buffers`` are the open texts it saw, by path from the root.

    ``problem`` says why there is no result, or an incomplete one: settings or a plugin that cannot be used.
    """

    root: str
    buffers: Mapping[str, str]
    files: dict[str, SourceFile] = field(default_factory=dict)
    result: RunResult | None = None
    problem: str = ""

    def findings(self, path: str) -> list[Finding]:
        """Findings reported in a file, those that are silenced left out."""
        return [f for f in self.result.shown if f.reported_path == path] if self.result is not None else []


@dataclass(slots=True)
class _OnDisk:
    """A parsed file with what it was parsed from. ``ours``: some dialect reads it, or would if it were not broken."""

    stamp: tuple[int, int]
    dialect: str | None
    file: SourceFile
    ours: bool


class Project:
    """One project: parsed files are kept by size and time of change, the last analysis until something changes."""

    def __init__(self, root: Root, most_files: int = MOST_FILES) -> None:
        self.root = root
        self.analysis: Analysis | None = None
        self._most_files = most_files
        self._paths: list[str] | None = None
        self._settings: SettingsResolver | None = None
        self._refreshed = 0
        self._on_disk: dict[str, _OnDisk] = {}
        self._parsed_buffers: dict[str, tuple[str, SourceFile]] = {}

    def relative(self, path: str) -> str:
        """A file's path from the root, with forward slashes, as findings show it."""
        return os.path.relpath(path, self.root.folder).replace(os.sep, "/")

    def absolute(self, path: str) -> str:
        """A finding's path as a full one."""
        return os.path.normpath(os.path.join(self.root.folder, path))

    def refresh(self) -> None:
        """Look for files and settings anew at the next analysis. May be called while one runs in another thread."""
        self._refreshed += 1
        self.analysis = None
        self._paths = None
        self._settings = None

    def current(self, buffers: Mapping[str, str]) -> Analysis:
        """The analysis with these open texts (by path from the root): the last one, if it saw the same.

        Changes the working directory while it runs. Never raises for what files, settings or plugins hold.
        """
        known = self.analysis
        if known is not None and known.buffers == buffers:
            return known
        started_at = self._refreshed
        with _working_directory(self.root.folder):
            made = self._analyse(dict(buffers))
        if started_at == self._refreshed:
            self.analysis = made
        else:
            self._paths = self._settings = None
        return made

    def _analyse(self, buffers: dict[str, str]) -> Analysis:
        analysis = Analysis(self.root.folder, buffers)
        try:
            settings = self._settings or SettingsResolver()
            self._settings = settings
            analysis.files = self._files(buffers, settings)
            if len(analysis.files) > WHOLE_PROJECT_UP_TO:
                analysis.files = _related(analysis.files, buffers, settings, Path(self.root.folder))
            analysis.result = run(list(analysis.files.values()), settings, root=Path(self.root.folder))
        except (SettingsError, PluginError) as error:
            analysis.problem = str(error)
            self._settings = None
        return analysis

    def _files(self, buffers: Mapping[str, str], settings: SettingsResolver) -> dict[str, SourceFile]:
        files: dict[str, SourceFile] = {}
        for path in self._nearest(buffers, settings):
            if path not in buffers:
                known = self._read(path, settings)
                if known is not None and known.ours:
                    files[path] = known.file
        for path, text in buffers.items():
            if not excluded(path, settings(path)):
                files[path] = self._parse(path, text)
        self._parsed_buffers = {p: kept for p, kept in self._parsed_buffers.items() if p in buffers}
        return dict(sorted(files.items()))

    def _nearest(self, buffers: Mapping[str, str], settings: SettingsResolver) -> list[str]:
        paths = self._paths
        if paths is None:
            paths = discover(["."] if self.root.recursive else _neighbours("."), settings).files
            self._paths = paths
        if len(paths) <= self._most_files:
            return paths
        folders = [os.path.dirname(path).split("/") for path in buffers]
        return sorted(paths, key=lambda path: _distance(path, folders))[: self._most_files]

    def _read(self, path: str, settings: SettingsResolver) -> _OnDisk | None:
        try:
            status = os.stat(path)
        except OSError:
            self._on_disk.pop(path, None)
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        dialect = settings(path).dialect(path)
        known = self._on_disk.get(path)
        if known is None or known.stamp != stamp or known.dialect != dialect:
            file = read_file(Path(path), path)
            known = self._on_disk[path] = _OnDisk(stamp, dialect, file, _is_ours(file, settings))
        return known

    def _parse(self, path: str, text: str) -> SourceFile:
        known = self._parsed_buffers.get(path)
        if known is None or known[0] != text:
            known = self._parsed_buffers[path] = (text, parse_buffer(path, text))
        return known[1]


def parse_buffer(path: str, text: str) -> SourceFile:
    """Parse an editor's text. Half of a surrogate pair, which no file can hold, is taken as U+FFFD of the same length."""
    if len(text) > SIZE_LIMIT:
        file = parse_text(path, "", "text")
        file.skipped = "too-large"
        return file
    return parse_text(path, _LONE_SURROGATE.sub("\ufffd", text))


def _related(
    files: dict[str, SourceFile], wanted: Iterable[str], settings: Callable[[str], Settings], root: Path
) -> dict[str, SourceFile]:
    """Those files that share a job with the wanted ones, with what lies beside them in their folders, to the end of the
    chain: neighbours decide what is linked, and what they are linked to decides whether they are free."""
    context, _ = understand(list(files.values()), settings, root=root)
    jobs = [frozenset(job.documents) for job in context.jobs]
    kept: set[str] = set()
    found = {path for path in wanted if path in files}
    while found - kept:
        kept |= found
        folders = {os.path.dirname(path) for path in kept}
        found = {path for path in files if os.path.dirname(path) in folders}
        found = found.union(*(job for job in jobs if job & found)) & files.keys()
    return {path: file for path, file in files.items() if path in kept}


def _is_ours(file: SourceFile, settings: Callable[[str], Settings]) -> bool:
    readings, reports = recognise_files([file], lambda path: settings(path).dialect(path))
    return bool(readings) or any(report.broken_as for report in reports.values())


def _neighbours(folder: str) -> list[str]:
    try:
        return sorted(e.name for e in os.scandir(folder) if is_candidate(e.name) and e.is_file())
    except OSError:
        return []


def _distance(path: str, folders: list[list[str]]) -> tuple[int, int, str]:
    """Steps from the nearest of ``folders`` up to the common one and down to the file; then by depth and name."""
    own = os.path.dirname(path).split("/")
    best = min((_steps(own, folder) for folder in folders), default=len(own))
    return best, len(own), path


def _steps(a: list[str], b: list[str]) -> int:
    common = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        common += 1
    return len(a) + len(b) - 2 * common


@contextlib.contextmanager
def _working_directory(folder: str) -> Iterator[None]:
    before = None
    with contextlib.suppress(OSError):
        before = os.getcwd()
        os.chdir(folder)
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError):
                os.chdir(before)
