"""``cfglint diff``: what a change does to every job, between two git revisions or two folders."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cfglint.cli.arguments import add_hardware, add_settings, hardware_options, selectors

if TYPE_CHECKING:
    from cfglint.lint.comparison import Comparison
    from cfglint.lint.engine import RunResult
    from cfglint.snapshot import Repository, Revision
    from cfglint.source.node import SourceFile

FAIL_ON = ("error", "warning", "info", "never")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``diff`` to the command line."""
    parser = subparsers.add_parser(
        "diff",
        help="what a change does to every job",
        description="What a change does to every job between two git revisions (or two folders): settings, memory, "
        "batch, verdicts, findings that are new and findings that are gone. The work tree is not touched.",
        epilog="Exit code 0: no new finding at or above --fail-on; 1: there are some (or, with --fail-on-oom, a job that "
        "no longer fits); 2: usage, settings or a revision that cannot be read; 3: a fault of cfglint.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "base", metavar="BASE", help="git revision or folder; BASE..HEAD and BASE...HEAD (from where they parted) as git has it"
    )  # fmt: skip
    parser.add_argument(
        "head", metavar="HEAD", nargs="?", help="git revision or folder (default: the work tree as it is on disk)"
    )
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, default="error", help="lowest severity of a new finding that gives exit code 1"
    )
    parser.add_argument(
        "--fail-on-oom", action="store_true", help="exit code 1 where a job that could fit no longer can"
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=argparse.SUPPRESS)
    rules = parser.add_argument_group("rules")
    rules.add_argument("--select", action="append", metavar="RULES", help="findings of these rules only")
    rules.add_argument("--ignore", action="append", metavar="RULES", help="no findings of these")
    add_hardware(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


@dataclass
class _Side:
    """One state of the files. ``name``: as the user calls it; ``prefix``: ``folder`` inside its repository;
    ``submodules``: path in the repository to commit, not looked into."""

    name: str
    folder: Path
    commit: str | None = None
    prefix: str = ""
    submodules: dict[str, str] = field(default_factory=dict)


def run(args: argparse.Namespace) -> int:
    """Compare and print. Returns the exit code."""
    from cfglint.lint.comparison import compare
    from cfglint.report import changes
    from cfglint.report.terminal import can_show, wants_colour, write_for_machines
    from cfglint.snapshot import SnapshotError

    if args.config:
        args.config = os.path.abspath(args.config)
    with tempfile.TemporaryDirectory(prefix="cfglint-") as scratch:
        try:
            base, head = _sides(args.base, args.head, Path(scratch).resolve())
        except SnapshotError as error:
            print(f"cfglint diff: {error}", file=sys.stderr)
            return 2
        parsed: _Parsed = {}
        before, after = _lint(base, args, parsed), _lint(head, args, parsed)
        made = compare(before, after)
    shown = changes.Sides(base.name, head.name, base.commit, head.commit)
    if args.format == "json":
        write_for_machines(changes.as_json(made, shown))
    elif args.format == "markdown":
        sys.stdout.write(changes.as_markdown(made, shown))
    else:
        colour = wants_colour(sys.stdout, args.color)
        arrow = "→" if can_show(sys.stdout, "→") else "->"
        sys.stdout.write(changes.as_text(made, shown, colour=colour, arrow=arrow))
    for path in sorted(base.submodules.keys() | head.submodules.keys()):
        if base.submodules.get(path) != head.submodules.get(path):
            print(f"cfglint diff: {path}: a submodule that changes; it is not looked into", file=sys.stderr)
    for result in (before, after):
        for fault in result.faults:
            print(f"cfglint diff: {fault.path}: {fault.code or 'reading'} failed: {fault.error}", file=sys.stderr)
    if before.faults or after.faults:
        return 3
    return 1 if _fails(made, args) else 0


def _fails(made: Comparison, args: argparse.Namespace) -> bool:
    from cfglint.lint.finding import SEVERITY_ORDER

    if args.fail_on_oom and any(change.stops_fitting for change in made.jobs):
        return True
    if args.fail_on == "never":
        return False
    return any(SEVERITY_ORDER[f.severity] >= SEVERITY_ORDER[args.fail_on] for f in made.findings.raised)


# The two sides -------------------------------------------------------------------------------------------------------


def _sides(base: str, head: str | None, scratch: Path) -> tuple[_Side, _Side]:
    from cfglint.snapshot import merge_base

    here = _Here()
    if head is None and _is_range(base):
        dots = "..." if "..." in base else ".."
        base, head = base.split(dots, 1)
        base, head = base or "HEAD", head or "HEAD"
        if dots == "...":
            one, other = here.revision(base), here.revision(head)
            return _of_revision(here, merge_base(one, other), scratch / "base"), _of_revision(
                here, other, scratch / "head"
            )
    before = _side(here, base, scratch / "base")
    after = _side(here, head, scratch / "head") if head is not None else _work_tree(here, before)
    return before, after


def _is_range(name: str) -> bool:
    """``main..change``, ``main...``; not ``../folder``."""
    return (".." in name and not name.startswith("..")) or (name.startswith("..") and "/" not in name and len(name) > 3)


class _Here:
    """The repository of the working directory, asked for when a revision is named."""

    def __init__(self) -> None:
        self._repository: Repository | None = None

    @property
    def repository(self) -> Repository:
        from cfglint.snapshot import SnapshotError, repository

        if self._repository is None:
            try:
                self._repository = repository()
            except SnapshotError as error:
                raise SnapshotError(f"{error}; outside a repository name two folders") from None
        return self._repository

    def revision(self, name: str) -> Revision:
        from cfglint.snapshot import SnapshotError, revision, shallow_hint

        assert self.repository
        found = revision(name)
        if found is None:
            raise SnapshotError(f"{name}: no such revision, and no such folder{shallow_hint()}")
        return found


def _side(here: _Here, name: str, scratch: Path) -> _Side:
    """A folder where the name can be nothing else (``./name``, ``a/b/``), or where git does not know it."""
    from cfglint.snapshot import SnapshotError, revision

    spelled = name in (".", "..") or name.startswith(("./", "../", "/", "~")) or name.endswith(("/", os.sep))
    is_folder = os.path.isdir(name)
    if is_folder and (spelled or revision(name) is None):
        return _Side(name, Path(name).resolve())
    if is_folder:
        raise SnapshotError(f"{name} is a folder and a git revision; write ./{name} for the folder, or its hash")
    if os.path.isfile(name) and revision(name) is None:
        raise SnapshotError(f"{name} is a file; name a git revision or a folder")
    return _of_revision(here, here.revision(name), scratch)


def _of_revision(here: _Here, asked: Revision, scratch: Path) -> _Side:
    from cfglint.snapshot import write_snapshot

    scratch.mkdir()
    written = write_snapshot(here.repository, asked, scratch)
    prefix = here.repository.prefix
    return _Side(asked.name, scratch / prefix, asked.hash, prefix, written.submodules)


def _work_tree(here: _Here, before: _Side) -> _Side:
    from cfglint.snapshot import SnapshotError, submodules

    if before.commit is None:
        raise SnapshotError("with a folder as BASE, HEAD has to be named")
    if here.repository.root is None:
        raise SnapshotError("a repository without a work tree: name two revisions")
    return _Side("work tree", Path.cwd(), None, here.repository.prefix, submodules(here.repository))


# A run ---------------------------------------------------------------------------------------------------------------


_Parsed = dict[str, tuple[bytes, "SourceFile"]]
"""Files by path, with the bytes they were parsed from: most are the same on both sides."""


def _lint(side: _Side, args: argparse.Namespace, parsed: _Parsed) -> RunResult:
    """Lint one side as ``check`` would in its folder."""
    from cfglint.cli.arguments import settings_resolver
    from cfglint.discovery import discover
    from cfglint.lint.engine import run as lint
    from cfglint.lint.registry import PluginError
    from cfglint.lint.selection import RuleSelection
    from cfglint.settings import SettingsError

    selection = RuleSelection(
        select=selectors(args.select) if args.select is not None else None, ignore=selectors(args.ignore)
    )
    with _working_in(side.folder):
        apart = tuple(f"{os.path.relpath(path, side.prefix or '.')}/" for path in side.submodules)
        try:
            resolver = settings_resolver(args)
            paths = [path for path in discover(["."], resolver).files if not path.startswith(apart)]
            files = [_read(path, parsed) for path in paths]
            return lint(files, resolver, hardware_options(args), selection=selection)
        except (SettingsError, PluginError) as error:
            raise type(error)(f"{side.name}: {error}") from error


def _read(path: str, parsed: _Parsed) -> SourceFile:
    from cfglint.source.text import SIZE_LIMIT, parse_bytes, read_file

    try:
        # a file that discovery found is a regular one
        data = Path(path).read_bytes() if os.path.getsize(path) <= SIZE_LIMIT else None
    except OSError:
        data = None
    if data is None:
        return read_file(Path(path), path)
    before = parsed.get(path)
    if before is None or before[0] != data:
        before = parsed[path] = (data, parse_bytes(path, data))
    return before[1]


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    here = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
