"""The configuration files of a git revision, written to a folder of their own; the work tree is not touched.

Everything is asked of the ``git`` command. Written is what a run may read: what discovery takes (see
:func:`cfglint.discovery.is_candidate`), requirements and lock files, ignore files, small files without an extension.
What git does not track (a model folder that is ignored, a submodule) is the same on both sides of a comparison: it is
linked into the folder as it lies on disk, so that look-ups find it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from cfglint.discovery import is_candidate
from cfglint.jobs.versions import LOCK_FILES, LOCK_LIMIT, PROJECT_FILES
from cfglint.settings import DEFAULT_EXCLUDE
from cfglint.source.text import SIZE_LIMIT

_ALSO: Final = frozenset({".txt", ".cfg", ".conf", ""})
"""Endings besides those of discovery: requirements, and what a launch line may name."""

_EXCLUDED_FOLDERS: Final = frozenset(name.rstrip("/") for name in DEFAULT_EXCLUDE if name.endswith("/"))


class SnapshotError(Exception):
    """A revision that cannot be read, with what can be done about it."""


@dataclass(frozen=True)
class Repository:
    """A git repository. ``root`` is None for one without a work tree; ``prefix``: the working directory inside it."""

    root: Path | None
    prefix: str

    def git(self, *arguments: str, text: bytes | None = None) -> bytes:
        """What a git command prints. Raises :class:`SnapshotError` with git's own words."""
        return _git(*arguments, text=text)


@dataclass(frozen=True)
class Revision:
    """A commit (or a tree), as it was named and by its hash."""

    name: str
    hash: str

    @property
    def short(self) -> str:
        return self.hash[:9]


@dataclass
class Snapshot:
    """A revision's files below ``folder``. ``submodules``: path to commit, not looked into."""

    folder: Path
    submodules: dict[str, str] = field(default_factory=dict)


def repository() -> Repository:
    """The repository of the working directory. Raises :class:`SnapshotError` where there is none."""
    inside = _git("rev-parse", "--is-inside-work-tree", "--is-bare-repository").decode().split()
    if inside[:1] != ["true"]:
        return Repository(None, "")
    root, prefix = (
        _git("rev-parse", "--show-toplevel", "--show-prefix").decode("utf-8", "surrogateescape").split("\n")[:2]
    )
    return Repository(Path(root), prefix)


def revision(name: str) -> Revision | None:
    """What ``name`` means to git, or None where it means nothing."""
    for kind in ("commit", "tree"):
        try:
            found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{{kind}}}")
        except SnapshotError:
            continue
        return Revision(name, found.decode().strip())
    return None


def merge_base(one: Revision, other: Revision) -> Revision:
    """The last commit that two have in common."""
    try:
        found = _git("merge-base", one.hash, other.hash).decode().strip()
    except SnapshotError:
        raise SnapshotError(f"{one.name} and {other.name} have no commit in common{shallow_hint()}") from None
    return Revision(f"{one.name}...{other.name}", found)


def shallow_hint() -> str:
    """Words on how to get what a shallow clone lacks; empty where the clone is whole."""
    try:
        shallow = _git("rev-parse", "--is-shallow-repository").decode().strip() == "true"
    except SnapshotError:
        return ""
    return "; this clone is shallow: `git fetch --unshallow`, or fetch that revision" if shallow else ""


def submodules(repo: Repository) -> dict[str, str]:
    """Submodules of the index, from the repository's root, with the commit each stands at."""
    found: dict[str, str] = {}
    if repo.root is not None:
        for row in repo.git("-C", str(repo.root), "ls-files", "--stage", "-z").split(b"\0"):
            head, _, name = row.partition(b"\t")
            if head.startswith(b"160000 "):
                found[os.fsdecode(name)] = head.split()[1].decode()
    return found


