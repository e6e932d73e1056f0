"""Paths to the files worth reading: ``.gitignore``-aware, never out of a symlink loop, in one fixed order.

No git is needed: ``.gitignore`` files on the way and ``.git/info/exclude`` are read here, with pathspec's matcher.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cfglint.settings import Settings, SettingsResolver, matcher
from cfglint.source.text import SIZE_LIMIT

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

EXTENSIONS: Final = frozenset(
    {".yaml", ".yml", ".json", ".jsonc", ".json5", ".toml", ".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch"}
)
"""What a folder is searched for; a file named on the command line is looked at whatever it is called."""

_DOCKERFILE: Final = re.compile(r"(?i)(?:^(?:dockerfile|containerfile)(?:\..*)?|.*\.(?:dockerfile|containerfile))$")
_NOT_DOCKERFILE: Final = (".md", ".py", ".txt", ".dockerignore", ".rst", ".html")


@dataclass
class Discovery:
    """``files`` to read, as reports show their paths; ``unreadable``: paths from the command line that are not there,
    with the reason; ``excluded``: files named on the command line that ``exclude`` leaves out."""

    files: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)


def discover(paths: Sequence[str], settings_for: SettingsResolver) -> Discovery:
    """The files that ``paths`` name or hold, sorted within each folder, each file once."""
    found = Discovery()
    seen: set[str] = set()
    for path in paths:
        shown = display_path(path)
        try:
            is_folder = os.path.isdir(path)
            if not is_folder and not os.path.exists(path):
                found.unreadable.append((path, "no such file or folder"))
                continue
        except ValueError:
            found.unreadable.append((path, "not a path"))
            continue
        if is_folder:
            if not os.access(path, os.R_OK | os.X_OK):
                found.unreadable.append((path, "permission denied"))
                continue
            candidates: Iterator[str] = _walk(shown, settings_for)
        elif excluded(path, settings_for(path)):
            found.excluded.append(shown)
            continue
        elif os.path.isfile(path) and not os.access(path, os.R_OK):
            found.unreadable.append((path, "permission denied"))
            continue
        else:
            candidates = iter((shown,))
        for candidate in candidates:
            full = os.path.abspath(candidate)
            if full not in seen:
                seen.add(full)
                found.files.append(candidate)
    return found


MOST_SEARCHED: Final = 5000
"""Files that are searched for a name, the nearest first: half a second's worth."""


def naming(paths: Sequence[str], settings_for: SettingsResolver) -> list[str]:
    """Other files of the same git repository whose text holds the name of one of ``paths``: what may refer to it."""
    found: dict[str, None] = {}
    for path in paths:
        name = os.path.basename(path).encode("utf-8", "surrogateescape")
        seen = {os.path.abspath(path)}
        for folder in _folders_up(os.path.dirname(os.path.abspath(path))):
            for other in _walk(os.path.relpath(folder), settings_for):
                full = os.path.abspath(other)
                if full in seen:
                    continue
                if len(seen) > MOST_SEARCHED:
                    return list(found)
                seen.add(full)
                if _holds(full, name):
                    found[os.path.relpath(full).replace(os.sep, "/")] = None
    return list(found)


def _folders_up(folder: str) -> list[str]:
    """``folder`` and those above it up to the root of its git repository; none outside of one."""
    folders = [folder]
    while not os.path.exists(os.path.join(folders[-1], ".git")):
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return []
        folders.append(above)
    return folders


def _holds(path: str, name: bytes) -> bool:
    try:
        if os.path.getsize(path) > SIZE_LIMIT:
            return False
        with open(path, "rb") as stream:
            return name in stream.read()
    except OSError:
        return False


def is_candidate(name: str) -> bool:
    """True for a file name of a kind that is read when a folder is searched."""
    lower = name.lower()
    if os.path.splitext(lower)[1] in EXTENSIONS:
        return True
    return _DOCKERFILE.match(lower) is not None and not lower.endswith(_NOT_DOCKERFILE)


def excluded(path: str, settings: Settings) -> bool:
    """True where the settings' ``exclude`` leaves a file out."""
    return _exclude_matcher(settings)(settings.relative(path).lstrip("/"))


def display_path(path: str) -> str:
    """A path as reports show it: from the working directory where it lies in it, with forward slashes."""
    here = os.getcwd()
    if os.path.isabs(path):
        relative = os.path.relpath(path, here)
        path = path if relative.startswith("..") else relative
    return os.path.normpath(path).replace(os.sep, "/")


