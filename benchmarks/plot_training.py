"""Draw estimated against measured training memory, and print the tables of docs/accuracy-training.md.

usage: plot_training.py [--shared ../shared] [--out docs/accuracy]

``holdout_training.jsonl`` beside it are measurements that were kept apart. Rows and counting are those of ``../shared/cases/score.py``: high confidence unless a table says otherwise.
"""

from __future__ import annotations

import argparse
import collections
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plots import Point, quantile, scatter
from score_training import pairs, read_rows, training_job

from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.device import regime_of
from cfglint.estimate.training.intervals import residual_regime
from cfglint.estimate.training.resolve import resolve
from cfglint.formulas import GIB
from cfglint.jobs.models import ModelSearch

SHOWN = {
    "allocated_gib": "Live tensors (max_memory_allocated), GiB",
    "reserved_gib": "Caching allocator (max_memory_reserved), GiB",
    "process_gib": "Device (nvidia-smi), GiB",
}
COLOURS = ("#1f5fa8", "#d98a1b", "#3a923a", "#c03d3e", "#9372b2", "#845b53", "#9a9a9a")
OTHERS = "other groups"
HOLDOUT = Path(__file__).with_name("holdout_training.jsonl")
README_SAYS: dict[str, dict[str, Any]] = {
    **{f"tune-ladder-{n:02}": {"optimizer": "adamw_torch_fused"} for n in (1, 2, 3, 4, 5, 6)},
    **{f"tune-ladder-{n:02}": {"optimizer": "adamw_torch_fused", "activation_offloading": True} for n in (7, 9, 10)},
    "tune-ladder-08": {"optimizer": "adamw_torch_8bit", "activation_offloading": True},
}
"""What torchtune's README adds row by row, where a row's job says something else or cannot say it.

"Each technique is added on top of the previous one": 8-bit AdamW comes with the eighth row and chunked cross entropy with the
fourth, offloading stays from the seventh on and stands in the command for the last. Which AdamW ran is not said: the fused one
(the other's workspace alone exceeds row 5) and torchao's 8-bit one are inferred from the measurements.
"""
for _first in ("tune-ladder-01", "tune-ladder-02", "tune-ladder-03"):
    README_SAYS[_first]["loss_kernel"] = "torch"

OTHER_ESTIMATORS: dict[str, tuple[int, float, float, float]] = {
    "A": (12, 0.31, -0.17, 1.55),
    "B": (13, 0.55, -0.03, 1.86),
    "C": (6, 0.11, -0.02, 0.47),
    "D": (4, 0.41, 0.10, 0.54),
    "E": (13, 0.36, -0.60, 0.58),
    "F": (10, 0.41, -0.79, 0.48),
    "G": (13, 0.30, -0.77, 0.26),
    "H": (3, 0.17, -0.06, 0.33),
    "I": (3, 0.77, -0.27, 1.05),
    "J": (9, 0.86, -0.97, -0.68),
    "K": (6, 0.72, -0.78, 0.86),
    "L": (4, 0.47, -0.53, 0.84),
}
"""Cases expressed of the sixteen, mean error, worst under, worst over: ../shared/PEERS.md section 4, in its order."""


class Scored(NamedTuple):
    row: dict[str, Any]
    estimate: Estimate
    regimes: dict[str, str]
    """Regime of each figure's interval."""


def score(paths: Sequence[Path], everything: bool = False) -> list[Scored]:
    search = ModelSearch(Path("."), {})
    found = []
    for row in read_rows([str(path) for path in paths], everything):
        job = training_job(row["job"], search)
        plan = resolve(job)
        device = regime_of(plan)
        regimes = {"allocated_gib": residual_regime(plan), "reserved_gib": device, "process_gib": device}
        found.append(Scored(row, estimate_training(job), regimes))
    return found


def held(interval: Interval, truth: float) -> bool:
    return interval.low <= truth * GIB <= interval.high


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; the first column is text, the others numbers."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " --: |" * (len(header) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def by_group(scored: Sequence[Scored]) -> str:
    """Errors by group and figure."""
    errors: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    inside: dict[tuple[str, str], list[bool]] = collections.defaultdict(list)
    for row, estimate, _ in scored:
        for field, truth, interval in pairs(row, estimate):
            for group in (row["group"], "all"):
                errors[group, field].append(interval.expected / GIB / truth - 1)
                inside[group, field].append(held(interval, truth))
    rows = []
    for (group, field), found in sorted(errors.items(), key=lambda item: (item[0][0] != "all", item[0])):
        sizes = [abs(error) for error in found]
        rows.append(
            (
                group,
                f"`{field}`",
                str(len(found)),
                f"{statistics.mean(found):+.1%}",
                f"{statistics.median(sizes):.1%}",
                f"{statistics.mean(sizes):.1%}",
                f"{quantile(sizes, 0.95):.1%}",
                f"{max(sizes):.1%}",
                f"{statistics.mean(inside[group, field]):.0%}",
            )
        )
    return table(("group", "figure", "n", "bias", "median", "mean", "95th", "worst", "inside"), rows)