def write_snapshot(repo: Repository, asked: Revision, folder: Path) -> Snapshot:
    """Write a revision's configuration files below ``folder``, which is empty."""
    snapshot = Snapshot(folder)
    # a git folder marks where searches upward end; what it excludes counts here as it does in the work tree
    (folder / ".git" / "info").mkdir(parents=True)
    excludes = Path(os.fsdecode(repo.git("rev-parse", "--git-path", "info/exclude").rstrip(b"\n")))
    if excludes.is_file():
        (folder / ".git" / "info" / "exclude").write_bytes(excludes.read_bytes())
    wanted: list[tuple[str, str, bool]] = []
    for mode, hash, size, path in _tree(repo, asked):
        if mode == "160000":
            snapshot.submodules[path] = hash
        elif mode == "120000" or (size <= _limit(path) and _is_read(path)):
            wanted.append((hash, path, mode == "120000"))
    missing = 0
    for (_, path, link), content in zip(wanted, _blobs(repo, [hash for hash, _, _ in wanted]), strict=True):
        if content is None:
            missing += 1
        else:
            _write(folder, path, content, link)
    if missing:
        raise SnapshotError(
            f"{asked.name}: {missing} files are not in this clone, which is a partial one: check the revision out once"
        )
    (folder / repo.prefix).mkdir(parents=True, exist_ok=True)
    if repo.root is not None:
        _link_untracked(repo, repo.root, snapshot)
    return snapshot


def _is_read(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return (
        is_candidate(name)
        or name in LOCK_FILES
        or name in PROJECT_FILES
        or name == ".gitignore"
        or os.path.splitext(name)[1].lower() in _ALSO
    )


def _limit(path: str) -> int:
    return LOCK_LIMIT if path.rsplit("/", 1)[-1] in LOCK_FILES else SIZE_LIMIT


def _tree(repo: Repository, asked: Revision) -> Iterator[tuple[str, str, int, str]]:
    """Mode, hash, bytes and path of everything in a revision; names that no checkout may have are passed over."""
    listing = repo.git("ls-tree", "-r", "-z", "-l", "--full-tree", asked.hash)
    for row in listing.split(b"\0"):
        head, _, name = row.partition(b"\t")
        fields = head.split()
        if len(fields) != 4:
            continue
        path = os.fsdecode(name)
        if {"", ".", "..", ".git"}.isdisjoint(path.lower().split("/")):
            size = int(fields[3]) if fields[3].isdigit() else 0
            yield fields[0].decode(), fields[2].decode(), size, path


def _blobs(repo: Repository, hashes: Sequence[str]) -> Iterator[bytes | None]:
    """Contents in the order asked for; None for one that the clone does not hold."""
    asked = "".join(f"{hash}\n" for hash in hashes).encode()
    data = repo.git("cat-file", "--batch", text=asked)
    at = 0
    for _ in hashes:
        end = data.index(b"\n", at)
        head = data[at:end].split()
        at = end + 1
        if head[-1] == b"missing":
            yield None
            continue
        size = int(head[2])
        yield data[at : at + size]
        at += size + 1


def _write(folder: Path, path: str, content: bytes, link: bool) -> None:
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not link:
            target.write_bytes(content)
        elif _stays_inside(path, os.fsdecode(content)):
            os.symlink(content, os.fsencode(target))
    except OSError:
        return  # a name that this file system does not take: nobody can have checked it out here


def _stays_inside(path: str, destination: str) -> bool:
    """Whether a symbolic link leads to something in the same tree."""
    if os.path.isabs(destination):
        return False
    led = os.path.normpath(PurePosixPath(path).parent / destination)
    return not led.startswith("..")


def _link_untracked(repo: Repository, root: Path, snapshot: Snapshot) -> None:
    listing = repo.git("-C", str(root), "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    ignored = [os.fsdecode(name).rstrip("/") for name in listing.split(b"\0") if name]
    for path in (*ignored, *snapshot.submodules):
        target = snapshot.folder / path
        if not _EXCLUDED_FOLDERS.isdisjoint(path.split("/")) or os.path.lexists(target):
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(root / path)
        except OSError:
            continue


def _git(*arguments: str, text: bytes | None = None) -> bytes:
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            ["git", "--no-replace-objects", *arguments],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            env=environment,
        )
    except FileNotFoundError:
        raise SnapshotError("git is not installed; two folders can be compared without it") from None
    except (OSError, ValueError) as error:
        raise SnapshotError(f"git cannot be run: {error}") from error
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SnapshotError(words[0].removeprefix("fatal: ") if words else f"git {arguments[0]} failed")
    return done.stdout
