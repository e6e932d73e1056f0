"""The figures the training estimator is held to, on the oracle and on public measurements (``../shared``)."""

from __future__ import annotations

import importlib.util
import json
import statistics
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT / ".." / "shared"
ORACLE = SHARED / "oracle" / "train.jsonl"
MEASURED = SHARED / "cases" / "measured" / "train.jsonl"
GIB = 2**30

pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason="measured cases are not beside the checkout")

GROUPS = ("fms-main", "fms-liger", "fitcheck-t4", "litgpt-config-hub", "simumax-b200")
"""Groups whose mean error stays within 10 %; torchtune-ladder does not (four of its nine rows name another optimizer)."""

Scored = list[tuple[dict[str, Any], Any]]


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("score_training", ROOT / "benchmarks" / "score_training.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def score(path: Path) -> Scored:
    module = benchmark()
    search = module.ModelSearch(ROOT, {})
    return [
        (row, module.estimate_training(module.training_job(row["job"], search)))
        for row in module.read_rows([str(path)])
    ]


@pytest.fixture(scope="module")
def oracle() -> Scored:
    return score(ORACLE)


@pytest.fixture(scope="module")
def measured() -> Scored:
    return score(MEASURED)


def errors(scored: Scored, field: str, name: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row, estimate in scored:
        interval = getattr(estimate.memory, name)
        if row.get(field) and interval is not None:
            found[row["group"]].append(abs(interval.expected / GIB / row[field] - 1))
    return found


def flat(groups: dict[str, list[float]]) -> list[float]:
    return sorted(error for group in groups.values() for error in group)


def test_oracle_tensors(oracle: Scored) -> None:
    found = flat(errors(oracle, "allocated_gib", "allocated"))
    assert len(found) == len(oracle)
    assert statistics.median(found) <= 0.005
    assert found[int(0.95 * len(found))] <= 0.015
    assert found[-1] <= 0.04


def test_oracle_phases(oracle: Scored) -> None:
    """Not the total alone: each phase's own peak. Forward and step are 95 times in 100 within 6 %."""
    for phase, field in (("forward", "peak_forward_gib"), ("step", "peak_step_gib")):
        found = sorted(abs(e.memory.phases[phase] / GIB / row["parts"][field] - 1) for row, e in oracle)
        assert found[int(0.95 * len(found))] <= 0.06, phase


def test_measured_allocated(measured: Scored) -> None:
    groups = errors(measured, "allocated_gib", "allocated")
    assert statistics.median(flat(groups)) <= 0.06
    for group in GROUPS:
        if groups.get(group):
            assert statistics.mean(groups[group]) <= 0.10, group


def test_measured_process(measured: Scored) -> None:
    assert statistics.median(flat(errors(measured, "process_gib", "used"))) <= 0.12


def test_no_run_that_worked_is_called_an_oom(measured: Scored) -> None:
    verdicts = [estimate.memory.verdict for row, estimate in measured if row.get("outcome") == "ok"]
    assert verdicts.count("oom") == 0
    assert verdicts.count("likely-oom") <= 0.03 * len(verdicts)


def test_intervals_hold_and_are_narrow(oracle: Scored, measured: Scored) -> None:
    inside, widths = [], []
    module = benchmark()
    for row, estimate in [*oracle, *measured]:
        for _, truth, interval in module.pairs(row, estimate):
            inside.append(interval.low <= truth * GIB <= interval.high)
            widths.append((interval.high - interval.low) / interval.expected)
    assert sum(inside) / len(inside) >= 0.93
    assert statistics.median(widths) <= 0.20


def test_rows_are_read_as_they_are_written() -> None:
    rows = [json.loads(line) for line in ORACLE.read_text().splitlines()]
    assert len(rows) == len(benchmark().read_rows([str(ORACLE)]))