def by_regime(scored: Sequence[Scored]) -> str:
    """Coverage and width of the intervals, by the regime they were fitted for."""
    found: dict[tuple[str, str], list[tuple[bool, float]]] = collections.defaultdict(list)
    for row, estimate, regimes in scored:
        for field, truth, interval in pairs(row, estimate):
            width = (interval.high - interval.low) / interval.expected
            for key in ((field, regimes[field]), (field, "all")):
                found[key].append((held(interval, truth), width))
    rows = [
        (
            f"`{field}`, {regime}",
            str(len(hits)),
            f"{statistics.mean(ok for ok, _ in hits):.0%}",
            f"{statistics.median(width for _, width in hits):.0%}",
        )
        for (field, regime), hits in sorted(
            found.items(), key=lambda item: (item[0][0], item[0][1] != "all", item[0][1])
        )
    ]
    return table(("figure, regime", "n", "inside", "median width"), rows)


def left_out(scored: Sequence[Scored]) -> str:
    """Each group against an interval made of the other groups' residuals alone: their 2.5th to 97.5th percentile."""
    ratios: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for row, estimate, regimes in scored:
        for field, truth, interval in pairs(row, estimate):
            if field == "allocated_gib" or regimes[field] == "single":
                ratios[field, row["group"]].append(truth * GIB / interval.expected)
    rows = []
    for (field, group), own in sorted(ratios.items()):
        rest = [ratio for (other, name), found in ratios.items() if other == field and name != group for ratio in found]
        if len(own) < 5 or len(rest) < 40:
            continue
        low, high = quantile(rest, 0.025), quantile(rest, 0.975)
        inside = statistics.mean(low <= ratio <= high for ratio in own)
        rows.append((f"`{field}`, {group}", str(len(own)), f"{low:.2f}–{high:.2f}", f"{inside:.0%}"))
    return table(("figure, group left out", "n", "interval of the others", "inside"), rows)


def verdicts(scored: Sequence[Scored], chosen: Sequence[str]) -> str:
    """How outcomes and verdicts go together; rows whose facts leave no verdict are counted apart."""
    rows = [
        (row["outcome"], estimate.memory)
        for row, estimate, _ in scored
        if row["confidence"] in chosen and row.get("outcome")
    ]
    lines = []
    for outcome in ("ok", "oom"):
        counts = collections.Counter(memory.verdict for found, memory in rows if found == outcome)
        shown = ", ".join(f"{counts[word]} `{word}`" for word in ("fits", "tight", "likely-oom", "oom") if counts[word])
        lines.append(f"{outcome}: {shown}; {counts['unknown']} without a verdict")
    return "; ".join(lines)


def peers(scored: Sequence[Scored]) -> str:
    """The sixteen published cases, each against the kind that was measured."""
    rows, errors = [], []
    for row, estimate, _ in scored:
        kinds = {field: (truth, interval) for field, truth, interval in pairs(row, estimate)}
        # where a source states allocated beside reserved, the published comparison used the one it calls the peak
        for field in ("reserved_gib", "process_gib", "allocated_gib"):
            if field in kinds:
                truth, interval = kinds[field]
                break
        else:
            continue
        error = interval.expected / GIB / truth - 1
        errors.append(abs(error))
        shown = f"{interval.low / GIB:.1f}–{interval.high / GIB:.1f}"
        rows.append((row["id"], f"{truth:.2f} {field[:-4]}", f"{interval.expected / GIB:.2f}", shown, f"{error:+.1%}"))
    mean = ("mean", "", "", "", f"{statistics.mean(errors):.1%}")
    return table(("case", "measured, GiB", "estimated", "interval", "error"), [*rows, mean])


def others() -> str:
    rows = [
        (f"estimator {name}", f"{count}/16", f"{mean:.0%}", f"{under:+.0%}", f"{over:+.0%}")
        for name, (count, mean, under, over) in OTHER_ESTIMATORS.items()
    ]
    return table(("", "expressed", "mean error", "worst under", "worst over"), rows)


