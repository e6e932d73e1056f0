"""``cfglint check``: settings, discovery, parsing, rules, silencing, baseline, fixes, report, exit code."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cfglint.cli.arguments import add_hardware, add_settings, hardware_options, selectors, settings_resolver

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult
    from cfglint.lint.finding import Finding
    from cfglint.settings import SettingsResolver
    from cfglint.source.node import SourceFile

FORMATS: Final = ("text", "json", "sarif", "github", "gitlab", "junit", "markdown", "concise")
MACHINE_FORMATS: Final = ("json", "sarif", "gitlab", "junit")
"""Written as UTF-8 whatever the terminal's encoding is."""
FAIL_ON: Final = ("error", "warning", "info", "never")

PROGRESS_AFTER: Final = 1.0
"""Seconds a run takes before it says how far it is."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check`` to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="lint files and folders",
        description="Lint configuration files. Exit code 0: nothing at or above --fail-on; 1: findings; 2: usage, "
        "settings or an unreadable path; 3: a fault of cfglint.",
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .); - is standard input")
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    output.add_argument("--output-file", metavar="FILE", help="write the report there instead of to standard output")
    output.add_argument("--quiet", "-q", action="store_true", help="findings only: no summary, no notices")
    output.add_argument("--statistics", action="store_true", help="also count findings by rule")
    output.add_argument("--show-files", action="store_true", help="also say what each file was taken for")
    output.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=argparse.SUPPRESS)
    rules = parser.add_argument_group("rules")
    rules.add_argument("--select", action="append", metavar="RULES", help="run only these: codes, code prefixes, names")
    rules.add_argument("--ignore", action="append", metavar="RULES", help="do not run these")
    rules.add_argument("--extend-select", action="append", metavar="RULES", help="run these besides")
    rules.add_argument("--strict", action="store_true", help="also report what only a careful reader wants to hear of")
    rules.add_argument("--preview", action="store_true", help="also run rules that are not stable yet")
    rules.add_argument("--fail-on", choices=FAIL_ON, default="error", help="lowest severity that gives exit code 1")
    fixing = parser.add_argument_group("fixes")
    fixing.add_argument("--fix", action="store_true", help="apply fixes that keep a job's meaning")
    fixing.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: also those that change it")
    fixing.add_argument("--diff", action="store_true", help="show what --fix would do; write nothing")
    known = parser.add_argument_group("baseline")
    known.add_argument("--baseline", metavar="FILE", help="do not report the findings this file lists")
    known.add_argument("--write-baseline", action="store_true", help="write all findings to --baseline FILE")
    add_hardware(parser)
    add_settings(parser)
    parser.add_argument("--stdin-filename", metavar="PATH", help="what standard input (-) is to be taken for")
    parser.add_argument(
        "--jobs", "-j", type=int, default=1, metavar="N",
        help="accepted, without effect: one process links the files of a job, and reads some 600 a second",
    )  # fmt: skip
    parser.add_argument(
        "--no-cache", action="store_true", help="accepted, without effect: nothing is kept from one run to the next"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run ``check`` and return the exit code."""
    from cfglint.lint.selection import RuleSelection

    problem = _usage_problem(args)
    if problem:
        print(f"cfglint check: {problem}", file=sys.stderr)
        return 2
    resolver = settings_resolver(args)
    files, unreadable = _read(args, resolver)
    for path, why in unreadable:
        print(f"cfglint: {path}: {why}", file=sys.stderr)
    selection = RuleSelection(
        select=selectors(args.select) if args.select is not None else None,
        ignore=selectors(args.ignore),
        extend_select=selectors(args.extend_select),
        strict=args.strict,
        preview=args.preview,
    )
    lint = _linter(args, resolver, selection)
    result = lint(files)
    fixed_count = 0
    if args.fix or args.diff:
        result, fixed_count, written = _fix(args, files, result, lint)
        if not written:
            return 2
    if args.baseline and not _baseline(args, result, files):
        return 2
    if not (args.diff and args.format == "text") and not _report(args, result, fixed_count):
        return 2
    _show_faults(result)
    if result.faults:
        return 3
    if unreadable:
        return 2
    return 1 if _fails(result.shown, args.fail_on) and not args.write_baseline else 0


