"""The jobs a command is asked about: those of the files given, or one that ``--set`` flags make up."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cfglint.cli.arguments import hardware_options, settings_resolver

if TYPE_CHECKING:
    from cfglint.jobs.facts import FactSet
    from cfglint.jobs.job import Job
    from cfglint.jobs.linker import HardwareOptions
    from cfglint.source.node import SourceFile

SET_PATH: Final = "--set"
"""Path of the job file that ``--set`` flags make up; origins then read ``--set``."""

SERVING_FRAMEWORKS: Final = frozenset({"vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llama.cpp"})
HARDWARE_KEYS: Final = {"gpu": "gpu", "gpus_per_node": "gpus", "nodes": "nodes"}
OFTEN_MEANT: Final = {"gpus": "gpus_per_node", "engine": "framework"}
"""What the flags and other programs call a key of the job file, where the nearest spelling is another key."""
_KEY: Final = re.compile(r"[A-Za-z_]\w*")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The paths, and ``--set``."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="a job's fact in the words of the job file; without paths these make up the job, with paths they count over "
        "what the files say",
    )  # fmt: skip


@dataclass
class Asked:
    """The jobs found, with what went wrong. ``code`` is the exit code of unreadable paths; ``problem`` a usage error."""

    jobs: list[Job] = field(default_factory=list)
    files: int = 0
    recognised: int = 0
    code: int = 0
    problem: str = ""

    def say_none(self) -> None:
        """Say on stderr that there is nothing to answer about."""
        plural = "s" if self.files != 1 else ""
        print(f"no job found in {self.files} file{plural} ({self.recognised} recognised)", file=sys.stderr)


def usage(command: str, problem: str) -> int:
    """Say what is wrong with a command's arguments; the exit code."""
    for line in problem.splitlines():
        print(f"cfglint {command}: {line}", file=sys.stderr)
    return 2


def asked_jobs(args: argparse.Namespace) -> Asked:
    """Whole jobs of the paths given, with the facts and hardware that flags state over the files' own."""
    from cfglint.jobs.facts import FactSet
    from cfglint.lint.engine import understand

    asked = Asked()
    stated, asked.problem = _stated(args.set)
    if asked.problem:
        return asked
    resolver = settings_resolver(args)
    hardware = hardware_options(args)
    overrides = FactSet()
    if stated and not args.paths:
        files = [_job_file(stated)]
        asked.problem = _unparsed(stated, files[0])
        if asked.problem:
            return asked
    else:
        files, asked.code = _read(args, resolver)
        overrides, hardware, asked.problem = _overrides(stated, hardware)
        if asked.problem:
            return asked
    context, reports = understand(files, resolver, hardware)
    refused = set()
    for reading in context.readings:
        wrong = _unknown_keys(reading) if reading.dialect == "cfglint-job" else []
        if not wrong:
            continue
        if reading.document.path == SET_PATH:
            asked.problem = "\n".join(wrong)
            return asked
        # the other files of a folder are answered all the same
        refused.add(id(reading.document))
        asked.code = 2
        for line in wrong:
            print(f"cfglint: {line}", file=sys.stderr)
    for file in files:
        if file.path in reports and reports[file.path].broken_as and file.problems:
            problem = file.problems[0]
            at = file.position(problem.span.start).line
            print(f"cfglint: {file.path}:{at}: {problem.message}", file=sys.stderr)
            asked.code = 2
    asked.files = len(files)
    asked.recognised = sum(bool(report.dialects) for report in reports.values())
    asked.jobs = [
        _overridden(job, overrides)
        for job in context.jobs
        if not job.partial and not any(id(reading.document) in refused for reading in job.readings)
    ]
    return asked


def _overridden(job: Job, overrides: FactSet) -> Job:
    stated = [(name, fact) for name in overrides.names() for fact in overrides.statements(name)]
    if not stated:
        return job
    from cfglint.jobs.job import with_facts

    job = with_facts(job)
    for name, fact in stated:
        job.state_first(name, fact.value, fact.origin)
    return job


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
    written.setdefault("cfglint", "1")
    text = "".join(f"{key}: {value}\n" for key, value in written.items())
    return parse_text(SET_PATH, text, "yaml")


def _unparsed(stated: dict[str, str], file: SourceFile) -> str:
    """The flag whose value is no YAML, with what is wrong with it."""
    for problem in file.problems:
        key = list(stated)[min(file.position(problem.span.start).line, len(stated)) - 1]
        return f"--set {key}={stated[key]}: not a YAML value: {problem.message}"
    return ""


def _overrides(stated: dict[str, str], hardware: HardwareOptions) -> tuple[FactSet, HardwareOptions, str]:
    """Facts for every job of the paths given, hardware flags among them, and what is wrong with them."""
    from cfglint.dialects.cfglint_job import read_value, state
    from cfglint.jobs.facts import FactSet, FlagOrigin
    from cfglint.source import parse_text

    facts = FactSet()
    for key, text in stated.items():
        file = parse_text(SET_PATH, f"{key}: {text}\n", "yaml")
        if file.problems or not file.documents:
            return facts, hardware, f"--set {key}={text}: not a YAML value"
        from cfglint.source.node import plain

        value = plain(file.documents[0].at(key))
        if key in ("model", "kind", "name", "cfglint", "jobs"):
            return facts, hardware, f"--set {key}=… makes up a job of its own: use it without paths"
        if key in HARDWARE_KEYS:
            wrong = not isinstance(value, str) if key == "gpu" else not isinstance(value, int) or value < 1
            if wrong:
                return (
                    facts,
                    hardware,
                    f"--set {key}={text}: {'a name' if key == 'gpu' else 'a whole number from 1'} is needed",
                )
            given: Any = {HARDWARE_KEYS[key]: value}
            hardware = replace(hardware, **given)
            continue
        problem = _unknown_key(key, None)
        if problem:
            return facts, hardware, f"--set {problem}"
        value, complaint = read_value(key, value)
        if complaint:
            return facts, hardware, f"--set {key}={text}: {complaint}"
        state(facts, key, value, FlagOrigin("--set"))
    return facts, hardware, ""


def _unknown_keys(reading: Any) -> list[str]:
    from cfglint.dialects.cfglint_job import STRUCTURE

    problems = []
    for key in list(reading.root.index):
        problem = "" if key in STRUCTURE else _unknown_key(key, reading.kind)
        if problem:
            problems.append(f"{_place(reading, key)}: {problem}")
    problems += [f"{_place(reading, key)}: {key}: {why}" for key, why in reading.context.get("wrong_values", ())]
    return problems


def _place(reading: Any, key: str) -> str:
    return "--set" if reading.document.path == SET_PATH else str(reading.origin(key).describe())


def _unknown_key(key: str, kind: str | None) -> str:
    from cfglint.dialects.cfglint_job import RENAMED, fact_names

    known = set(RENAMED).union(*(fact_names(k) for k in ((kind,) if kind else ("train", "serve"))))
    known.discard("model_id")
    if key in known:
        return ""
    close = [OFTEN_MEANT[key]] if key in OFTEN_MEANT else get_close_matches(key, known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "`cfglint schema cfglint-job` lists the keys"
    return f"unknown key `{key}`; {hint}"
