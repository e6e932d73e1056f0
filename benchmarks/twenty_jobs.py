"""Twenty well-known jobs told in the formats people write them in: are the facts read, and do the estimates agree?

usage: twenty_jobs.py [--job PART_OF_NAME] [--facts]

``tests/jobs/twenty/NAME/`` holds one folder for each format with the files of a run, and ``facts.json``: ``about``, the
``facts`` that a person reads from every telling, and for each format (``formats``) what it says otherwise (``facts``) and which
facts of the framework (``explained``: fact to reason) make its memory another. The estimates of a job are compared with that of the
format named ``reference``: they are to lie within 5 %, or within 5 % once the facts that ``explained`` names are set to the
reference's.

Prints a table; ``tests/jobs/test_twenty_jobs.py`` asserts it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfglint.discovery import discover
from cfglint.estimate import estimate
from cfglint.formulas import GIB
from cfglint.jobs.job import Job, ServingJob, with_facts
from cfglint.lint.engine import understand
from cfglint.settings import SettingsResolver
from cfglint.source import read_file

JOBS = Path(__file__).parents[1] / "tests" / "jobs" / "twenty"
AGREE = 0.05
"""Relative difference of two tellings' estimates that counts as none."""
HARDWARE = ("gpu", "gpus_per_node", "nodes", "world_size")
"""Facts of ``facts.json`` that are read from the job's hardware, whatever files it was put together from."""


BATCH = {"sequences": "sequences", "accumulation": "gradient_accumulation", "data_parallel": "data_parallel"}
"""Facts of the batch, which some formats state and others leave to be worked out."""


@dataclass
class Telling:
    """One job in one format."""

    name: str
    job: Job
    wanted: dict[str, Any]
    explained: dict[str, str]
    figures: dict[str, float] = field(default_factory=dict)
    """GiB or tokens that are compared."""
    aligned: dict[str, float] = field(default_factory=dict)
    """The same with the facts of ``explained`` set to the reference's."""

    def wrong(self) -> dict[str, tuple[Any, Any]]:
        """Facts that are not what a person reads: name → (read, wanted)."""
        found = {name: read_fact(self.job, name) for name in self.wanted}
        return {name: (value, self.wanted[name]) for name, value in found.items() if value != self.wanted[name]}


@dataclass
class Story:
    """One job with all its tellings; the first is the reference."""

    name: str
    about: str
    tellings: list[Telling]

    @property
    def reference(self) -> Telling:
        return self.tellings[0]

    def differences(self, telling: Telling, *, aligned: bool = False) -> dict[str, float]:
        """Relative differences of figures from the reference's."""
        mine = telling.aligned if aligned else telling.figures
        return {
            name: mine[name] / value - 1 for name, value in self.reference.figures.items() if name in mine and value
        }


def read_fact(job: Job, name: str) -> Any:
    """A fact as ``facts.json`` spells it: text, numbers, lists."""
    hardware = job.hardware
    if name == "gpu":
        return hardware.candidates[0].id if len(hardware.candidates) == 1 else hardware.name.upper()
    if name in BATCH:
        return getattr(estimate(job).batch, BATCH[name])
    if name in HARDWARE:
        return getattr(hardware, name)
    if name == "model":
        return job.model.id if job.model is not None else None
    value = job.value(name)
    return list(value) if isinstance(value, tuple) else value


def figures(job: Job) -> dict[str, float]:
    """What is compared: for training the peak of live tensors and what the device shows; for serving the pools."""
    made = estimate(job)
    if isinstance(job, ServingJob):
        serving = made.serving
        assert serving is not None
        found = {
            "weights_gib": serving.weights and serving.weights / GIB,
            "kv_cache_gib": serving.kv_cache and serving.kv_cache.expected / GIB,
            "kv_tokens": serving.kv_tokens and serving.kv_tokens.expected,
        }
    else:
        memory = made.memory
        found = {
            "allocated_gib": memory.allocated and memory.allocated.expected / GIB,
            "used_gib": memory.used and memory.used.expected / GIB,
        }
    return {name: float(value) for name, value in found.items() if value}


def job_of(folder: Path) -> Job:
    """The one job that the files of a folder make, read from inside it as a user would."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        resolver = SettingsResolver(isolated=True)
        files = [read_file(Path(path)) for path in discover(["."], resolver).files]
        context, _ = understand(files, resolver)
    finally:
        os.chdir(before)
    jobs = list(context.jobs)
    if len(jobs) != 1:
        raise ValueError(f"{folder.name}: {len(jobs)} jobs: {[job.name for job in jobs]}")
    return jobs[0]


def story(folder: Path) -> Story:
    said = json.loads((folder / "facts.json").read_text("utf-8"))
    tellings = []
    for name, own in said["formats"].items():
        wanted = {**said["facts"], **own.get("facts", {})}
        tellings.append(Telling(name, job_of(folder / name), wanted, own.get("explained", {})))
    tellings.sort(key=lambda telling: telling.name != said["reference"])
    reference = tellings[0].job
    for telling in tellings:
        telling.figures = figures(telling.job)
        if telling.explained:
            telling.aligned = figures(aligned(telling.job, reference, telling.explained))
    return Story(folder.name, said["about"], tellings)


def aligned(job: Job, reference: Job, names: Iterable[str]) -> Job:
    """The job with the named facts as the reference has them; what that does not state is taken away."""
    other = with_facts(job, **{name: reference.value(name) for name in names if reference.stated(name)})
    for name in names:
        if not reference.stated(name):
            other._facts.pop(name, None)
    if "framework" in names:
        other.readings = reference.readings
    return other


def stories(part: str = "") -> list[Story]:
    return [
        story(folder) for folder in sorted(JOBS.iterdir()) if (folder / "facts.json").is_file() and part in folder.name
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default="")
    parser.add_argument("--facts", action="store_true", help="print what was read, for all facts of a job")
    args = parser.parse_args()
    told = agree = 0
    for one in stories(args.job):
        print(f"\n{one.name}: {one.about}")
        for telling in one.tellings:
            told += 1
            off = one.differences(telling)
            worst = max((abs(v) for v in off.values()), default=0.0)
            aligned = max((abs(v) for v in one.differences(telling, aligned=True).values()), default=0.0)
            ok = worst <= AGREE or bool(telling.explained and aligned <= AGREE)
            agree += ok
            shown = "  ".join(
                f"{name} {value:.2f} ({off.get(name, 0):+.1%})" for name, value in telling.figures.items()
            )
            why = f"  explained by {', '.join(telling.explained)}: then {aligned:.1%}" if telling.explained else ""
            print(f"  {'' if ok else '! '}{telling.name:22} {shown}{why}")
            for name, (read, wanted) in telling.wrong().items():
                print(f"    ! {name}: read {read!r}, wanted {wanted!r}")
            if args.facts:
                print("     ", {name: telling.job.value(name) for name in sorted(telling.job.names())})
    print(f"\n{told} tellings, {agree} agree or are explained")


if __name__ == "__main__":
    main()
