"""``cfglint estimate``: each job's memory, batch and compute, with where every number came from."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cfglint.cli.arguments import add_hardware, add_settings, hardware_options, settings_resolver

if TYPE_CHECKING:
    from cfglint.jobs.job import Job
    from cfglint.jobs.linker import HardwareOptions
    from cfglint.report.estimates import FitsOn, JobEstimate
    from cfglint.source.node import SourceFile

SET_PATH: Final = "--set"
"""Path of the job file that ``--set`` flags make up; origins then read ``--set``."""

COMMON_ACCELERATORS: Final = (
    "T4", "L4", "RTX-4090", "A10G", "L40S", "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM", "H200-SXM", "B200-SXM", "MI300X",
)  # fmt: skip
"""What a job is tried on where nothing says what it runs on: what clouds rent out (../shared/catalog, cloud instances)."""

SERVING_FRAMEWORKS: Final = frozenset({"vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llama.cpp"})
HARDWARE_KEYS: Final = {"gpu": "gpu", "gpus_per_node": "gpus", "nodes": "nodes"}
_KEY: Final = re.compile(r"[A-Za-z_]\w*")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``estimate`` to the command line."""
    parser = subparsers.add_parser(
        "estimate",
        help="memory, batch and compute of each job",
        description="Estimate every job found: memory per GPU with its parts, effective batch, compute, and the file and "
        "line, default or catalogue row that each number came from.",
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="a job's fact in the words of the job file; without paths these make up the job, with paths they count over "
        "what the files say",
    )  # fmt: skip
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument("--fail-on-oom", action="store_true", help="exit code 1 where a job cannot fit")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=argparse.SUPPRESS)
    add_hardware(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Estimate and print. Returns the exit code."""
    from cfglint.lint.engine import understand
    from cfglint.report import estimates

    stated, problem = _stated(args.set)
    if problem:
        return _usage(problem)
    resolver = settings_resolver(args)
    hardware = hardware_options(args)
    code = 0
    if stated and not args.paths:
        files = [_job_file(stated)]
        overrides: dict[str, Any] = {}
    else:
        files, code = _read(args, resolver)
        overrides, hardware, problem = _overrides(stated, hardware)
        if problem:
            return _usage(problem)
    context, reports = understand(files, resolver, hardware)
    problems = [p for reading in context.readings if reading.dialect == "cfglint-job" for p in _unknown_keys(reading)]
    if problems:
        return _usage("\n".join(problems))
    made = [_estimated(job, overrides) for job in context.jobs if not job.partial]
    if args.format == "json":
        sys.stdout.write(estimates.as_json(made))
    elif not made:
        recognised = sum(bool(r.dialects) for r in reports.values())
        print(
            f"no job found in {len(files)} file{'s' if len(files) != 1 else ''} ({recognised} recognised)",
            file=sys.stderr,
        )
    elif args.format == "markdown":
        sys.stdout.write(estimates.as_markdown(made))
    else:
        from cfglint.report.terminal import can_show, wants_colour

        colour = wants_colour(sys.stdout, args.color)
        unicode = can_show(sys.stdout, estimates.UNICODE_PENS)
        sys.stdout.write(estimates.as_text(made, colour=colour, unicode=unicode))
    if code:
        return code
    return 1 if args.fail_on_oom and any(item.cannot_fit for item in made) else 0


def _usage(problem: str) -> int:
    for line in problem.splitlines():
        print(f"cfglint estimate: {line}", file=sys.stderr)
    return 2


def _read(args: argparse.Namespace, resolver: Any) -> tuple[list[SourceFile], int]:
    from cfglint.discovery import discover
    from cfglint.source import read_file

    found = discover(args.paths or ["."], resolver)
    for path, why in found.unreadable:
        print(f"cfglint: {path}: {why}", file=sys.stderr)
    return [read_file(Path(path), path) for path in found.files], 2 if found.unreadable else 0


def _stated(flags: Iterable[str]) -> tuple[dict[str, str], str]:
    stated: dict[str, str] = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not _KEY.fullmatch(key) or "\n" in value:
            return {}, f"--set {flag}: KEY=VALUE is needed, as in --set micro_batch_size=4"
        if key in stated:
            return {}, f"--set {key}=… stands twice"
        stated[key] = value
    return stated, ""


def _job_file(stated: dict[str, str]) -> SourceFile:
    """The job file that the flags say, each on its own line."""
    from cfglint.source import parse_text

    written = dict(stated)
    kind = "serve" if written.get("framework") in SERVING_FRAMEWORKS else "train"
    written.setdefault("kind", kind)
    text = "".join(f"{key}: {value}\n" for key, value in written.items()) + "cfglint: 1\n"
    return parse_text(SET_PATH, text, "yaml")


def _overrides(stated: dict[str, str], hardware: HardwareOptions) -> tuple[dict[str, Any], HardwareOptions, str]:
    """Facts for every job of the paths given, hardware flags among them, and what is wrong with them."""
    from cfglint.source import parse_text

    facts: dict[str, Any] = {}
    for key, text in stated.items():
        file = parse_text(SET_PATH, f"{key}: {text}\n", "yaml")
        if file.problems or not file.documents:
            return {}, hardware, f"--set {key}={text}: not a YAML value"
        from cfglint.source.node import plain

        value = plain(file.documents[0].at(key))
        if key in ("model", "kind", "name", "cfglint", "jobs"):
            return {}, hardware, f"--set {key}=… makes up a job of its own: use it without paths"
        if key in HARDWARE_KEYS:
            wrong = not isinstance(value, str) if key == "gpu" else not isinstance(value, int) or value < 1
            if wrong:
                return (
                    {},
                    hardware,
                    f"--set {key}={text}: {'a name' if key == 'gpu' else 'a whole number from 1'} is needed",
                )
            given: Any = {HARDWARE_KEYS[key]: value}
            hardware = replace(hardware, **given)
            continue
        problem = _unknown_key(key, None)
        if problem:
            return {}, hardware, f"--set {problem}"
        facts[key] = value
    return facts, hardware, ""


def _unknown_keys(reading: Any) -> list[str]:
    from cfglint.dialects.cfglint_job import STRUCTURE

    problems = []
    for key in list(reading.root.index):
        problem = "" if key in STRUCTURE else _unknown_key(key, reading.kind)
        if problem:
            place = "--set" if reading.document.path == SET_PATH else reading.origin(key).describe()
            problems.append(f"{place}: {problem}")
    return problems


def _unknown_key(key: str, kind: str | None) -> str:
    from cfglint.dialects.cfglint_job import RENAMED, fact_names

    known = set(RENAMED).union(*(fact_names(k) for k in ((kind,) if kind else ("train", "serve"))))
    if key in known - {"model_id"}:
        return ""
    close = get_close_matches(key, known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "CONTRACT.md lists the keys of a job file"
    return f"unknown key `{key}`; {hint}"


def _estimated(job: Job, overrides: dict[str, Any]) -> JobEstimate:
    from cfglint.estimate import estimate
    from cfglint.estimate.changes import with_facts
    from cfglint.report.estimates import JobEstimate

    if overrides:
        from cfglint.jobs.facts import FlagOrigin

        job = with_facts(job)
        for name, value in overrides.items():
            job.state_first(name, value, FlagOrigin("--set"))
    made = JobEstimate(job, estimate(job))
    if not job.hardware.candidates and not job.hardware.name and job.architecture is not None:
        made.fits_on = list(_fits_on(job))
    return made


def _fits_on(job: Job) -> Iterable[FitsOn]:
    """Verdicts on accelerators that are common to rent: on the number of GPUs stated, else on one and on eight."""
    from cfglint.catalog.accelerators import accelerators
    from cfglint.estimate import estimate
    from cfglint.estimate.changes import with_facts
    from cfglint.report.estimates import FitsOn

    stated = job.hardware.gpus_per_node
    rows = {a.id: a for a in accelerators()}
    for name in COMMON_ACCELERATORS:
        accelerator = rows.get(name)
        if accelerator is None:
            continue
        for gpus in (stated,) if stated else (1, 8):
            other = with_facts(job)
            other.hardware = replace(job.hardware, candidates=(accelerator,), name=name, gpus_per_node=gpus)
            memory = estimate(other).memory
            if memory.verdict != "unknown":
                yield FitsOn(
                    name, gpus * (job.hardware.nodes or 1), memory.verdict, memory.used, accelerator.usable_bytes
                )


__all__ = ["add_parser", "run"]