def ladder(scored: Sequence[Scored]) -> str:
    """torchtune's README as the rows are labelled, and as the README itself reads."""
    search = ModelSearch(Path("."), {})
    rows, errors = [], []
    for row, estimate, _ in scored:
        said = README_SAYS.get(row["id"])
        if said is None or estimate.memory.allocated is None:
            continue
        again = estimate_training(training_job({**row["job"], **said}, search)).memory.allocated
        assert again is not None
        first, second = (a.expected / GIB for a in (estimate.memory.allocated, again))
        truth = row["allocated_gib"]
        if row["confidence"] == "high":
            errors.append(abs(second / truth - 1))
        name = row["as_printed"].split("|")[0].strip()
        rows.append(
            (
                name,
                f"{truth:.1f}",
                f"{first:.1f} ({first / truth - 1:+.0%})",
                f"{second:.1f} ({second / truth - 1:+.1%})",
            )
        )
    rows.append(("mean of the nine of high confidence", "", "", f"{statistics.mean(errors):.1%}"))
    return table(("row", "measured, GiB", "as labelled", "as the README reads"), rows)


def draw(scored: Sequence[Scored], field: str, title: str, groups: Sequence[str]) -> str:
    """A scatter plot; the largest groups have colours of their own."""
    series = dict(zip([*groups, OTHERS], [*COLOURS[: len(groups)], COLOURS[-1]], strict=True))
    points = [
        Point(row["id"], row["group"] if row["group"] in groups else OTHERS, truth, interval.expected / GIB)
        for row, estimate, _ in scored
        for name, truth, interval in pairs(row, estimate)
        if name == field
    ]
    used = {point.series for point in points}
    return scatter(title, points, {name: colour for name, colour in series.items() if name in used})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy"))
    args = parser.parse_args()
    oracle = score([args.shared / "oracle" / "train.jsonl"])
    cases = args.shared / "cases" / "measured"
    everything = score([cases / "train.jsonl"], everything=True)
    measured = [item for item in everything if item.row["confidence"] == "high"]
    sixteen = score([cases / "peers16.jsonl"])
    args.out.mkdir(parents=True, exist_ok=True)
    families = [name for name, _ in collections.Counter(item.row["group"] for item in oracle).most_common(6)]
    drawing = draw(oracle, "allocated_gib", "Oracle: tensors of real steps, GiB", families)
    (args.out / "training_oracle.svg").write_text(drawing, "utf-8")
    for field, title in SHOWN.items():
        counts = collections.Counter(item.row["group"] for item in measured if item.row.get(field))
        drawing = draw(measured, field, title, [name for name, _ in counts.most_common(6)])
        (args.out / f"training_{field}.svg").write_text(drawing, "utf-8")
    print("## Oracle\n\n" + by_group(oracle))
    print("\n## Measured, high confidence\n\n" + by_group(measured))
    print("\n## Intervals, measured rows\n\n" + by_regime(measured))
    widths = [(i.high - i.low) / i.expected for row, e, _ in measured for _, _, i in pairs(row, e)]
    inside = [held(i, truth) for row, e, _ in measured for _, truth, i in pairs(row, e)]
    print(
        f"\nall figures: {statistics.mean(inside):.1%} of {len(inside)} inside, median width {statistics.median(widths):.1%}"
    )
    print("\n## A group left out\n\n" + left_out(measured))
    print("\n## Verdicts\n\nhigh: " + verdicts(measured, ("high",)))
    print("high and medium: " + verdicts(everything, ("high", "medium")))
    aside = score([HOLDOUT], everything=True)
    for field in ("allocated_gib", "reserved_gib"):
        counts = collections.Counter(item.row["group"] for item in aside if item.row.get(field))
        drawing = draw(aside, field, f"Hold-out: {SHOWN[field]}", [name for name, _ in counts.most_common(6)])
        (args.out / f"training_holdout_{field}.svg").write_text(drawing, "utf-8")
    print("\n## Hold-out\n\n" + by_group(aside))
    for kinds in (("high",), ("high", "medium"), ("high", "medium", "low")):
        print(f"{' and '.join(kinds)}: " + verdicts(aside, kinds))
    print("\n## Sixteen published cases\n\n" + peers(sixteen) + "\n\n" + others())
    print("\n## torchtune's ladder\n\n" + ladder(everything))


if __name__ == "__main__":
    main()
