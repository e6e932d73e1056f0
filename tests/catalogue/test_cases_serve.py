"""Configs written from the serving half of the evidence catalogue: what must be found, and near misses that must not."""

from __future__ import annotations

import collections
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cfglint.discovery import discover
from cfglint.jobs.linker import HardwareOptions
from cfglint.lint.engine import run
from cfglint.lint.finding import Finding
from cfglint.lint.registry import load_rules
from cfglint.lint.selection import RuleSelection
from cfglint.settings import SettingsResolver
from cfglint.source import read_file

CASES = Path(__file__).parent / "cases" / "serve.yaml"
EVIDENCE = Path(__file__).parents[3] / "shared" / "rules" / "serve.jsonl"


@lru_cache(maxsize=1)
def cases() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.load(CASES.read_text("utf-8"), Loader=yaml.CSafeLoader)
    return loaded


@lru_cache(maxsize=1)
def covering() -> dict[str, set[str]]:
    """Candidate to the codes of the rules that cover it."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for code, rule in load_rules().items():
        for candidate in rule.catalogue:
            found[candidate].add(code)
    return found


def findings(case: dict[str, Any], folder: Path) -> list[Finding]:
    for name, text in case["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    resolver = SettingsResolver(isolated=True)
    files = [read_file(Path(path), path) for path in discover(["."], resolver).files]
    hardware = HardwareOptions(case.get("gpu"), case.get("gpus"), case.get("nodes"))
    selection = RuleSelection(strict=bool(case.get("strict")))
    return list(run(files, resolver, hardware, selection=selection, root=folder).shown)


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_case(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = findings(case, tmp_path)
    codes = {finding.code for finding in found}
    expected: set[str] = set(case.get("also", ()))
    for candidate in case.get("expect", ()):
        assert covering()[candidate] & codes, f"{candidate}: none of {sorted(covering()[candidate])} in {sorted(codes)}"
        expected |= covering()[candidate]
    for candidate in case.get("absent", ()):
        assert covering()[candidate], candidate
        assert not covering()[candidate] & codes, [f.message for f in found if f.code in covering()[candidate]]
    assert [f"{f.code}: {f.message}" for f in found if f.severity == "error" and f.code not in expected] == []


def test_names_are_unique() -> None:
    names = [case["name"] for case in cases()]
    assert len(set(names)) == len(names) > 300


@pytest.mark.skipif(not EVIDENCE.is_file(), reason="../shared/rules is not here")
def test_every_covered_candidate_has_a_case() -> None:
    serving = {json.loads(line)["id"] for line in EVIDENCE.read_text("utf-8").splitlines() if line.strip()}
    covered = serving & set(covering())
    assert covered <= {candidate for case in cases() for candidate in case.get("expect", ())}
    assert covered <= {candidate for case in cases() for candidate in case.get("absent", ())}
