"""Score the training estimator on measured cases, in one process.

usage: score_training.py FILE.jsonl [...] [--all] [--worst N] [--group PREFIX]

Rows and counting are those of ``../shared/cases/score.py``: ``oracle/train.jsonl`` (tensors of real steps, no GPU),
``cases/measured/train.jsonl`` and ``peers16.jsonl`` (public measurements). ``allocated_gib`` is what
``max_memory_allocated`` says, ``reserved_gib`` what the caching allocator holds, ``process_gib`` what ``nvidia-smi`` shows.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plots import quantile

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.training import estimate_training
from cfglint.formulas import GIB
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob
from cfglint.jobs.models import ModelSearch

FIELDS = {"allocated_gib": "allocated", "reserved_gib": "reserved", "process_gib": "used"}


def training_job(mapping: dict[str, Any], search: ModelSearch) -> TrainingJob:
    """A job-file mapping as a linked job."""
    job = TrainingJob(str(mapping.get("name", "job")))
    for key, value in mapping.items():
        if key not in ("cfglint", "name", "kind"):
            state(job, key, value, SettingOrigin("cases", key))
    job.hardware = resolve_hardware(job)
    if isinstance(mapping.get("model"), dict):
        origin = SettingOrigin("cases", "model")
        job.model = ModelFacts("inline", architecture_from_config(mapping["model"]), "the job file", origin)
    else:
        job.model = search.find(job)
    return job


def read_rows(paths: list[str], everything: bool = False) -> list[dict[str, Any]]:
    """The rows that are scored: those of high confidence, unless all are asked for."""
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines() if line.strip()]
    return [r for r in rows if r.get("scored", True) and (everything or r.get("confidence", "high") == "high")]


def pairs(row: dict[str, Any], estimate: Estimate) -> Iterator[tuple[str, float, Interval]]:
    """Each figure measured in a row, in GiB, with its estimate in bytes."""
    for field, name in FIELDS.items():
        interval = getattr(estimate.memory, name)
        if row.get(field) and interval is not None:
            yield field, row[field], interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--group", default="")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    rows = [r for r in read_rows(args.files, args.all) if r.get("group", "").startswith(args.group)]
    search = ModelSearch(Path(args.files[0]).parent, {})
    jobs = [(row, training_job(row["job"], search)) for row in rows]
    start = time.perf_counter()
    scored = [(row, estimate_training(job)) for row, job in jobs]
    took = time.perf_counter() - start
    errors: dict[str, dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    inside: dict[str, list[bool]] = collections.defaultdict(list)
    widths: list[float] = []
    verdicts: collections.Counter[tuple[str, str]] = collections.Counter()
    listing: list[tuple[float, str, str, float, float]] = []
    unknown: collections.Counter[str] = collections.Counter()
    for row, estimate in scored:
        if estimate.memory.allocated is None:
            unknown[", ".join(estimate.memory.missing)] += 1
        for field, truth, interval in pairs(row, estimate):
            error = interval.expected / GIB / truth - 1
            for key in (row.get("group", ""), "ALL"):
                errors[key][field].append(error)
            inside[field].append(interval.low <= truth * GIB <= interval.high)
            widths.append((interval.high - interval.low) / interval.expected)
            listing.append((abs(error), row["id"], field, truth, interval.expected / GIB))
        if row.get("outcome"):
            verdicts[row["outcome"], estimate.memory.verdict] += 1
    print(f"{len(rows)} rows, {sum(unknown.values())} without memory, {1000 * took / max(1, len(rows)):.2f} ms a job")
    print(f"{'group':22} {'figure':14} {'n':>4} {'bias':>7} {'median':>7} {'mean':>7} {'p95':>7} {'worst':>7}")
    for group in sorted(errors, key=lambda g: (g != "ALL", g)):
        for field, found in sorted(errors[group].items()):
            sizes = [abs(e) for e in found]
            print(
                f"{group:22} {field:14} {len(found):4} {statistics.mean(found):+7.1%} {statistics.median(sizes):7.1%}"
                f" {statistics.mean(sizes):7.1%} {quantile(sizes, 0.95):7.1%} {max(sizes):7.1%}"
            )
    for field, hits in sorted(inside.items()):
        print(f"interval holds {field}: {sum(hits)}/{len(hits)} = {sum(hits) / len(hits):.1%}")
    if widths:
        print(f"interval width (high - low) / expected: median {statistics.median(widths):.1%}")
    for (outcome, verdict), count in sorted(verdicts.items()):
        print(f"  {outcome:5} {verdict:12} {count}")
    for missing, count in unknown.most_common():
        print(f"  without memory, missing {missing}: {count}")
    for size, name, field, truth, guess in sorted(listing, reverse=True)[: args.worst]:
        print(f"  {size:7.1%} {name} {field}: measured {truth}, estimated {guess:.2f}")


if __name__ == "__main__":
    main()