def _usage_problem(args: argparse.Namespace) -> str:
    if args.write_baseline and not args.baseline:
        return "--write-baseline needs --baseline FILE"
    if args.unsafe_fixes and not (args.fix or args.diff):
        return "--unsafe-fixes needs --fix or --diff"
    if "-" in args.paths and len(args.paths) > 1:
        return "- (standard input) stands alone"
    if args.stdin_filename and args.paths not in ([], ["-"]):
        return "--stdin-filename goes with - (standard input), not with paths"
    if "-" in args.paths and args.fix and not args.diff:
        return "--fix cannot write to standard input; use --diff"
    if args.jobs < 1:
        return "--jobs takes a number from 1"
    return ""


def _read(args: argparse.Namespace, resolver: SettingsResolver) -> tuple[list[SourceFile], list[tuple[str, str]]]:
    from cfglint.discovery import discover, display_path
    from cfglint.source import read_file

    if args.paths == ["-"] or (args.stdin_filename and not args.paths):
        from cfglint.source.text import SIZE_LIMIT, parse_bytes, skipped_file

        name = display_path(args.stdin_filename) if args.stdin_filename else "<stdin>"
        data = sys.stdin.buffer.read(SIZE_LIMIT + 1)
        return [skipped_file(name, "too-large") if len(data) > SIZE_LIMIT else parse_bytes(name, data)], []
    found = discover(args.paths or ["."], resolver)
    if found.excluded and not args.quiet:
        shown = ", ".join(found.excluded[:3]) + (
            f" and {len(found.excluded) - 3} more" if len(found.excluded) > 3 else ""
        )
        print(f"cfglint: left out by `exclude`: {shown}", file=sys.stderr)
    progress = _Progress("reading")
    files, unreadable = [], list(found.unreadable)
    for i, path in enumerate(found.files):
        file = read_file(Path(path), path)
        if file.skipped == "unreadable" and path in {display_path(p) for p in args.paths}:
            unreadable.append((path, "cannot be read"))
        files.append(file)
        progress(i + 1, len(found.files))
    progress.done()
    return files, unreadable


def _linter(
    args: argparse.Namespace, resolver: SettingsResolver, selection: object
) -> Callable[[Sequence[SourceFile]], RunResult]:
    from cfglint.lint import engine
    from cfglint.lint.selection import RuleSelection

    assert isinstance(selection, RuleSelection)
    hardware = hardware_options(args)
    only_files = bool(args.paths) and args.paths != ["-"] and not any(map(os.path.isdir, args.paths))

    def once(files: Sequence[SourceFile]) -> RunResult:
        progress = _Progress("checking")
        try:
            return engine.run(files, resolver, hardware, selection=selection, progress=progress)
        finally:
            progress.done()

    def lint(files: Sequence[SourceFile]) -> RunResult:
        result = once(files)
        return _with_runs(result, files, resolver, once) if only_files else result

    return lint


def _with_runs(
    result: RunResult,
    files: Sequence[SourceFile],
    resolver: SettingsResolver,
    once: Callable[[Sequence[SourceFile]], RunResult],
) -> RunResult:
    """A DeepSpeed or Accelerate file that is given alone (the one file of a commit) is linted with the runs of its
    repository that name it. What concerns only those is not reported."""
    from cfglint.discovery import naming
    from cfglint.source import read_file

    parts = [job.documents[0] for job in result.context.jobs if job.partial]
    given = {file.path for file in files}
    others = [path for path in naming(parts, resolver) if path not in given] if parts else []
    if not others:
        return result
    whole = once([*files, *(read_file(Path(path), path) for path in others)])
    jobs = whole.context.jobs
    jobs.training = [job for job in jobs.training if not given.isdisjoint(job.documents)]
    jobs.serving = [job for job in jobs.serving if not given.isdisjoint(job.documents)]
    whole.findings = [f for f in whole.findings if f.reported_path in given or any(p.path in given for p in f.places)]
    whole.files = {path: report for path, report in whole.files.items() if path in given}
    return whole