_matchers: dict[tuple[str, ...], Callable[[str], bool]] = {}


def _exclude_matcher(settings: Settings) -> Callable[[str], bool]:
    known = _matchers.get(settings.exclude)
    if known is None:
        known = _matchers[settings.exclude] = matcher(settings.exclude)
    return known


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    """The patterns of one ``.gitignore``; ``prefix`` is its folder's full path with a separator at the end."""

    prefix: str
    spec: GitIgnoreSpec

    def says(self, full: str, folder: bool) -> bool | None:
        """True: ignored, False: taken back in with ``!``, None: nothing said."""
        inner = full[len(self.prefix) :].replace(os.sep, "/")
        return self.spec.check_file(inner + "/" if folder else inner).include


def _walk(top: str, settings_for: SettingsResolver) -> Iterator[str]:
    """Candidate files below ``top``, files of a folder before its folders, each by name."""
    full_top = os.path.abspath(top)
    ignores = _ignore_files_above(full_top)
    open_folders: list[tuple[str, str, tuple[_IgnoreFile, ...], frozenset[str]]] = [
        (top, full_top, ignores, frozenset((os.path.realpath(full_top),)))
    ]
    while open_folders:
        shown, full, ignores, above = open_folders.pop()
        try:
            entries = sorted(os.scandir(full), key=lambda entry: entry.name)
        except OSError:
            continue
        own = _ignore_file(full, ".gitignore") if any(e.name == ".gitignore" for e in entries) else None
        if own is not None:
            ignores = (*ignores, own)
        settings = settings_for.for_folder(full)
        leaves_out = _exclude_matcher(settings)
        folders = []
        for entry in entries:
            name = entry.name
            try:
                is_folder = entry.is_dir()
            except OSError:
                continue
            if not is_folder and not is_candidate(name):
                continue
            relative = settings.relative(entry.path).lstrip("/")
            if leaves_out(relative + "/" if is_folder else relative) or _ignored(ignores, entry.path, is_folder):
                continue
            inner = name if shown == "." else f"{shown.rstrip('/')}/{name}"
            if not is_folder:
                if entry.is_file():
                    yield inner
                continue
            ancestors = above
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if real in above or any(a.startswith(real.rstrip(os.sep) + os.sep) for a in above):
                    continue
                ancestors = above | {real}
            elif len(above) > 1:
                ancestors = above | {os.path.realpath(entry.path)}
            folders.append((inner, entry.path, ignores, ancestors))
        open_folders.extend(reversed(folders))


def _ignored(ignores: tuple[_IgnoreFile, ...], full: str, folder: bool) -> bool:
    for ignore in reversed(ignores):
        said = ignore.says(full, folder)
        if said is not None:
            return said
    return False


def is_ignored(path: str) -> bool:
    """Whether a ``.gitignore`` or ``.ignore`` above a path leaves it, or a folder it lies in, out."""
    full = os.path.abspath(path)
    ignores = _ignore_files_above(os.path.join(os.path.dirname(full), "-"))  # its own folder's file counts too
    here, folder = full, False
    while here != os.path.dirname(here):
        if _ignored(ignores, here, folder):
            return True
        here, folder = os.path.dirname(here), True
    return False


def _ignore_files_above(folder: str) -> tuple[_IgnoreFile, ...]:
    """The ignore files that hold for ``folder`` from above it, outermost first; none outside a git repository."""
    chain: list[str] = []
    current = folder
    while True:
        if os.path.exists(os.path.join(current, ".git")):
            exclude = _ignore_file(current, os.path.join(".git", "info", "exclude"))
            above = [_ignore_file(f, ".gitignore") for f in reversed(chain) if f != folder]
            return tuple(f for f in (exclude, *above) if f is not None)
        parent = os.path.dirname(current)
        chain.append(parent)
        if parent == current:
            return ()
        current = parent


def _is_pattern(line: str) -> bool:
    """False for a line that no matcher takes (``!``, ``[z-a]``): git passes over it, and the others count."""
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _ignore_file(folder: str, name: str) -> _IgnoreFile | None:
    path = os.path.join(folder, name)
    try:
        if not os.path.isfile(path):
            return None  # opening a pipe would wait for its writer
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return None
    import pathspec

    try:
        spec = pathspec.GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):
        spec = pathspec.GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))
    return _IgnoreFile(folder.rstrip(os.sep) + os.sep, spec)
