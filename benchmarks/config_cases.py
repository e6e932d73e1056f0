"""Run `cfglint check` on each config case in ../shared/cases/configs and print, by family, which expected findings were found.

    python benchmarks/config_cases.py [FOLDER] [--list]

A case names ids of the evidence catalogue; tests/catalogue/map.json says which rules cover an id. An id without a rule
counts as "no rule"; a case whose files no dialect reads counts as "no dialect".
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cfglint.discovery import discover
from cfglint.jobs.linker import HardwareOptions
from cfglint.lint.engine import run
from cfglint.settings import SettingsResolver
from cfglint.source import read_file

ROOT = Path(__file__).parents[1]
CASES = ROOT.parent / "shared" / "cases" / "configs"
EVIDENCE = ROOT.parent / "shared" / "rules"


@dataclass
class Outcome:
    """One case: expected ids found and missed, errors nobody expected, whether any dialect reads its files."""

    id: str
    found: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    no_rule: list[str] = field(default_factory=list)
    stray_errors: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    read: bool = True


def outcomes(folder: Path = CASES) -> list[Outcome]:
    """Lint every case in its own folder."""
    covered = {
        name: set(entry["codes"])
        for name, entry in json.loads((ROOT / "tests/catalogue/map.json").read_text("utf-8")).items()
    }
    cases = [json.loads(line) for line in (folder / "index.jsonl").read_text("utf-8").splitlines() if line.strip()]
    return [_outcome(case, folder / case["id"], covered) for case in cases]


def _outcome(case: dict[str, object], folder: Path, covered: dict[str, set[str]]) -> Outcome:
    outcome = Outcome(str(case["id"]))
    with _inside(folder):
        resolver = SettingsResolver(isolated=True)
        files = [read_file(Path(path), path) for path in discover(["."], resolver).files]
        hardware = HardwareOptions(case.get("gpu"), case.get("gpus"), case.get("nodes"))  # type: ignore[arg-type]
        result = run(files, resolver, hardware, root=folder)
    outcome.read = any(report.dialects for report in result.files.values())
    codes = {f.code for f in result.shown}
    outcome.findings = sorted(codes)
    wanted: set[str] = set()
    for expected in case["expected"]:  # type: ignore[attr-defined]
        rules = covered.get(expected, set())
        wanted |= rules
        (outcome.no_rule if not rules else outcome.found if rules & codes else outcome.missed).append(expected)
    outcome.stray_errors = sorted(
        f"{f.code} {f.message[:90]}" for f in result.shown if f.severity == "error" and f.code not in wanted
    )
    return outcome


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def families() -> dict[str, str]:
    """Evidence id to its family."""
    found = {}
    for name in ("train.jsonl", "serve.jsonl"):
        for line in (EVIDENCE / name).read_text("utf-8").splitlines():
            if line.strip():
                row = json.loads(line)
                found[row["id"]] = f"{name.split('.')[0]} {row['family']}"
    return found


def main() -> None:
    folder = next((Path(a) for a in sys.argv[1:] if not a.startswith("-")), CASES)
    family_of = families()
    made = outcomes(folder)
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in made:
        for state in ("found", "missed", "no_rule"):
            for name in getattr(outcome, state):
                key = "no_dialect" if state != "found" and not outcome.read else state
                table[family_of.get(name, "?")][key] += 1
    columns = ("found", "missed", "no_rule", "no_dialect")
    print(f"{'family':28}" + "".join(f"{c.replace('_', ' '):>12}" for c in columns))
    for family in sorted(table):
        print(f"{family:28}" + "".join(f"{table[family][c]:12}" for c in columns))
    total = {c: sum(row[c] for row in table.values()) for c in columns}
    print(f"{'all':28}" + "".join(f"{total[c]:12}" for c in columns))
    carried = total["found"] + total["missed"] + total["no_rule"]
    print(f"found {total['found']} of {carried} whose format is read = {total['found'] / max(carried, 1):.0%}")
    if "--list" in sys.argv:
        for outcome in made:
            for state in ("missed", "no_rule"):
                for name in getattr(outcome, state):
                    print(f"  {outcome.id} {state}: {name}{'' if outcome.read else ' (no dialect)'}")
    for outcome in made:
        for stray in outcome.stray_errors:
            print(f"error not expected: {outcome.id}: {stray}")


if __name__ == "__main__":
    main()