def _fix(
    args: argparse.Namespace,
    files: list[SourceFile],
    result: RunResult,
    lint: Callable[[Sequence[SourceFile]], RunResult],
) -> tuple[RunResult, int, bool]:
    """Apply fixes, or show them with ``--diff``. The third value is False where a file could not be written."""
    from cfglint.lint.fixes import apply_fixes, encoded

    by_path = {file.path: file for file in files}
    latest = [result]

    def relint(now: Mapping[str, SourceFile]) -> list[Finding]:
        latest[0] = lint([now[file.path] for file in files])
        return latest[0].findings

    outcome = apply_fixes(result.findings, by_path, relint, unsafe=args.unsafe_fixes)
    if not args.quiet:
        for dropped in outcome.dropped:
            where = dropped.finding.reported_path
            print(
                f"cfglint: {where}: {dropped.finding.code}: not fixed ({dropped.fix.title}): {dropped.why}",
                file=sys.stderr,
            )
    if args.diff:
        for path, text in sorted(outcome.texts.items()):
            sys.stdout.write(_diff(path, by_path[path].text, text))
        if not args.quiet and args.format == "text":
            count = len(outcome.applied)
            print(f"{count} {'fix' if count == 1 else 'fixes'} would be applied", file=sys.stderr)
        return result, 0, True
    for path, text in sorted(outcome.texts.items()):
        try:
            _write_whole(Path(path), encoded(by_path[path], text))
        except OSError as error:
            print(f"cfglint: {path}: cannot be written: {error.strerror or error}", file=sys.stderr)
            return result, 0, False
    if outcome.texts:
        from cfglint.source import read_file

        result = lint([read_file(Path(f.path), f.path) if f.path in outcome.texts else f for f in files])
    return result, len(outcome.applied), True


def _write_whole(path: Path, data: bytes) -> None:
    """Write beside the file and move over it, so that a full disk never leaves half a config."""
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.cfglint")
    try:
        beside.write_bytes(data)
        os.chmod(beside, os.stat(target).st_mode & 0o7777)
        os.replace(beside, target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _diff(path: str, before: str, after: str) -> str:
    from difflib import unified_diff

    lines = []
    for line in unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    ):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _baseline(args: argparse.Namespace, result: RunResult, files: Sequence[SourceFile]) -> bool:
    from cfglint.lint import baseline

    path = Path(args.baseline)
    if args.write_baseline:
        kept = baseline.collect(result.findings, path)
        try:
            baseline.write(kept, path)
        except OSError as error:
            print(f"cfglint: {path}: cannot be written: {error.strerror or error}", file=sys.stderr)
            return False
        if not args.quiet:
            count = sum(n for codes in kept.counts.values() for c in codes.values() for n in c.values())
            print(f"cfglint: {count} findings written to {path}", file=sys.stderr)
    known = baseline.read(path)
    known.mark(result.findings)
    if not args.quiet:
        for stale, code, count in known.stale(file.path for file in files):
            print(f"cfglint: {path}: {stale}: {count} × {code} is gone; write the baseline anew", file=sys.stderr)
    return True


def _report(args: argparse.Namespace, result: RunResult, fixed: int) -> bool:
    from cfglint.report import Options, render
    from cfglint.report.terminal import wants_colour, write_for_machines

    to_file = args.output_file and args.output_file != "-"
    options = Options(
        colour=not to_file and wants_colour(sys.stdout, args.color),
        quiet=args.quiet,
        statistics=args.statistics,
        show_files=args.show_files,
        fixed=fixed,
    )
    text = render(args.format, result, options)
    if not to_file:
        if args.format in MACHINE_FORMATS:
            write_for_machines(text)
        else:
            sys.stdout.write(text)
        return True
    try:
        with open(args.output_file, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        print(f"cfglint: {args.output_file}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return False
    return True


def _show_faults(result: RunResult) -> None:
    if result.faults and os.environ.get("CFGLINT_TRACEBACK") == "1":
        for fault in result.faults:
            print(f"cfglint: {fault.path}: {fault.code}\n{fault.detail}", file=sys.stderr)


def _fails(findings: Sequence[Finding], fail_on: str) -> bool:
    from cfglint.lint.finding import SEVERITY_ORDER

    if fail_on == "never":
        return False
    return any(SEVERITY_ORDER[f.severity] >= SEVERITY_ORDER[fail_on] for f in findings)


class _Progress:
    """How far a run is, on stderr, where a person watches and it takes longer than a second."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.watched = sys.stderr.isatty() and not os.environ.get("CI")
        self.started = self.last = time.monotonic()
        self.shown = False

    def __call__(self, done: int, total: int) -> None:
        if not self.watched:
            return
        now = time.monotonic()
        if now - self.started > PROGRESS_AFTER and now - self.last > 0.1:
            self.last, self.shown = now, True
            sys.stderr.write(f"\r{self.what} {done}/{total} ")
            sys.stderr.flush()

    def done(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
