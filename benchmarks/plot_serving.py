"""Draw estimated against measured serving memory, and print the table of docs/accuracy-serving.md.

usage: plot_serving.py FILE.jsonl [--out docs/accuracy] [--prefix serving_]

One SVG for each figure: logarithmic axes, the diagonal, a band of 10 %, a point a row with its id as its title.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plots import Point, quantile, scatter
from score_serving import figures, serving_job

from cfglint.estimate.result import Estimate
from cfglint.estimate.serving import estimate_serving
from cfglint.estimate.serving.versions import read_version
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

COLOURS = {"high": "#1f5fa8", "medium": "#d98a1b", "low": "#9a9a9a"}
SHOWN = {
    "weights_gib": "Weights, GiB a device",
    "activation_peak_gib": "Activation peak, GiB a device",
    "kv_cache_gib": "KV cache, GiB a device",
    "kv_tokens": "KV cache, tokens",
    "graph_gib": "CUDA graphs, GiB a device",
}
FAILURES = ("oom-load", "oom-profile", "kv-too-small")
FAILING = ("oom", "likely-oom", "kv-too-small")


def table(scored: Sequence[tuple[dict[str, Any], Estimate]]) -> list[str]:
    """The figures by confidence, as Markdown."""
    lines = [
        "| rows | figure | n | median error | 95th percentile | inside the interval |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for name, chosen in (("high confidence", ("high",)), ("all", ("high", "medium", "low"))):
        for figure in SHOWN:
            errors, inside = [], []
            for row, estimate in scored:
                if row["confidence"] not in chosen:
                    continue
                for key, truth, guess in figures(row, estimate):
                    if key == figure and guess is not None:
                        errors.append(abs(guess - truth) / abs(truth))
                        interval = getattr(estimate.serving, {"kv_cache_gib": "kv_cache"}.get(key, key), None)
                        if key in ("kv_cache_gib", "kv_tokens") and interval is not None:
                            unit = GIB if key == "kv_cache_gib" else 1
                            inside.append(interval.low / unit <= truth <= interval.high / unit)
            if not errors:
                continue
            held = f"{statistics.mean(inside):.1%}" if inside else ""
            lines.append(
                f"| {name} | `{figure}` | {len(errors)} | {statistics.median(errors):.1%} | {quantile(errors, 0.95):.1%} | {held} |"
            )
    return lines


def group_of(row: dict[str, Any]) -> str:
    """Engine and generation; the runs most constants come from stand apart."""
    job = row["job"]
    engine, version = str(job["framework"]), read_version(job.get("framework_version"))
    if engine != "vllm":
        return engine
    if "llm-d-planner" in row["source"]:
        return "vllm 0.19, H100 (llm-d-planner)"
    if version.release is None:
        return "vllm, version not stated"
    return "vllm up to 0.7" if version.release < (0, 8) else "vllm 0.8 and later, others"


def by_group(scored: Sequence[tuple[dict[str, Any], Estimate]]) -> list[str]:
    """Median errors by engine, every confidence, as Markdown."""
    names = ("weights_gib", "activation_peak_gib", "kv_cache_gib", "kv_tokens")
    errors: dict[str, dict[str, list[float]]] = {}
    for row, estimate in scored:
        group = errors.setdefault(group_of(row), {name: [] for name in names})
        for key, truth, guess in figures(row, estimate):
            if key in names and guess is not None:
                group[key].append(abs(guess - truth) / abs(truth))
    lines = ["| rows | " + " | ".join(f"`{name}`" for name in names) + " |", "| --- |" + " --: |" * len(names)]
    for label in sorted(errors):
        cells = [f"{statistics.median(v):.1%} ({len(v)})" if v else "" for v in errors[label].values()]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def verdicts(scored: Sequence[tuple[dict[str, Any], Estimate]], chosen: Sequence[str]) -> str:
    rows = [(row, estimate.memory.verdict) for row, estimate in scored if row["confidence"] in chosen]
    started = [verdict for row, verdict in rows if row["outcome"] == "ok" and verdict != "unknown"]
    failed = [verdict for row, verdict in rows if row["outcome"] in FAILURES and verdict != "unknown"]
    wrong = sum(1 for verdict in started if verdict in ("oom", "kv-too-small"))
    found = sum(1 for verdict in failed if verdict in FAILING)
    return f"{len(started)} servers that started, {wrong} called `oom` or `kv-too-small`; {found} of {len(failed)} memory failures recognised"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy"))
    parser.add_argument("--prefix", default="serving_", help="begins the names of the SVG files")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.file.read_text("utf-8").splitlines() if line.strip()]
    rows = [row for row in rows if row.get("scored", True)]
    search = ModelSearch(Path("."), {})
    scored = [(row, estimate_serving(serving_job(row["job"], search))) for row in rows]
    args.out.mkdir(parents=True, exist_ok=True)
    for figure, title in SHOWN.items():
        points = [
            Point(row["id"], f"{row['confidence']} confidence", truth, guess)
            for row, estimate in scored
            for key, truth, guess in figures(row, estimate)
            if key == figure and guess is not None and guess > 0 and truth > 0
        ]
        series = {f"{name} confidence": colour for name, colour in COLOURS.items()}
        if points:
            (args.out / f"{args.prefix}{figure}.svg").write_text(scatter(title, points, series), "utf-8")
            print(f"{args.prefix}{figure}.svg: {len(points)} points")
    print("\n".join([*table(scored), "", *by_group(scored), ""]))
    print("high confidence:", verdicts(scored, ("high",)))
    print("all:", verdicts(scored, ("high", "medium", "low")))


if __name__ == "__main__":
    main()
