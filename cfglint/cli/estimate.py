"""``cfglint estimate``: each job's memory, batch and compute, with where every number came from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cfglint.cli.arguments import add_hardware, add_settings
from cfglint.cli.asked_jobs import add_jobs, asked_jobs, usage

if TYPE_CHECKING:
    from cfglint.jobs.job import Job
    from cfglint.report.estimates import FitsOn, JobEstimate


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``estimate`` to the command line."""
    parser = subparsers.add_parser(
        "estimate",
        help="memory, batch and compute of each job",
        description="Estimate every job found: memory per GPU with its parts, effective batch, compute, and the file and "
        "line, default or catalogue row that each number came from.",
        allow_abbrev=False,
    )
    add_jobs(parser)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument("--fail-on-oom", action="store_true", help="exit code 1 where a job cannot fit")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=argparse.SUPPRESS)
    add_hardware(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Estimate and print. Returns the exit code."""
    from cfglint.report import estimates
    from cfglint.report.terminal import can_show, wants_colour, write_for_machines

    asked = asked_jobs(args)
    if asked.problem:
        return usage("estimate", asked.problem)
    made = [_estimated(job) for job in asked.jobs]
    if args.format == "json":
        write_for_machines(estimates.as_json(made))
    elif not made:
        asked.say_none()
    elif args.format == "markdown":
        sys.stdout.write(estimates.as_markdown(made))
    else:
        colour = wants_colour(sys.stdout, args.color)
        unicode = can_show(sys.stdout, estimates.UNICODE_PENS)
        sys.stdout.write(estimates.as_text(made, colour=colour, unicode=unicode))
    if asked.code:
        return asked.code
    return 1 if args.fail_on_oom and any(item.cannot_fit for item in made) else 0


def _estimated(job: Job) -> JobEstimate:
    from cfglint.estimate import estimate
    from cfglint.report.estimates import JobEstimate

    made = JobEstimate(job, estimate(job))
    if not job.hardware.candidates and not job.hardware.name and job.architecture is not None:
        made.fits_on = list(_fits_on(job))
    return made


def _fits_on(job: Job) -> Iterable[FitsOn]:
    """Verdicts on accelerators that are common to rent: on the number of GPUs stated, else on one and on eight."""
    from dataclasses import replace

    from cfglint.estimate.fit.hardware import common_accelerators
    from cfglint.estimate.fit.what_if import WhatIf
    from cfglint.report.estimates import FitsOn

    what_if = WhatIf(job)
    stated = job.hardware.gpus_per_node
    for accelerator in common_accelerators():
        for gpus in (stated,) if stated else (1, 8):
            hardware = replace(job.hardware, candidates=(accelerator,), name=accelerator.id, gpus_per_node=gpus)
            memory = what_if.estimate({}, hardware).memory
            if memory.verdict != "unknown":
                number = gpus * (job.hardware.nodes or 1)
                yield FitsOn(accelerator.id, number, memory.verdict, memory.used, accelerator.usable_bytes)


__all__ = ["add_parser", "run"]
