"""``cfglint fit``: what would fit, and the cheapest settings with which it does."""

from __future__ import annotations

import argparse
import sys

from cfglint.cli.arguments import add_hardware, add_settings
from cfglint.cli.asked_jobs import add_jobs, asked_jobs, usage


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``fit`` to the command line."""
    parser = subparsers.add_parser(
        "fit",
        help="what would fit: largest batch or context, cheapest changes, smallest accelerator",
        description="For every job found: the largest micro-batch and sequence length or max_model_len that fit, the settings "
        "changes with which it fits, ranked by cost, and the fewest GPUs of each common accelerator.",
        allow_abbrev=False,
    )
    add_jobs(parser)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=argparse.SUPPRESS)
    add_hardware(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Search and print. Returns the exit code."""
    from cfglint.estimate.fit import fit
    from cfglint.report import fits

    asked = asked_jobs(args)
    if asked.problem:
        return usage("fit", asked.problem)
    found = [fits.JobFit(job, fit(job)) for job in asked.jobs]
    if args.format == "json":
        from cfglint.report.terminal import write_for_machines

        write_for_machines(fits.as_json(found))
    elif not found:
        asked.say_none()
    elif args.format == "markdown":
        sys.stdout.write(fits.as_markdown(found))
    else:
        from cfglint.report.terminal import wants_colour

        sys.stdout.write(fits.as_text(found, colour=wants_colour(sys.stdout, args.color)))
    return asked.code


__all__ = ["add_parser", "run"]
