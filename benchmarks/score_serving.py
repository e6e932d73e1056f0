"""Score the serving estimator against measured start-up logs, in one process.

usage: score_serving.py FILE.jsonl [--all] [--worst N]

Rows are those of ``../shared/cases/measured/serve.jsonl``; figures and counting are those of ``../shared/cases/score.py``.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import time
from pathlib import Path
from typing import Any

from plots import quantile

from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import Estimate
from cfglint.estimate.serving import estimate_serving
from cfglint.formulas import GIB
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ServingJob
from cfglint.jobs.models import ModelSearch


def serving_job(mapping: dict[str, Any], search: ModelSearch) -> ServingJob:
    """A job-file mapping as a linked job."""
    job = ServingJob(str(mapping.get("name", "job")))
    for key, value in mapping.items():
        if key not in ("cfglint", "name", "kind"):
            state(job, key, value, SettingOrigin("cases", key))
    job.hardware = resolve_hardware(job)
    job.model = search.find(job)
    return job


def figures(row: dict[str, Any], estimate: Estimate) -> list[tuple[str, float, float | None]]:
    serving = estimate.serving
    assert serving is not None
    found: dict[str, float | None] = {
        "weights_gib": None if serving.weights is None else serving.weights / GIB,
        "activation_peak_gib": None if serving.activation_peak is None else serving.activation_peak / GIB,
        "non_torch_gib": None if serving.non_torch is None else serving.non_torch / GIB,
        "graph_gib": None if serving.graph is None else serving.graph / GIB,
        "kv_cache_gib": None if serving.kv_cache is None else serving.kv_cache.expected / GIB,
        "kv_tokens": None if serving.kv_tokens is None else serving.kv_tokens.expected,
        "max_concurrency": serving.max_concurrency,
    }
    return [(name, row[name], value) for name, value in found.items() if row.get(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    rows = [json.loads(line) for name in args.files for line in Path(name).read_text().splitlines() if line.strip()]
    rows = [r for r in rows if r.get("scored", True) and (args.all or r.get("confidence", "high") == "high")]
    search = ModelSearch(Path("."), {})
    jobs = [serving_job(row["job"], search) for row in rows]
    start = time.perf_counter()
    estimates = [estimate_serving(job) for job in jobs]
    took = time.perf_counter() - start
    errors: dict[str, list[float]] = collections.defaultdict(list)
    inside: dict[str, list[bool]] = collections.defaultdict(list)
    absent: collections.Counter[str] = collections.Counter()
    verdicts: collections.Counter[tuple[str, str]] = collections.Counter()
    listing: list[tuple[float, str]] = []
    for row, estimate in zip(rows, estimates, strict=True):
        for name, truth, guess in figures(row, estimate):
            if guess is None:
                absent[name] += 1
                continue
            error = (guess - truth) / truth
            errors[name].append(error)
            listing.append((abs(error), f"{row['id']} {name}: measured {truth}, estimated {guess:.3f}"))
            interval = getattr(estimate.serving, {"kv_cache_gib": "kv_cache"}.get(name, name), None)
            if name in ("kv_cache_gib", "kv_tokens") and interval is not None:
                unit = GIB if name == "kv_cache_gib" else 1
                inside[name].append(interval.low / unit <= truth <= interval.high / unit)
        verdicts[row["outcome"], estimate.memory.verdict] += 1
        if row["outcome"] != "config-error" and estimate.memory.verdict in ("unknown",):
            listing.append((-1.0, f"{row['id']} {row['outcome']}: unknown for want of {estimate.memory.missing}"))
        elif row["outcome"] == "ok" and estimate.memory.verdict not in ("fits", "tight"):
            listing.append((9.0, f"{row['id']} ok given {estimate.memory.verdict}"))
        elif row["outcome"] in ("oom-load", "oom-profile", "kv-too-small") and estimate.memory.verdict in (
            "fits",
            "tight",
        ):
            listing.append((8.0, f"{row['id']} {row['outcome']} given {estimate.memory.verdict}"))
    print(f"{len(rows)} rows, {1000 * took / max(1, len(rows)):.2f} ms a job")
    print(f"{'figure':20} {'n':>4} {'absent':>6} {'bias':>7} {'median':>7} {'p95':>7} {'worst':>7} {'inside':>7}")
    for name, values in errors.items():
        sizes = sorted(abs(v) for v in values)
        held = f"{statistics.mean(inside[name]):7.1%}" if inside[name] else ""
        p95 = quantile(sizes, 0.95)
        print(
            f"{name:20} {len(values):4} {absent[name]:6} {statistics.mean(values):+7.1%} {statistics.median(sizes):7.1%} {p95:7.1%} {sizes[-1]:7.1%} {held}"
        )
    for (outcome, verdict), count in sorted(verdicts.items()):
        print(f"  {outcome:18} {verdict:14} {count}")
    for size, text in sorted(listing, reverse=True)[: args.worst]:
        print(f"  {size:7.1%} {text}")


if __name__ == "__main__":
    main()
