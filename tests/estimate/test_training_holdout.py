"""Public measurements that no constant was fitted on (``benchmarks/holdout_training.jsonl``), and what was reached on them.

How they were collected, the first figures and the rows that stay off are in ``docs/accuracy-training.md``, section Hold-out.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import Estimate
from cfglint.estimate.training import estimate_training
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ModelFacts, TrainingJob
from cfglint.jobs.models import ModelSearch

GIB = 2**30
ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "holdout_training.jsonl"
FIELDS = {"allocated_gib": "allocated", "reserved_gib": "reserved", "process_gib": "used"}

Scored = list[tuple[dict[str, Any], Estimate]]


def rows(collection: int) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    return [row for row in found if row["collection"] == collection]


def estimate(facts: dict[str, Any]) -> Estimate:
    job = TrainingJob("test")
    for key, value in facts.items():
        if key not in ("cfglint", "kind", "name"):
            state(job, key, value, SettingOrigin("test", key))
    job.hardware = resolve_hardware(job)
    if isinstance(facts["model"], dict):
        origin = SettingOrigin("test", "model")
        job.model = ModelFacts("inline", architecture_from_config(facts["model"]), "the row", origin)
    else:
        job.model = ModelSearch(Path("."), {}).find(job)
    return estimate_training(job)


@pytest.fixture(scope="module")
def first() -> Scored:
    return [(row, estimate(row["job"])) for row in rows(1)]


def errors(scored: Scored, field: str, group: str = "", *confidence: str) -> list[float]:
    """Relative errors of one figure, with their sign."""
    found = []
    for row, made in scored:
        interval = getattr(made.memory, FIELDS[field])
        chosen = row["group"].startswith(group) and (not confidence or row["confidence"] in confidence)
        if chosen and row.get(field) and interval is not None:
            found.append(interval.expected / GIB / row[field] - 1)
    return found


def inside(scored: Scored, field: str) -> float:
    held: list[bool] = [
        interval.low <= row[field] * GIB <= interval.high
        for row, made in scored
        if row.get(field) and (interval := getattr(made.memory, FIELDS[field])) is not None
    ]
    return sum(held) / len(held)


def test_the_rows_are_whole() -> None:
    found = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert len({row["id"] for row in found}) == len(found)
    for row in found:
        assert row["source"].startswith("https://") or row["group"] == "lg-mcore-logs"
        assert row["outcome"] in ("ok", "oom") and row["confidence"] in ("high", "medium", "low")
        assert row["as_printed"]
        assert row["job"]["kind"] == "train"
    sources = Counter(row["source"] for row in rows(1))
    assert len(rows(1)) == 236 and len(sources) == 60
    assert len(rows(2)) == 103
    assert len({row["source"] for row in rows(3) if row["group"] in PEOPLES}) == 50
    assert len(rows(4)) == 81 and len({row["source"] for row in rows(4)}) == 49


def test_no_source_is_among_the_measured_ones() -> None:
    measured = ROOT / ".." / "shared" / "cases" / "measured"
    if not measured.exists():
        pytest.skip("measured cases are not beside the checkout")
    known = {
        json.loads(line).get("source")
        for name in ("train.jsonl", "peers16.jsonl")
        for line in (measured / name).read_text("utf-8").splitlines()
    }
    assert not known & {json.loads(line)["source"] for line in ROWS.read_text("utf-8").splitlines()}


@pytest.fixture(scope="module")
def second() -> Scored:
    return [(row, estimate(row["job"])) for row in rows(2)]


def test_second_collection(second: Scored) -> None:
    """Megatron, torchtitan, DeepSpeed-Chat, xtuner: no run that worked is said to fail, two of low confidence are likely to.

    Five name no device; the H100 with 96 GB came into the catalogue later.
    """
    verdicts = Counter((row["outcome"], made.memory.verdict) for row, made in second)
    assert verdicts["ok", "oom"] == 0 and verdicts["ok", "likely-oom"] <= 2
    assert verdicts["oom", "fits"] == verdicts["oom", "tight"] == 0
    assert verdicts["ok", "unknown"] + verdicts["oom", "unknown"] <= 5
    allocated = sorted(abs(error) for error in errors(second, "allocated_gib"))
    reserved = sorted(abs(error) for error in errors(second, "reserved_gib"))
    assert (len(allocated), len(reserved)) == (38, 67)
    assert statistics.median(allocated) <= 0.075 and statistics.median(reserved) <= 0.09
    assert inside(second, "allocated_gib") >= 0.7 and inside(second, "reserved_gib") >= 0.75


def test_no_run_that_worked_is_said_to_fail(first: Scored) -> None:
    """None for sure but one whose figure its source extrapolates; three of medium or high confidence are likely to."""
    found = {row["id"]: (made.memory.verdict, row["confidence"]) for row, made in first if row["outcome"] == "ok"}
    assert {name for name, (verdict, _) in found.items() if verdict == "oom"} <= {"hf-unsloth-llama33-70b-unsloth-80"}
    likely = [name for name, (verdict, _) in found.items() if verdict in ("oom", "likely-oom")]
    assert len(likely) <= 7
    assert {name for name in likely if found[name][1] != "low"} <= {
        "hf-litgpt-l13-bf16-mb1-4gpu", "hf-ax-yi-34b-4090", "hf-liger-e2e-liger-16384",
    }  # fmt: skip


def test_runs_that_failed(first: Scored) -> None:
    """30 of 33 are said to fail, for sure or likely, or to be tight."""
    missed = {row["id"] for row, made in first if row["outcome"] == "oom" and made.memory.verdict == "fits"}
    assert missed <= {"hf-ax-smollm2-16k", "hf-b4-7b-int8-1024", "hf-b4-13b-nf4-gc-1024"}
    told = [made.memory.verdict in ("oom", "likely-oom") for row, made in first if row["outcome"] == "oom"]
    assert len(told) == 33 and sum(told) >= 27


def test_live_tensors(first: Scored) -> None:
    """As met, the median was 11.7 % (14.7 % of the rows of high confidence), 51 % were inside; Gemma's four rows are of low confidence."""
    found = sorted(abs(error) for error in errors(first, "allocated_gib", "", "high", "medium"))
    assert len(found) == 45
    assert statistics.median(found) <= 0.02
    assert statistics.mean(found) <= 0.05
    assert found[int(0.95 * len(found))] <= 0.17
    assert inside(first, "allocated_gib") >= 0.79


@pytest.mark.parametrize(
    ("group", "field", "median", "worst"),
    [
        # 15.0 and 72.0 % as met
        ("litgpt-tables", "allocated_gib", 0.025, 0.21),
        ("litgpt-thunder", "allocated_gib", 0.002, 0.002),
        # 9.8 % as met, then the reserved figures: 26.5 and 50.4 %
        ("fsdp-qlora", "allocated_gib", 0.003, 0.004),
        ("fsdp-qlora", "reserved_gib", 0.06, 0.21),
        ("peft-metamath", "reserved_gib", 0.035, 0.06),
        ("axolotl-examples", "reserved_gib", 0.13, 0.72),
    ],
)
def test_groups(first: Scored, group: str, field: str, median: float, worst: float) -> None:
    found = [abs(error) for error in errors(first, field, group)]
    assert found
    assert statistics.median(found) <= median
    assert max(found) <= worst


def test_reserved_of_unequal_batches_is_inside(first: Scored) -> None:
    """Two thirds of what was reserved is inside (42 % as met); Axolotl's examples are not."""
    assert inside(first, "reserved_gib") >= 0.66
    swift = [item for item in first if item[0]["group"] == "swift-benchmark"]
    assert inside(swift, "reserved_gib") >= 0.74


PEOPLES = (
    "c3-unsloth-notebooks", "c3-trl-notebooks", "c3-h2o-llmstudio", "c3-issues", "c3-chatglm-finetuning", "c3-gpt2-book", "c3-encoders",
    "c3-minicpm",
)  # fmt: skip


@pytest.fixture(scope="module")
def peoples() -> Scored:
    """The third collection's runs of people: notebooks on small cards, pages of what fits, issues."""
    return [(row, estimate(row["job"])) for row in rows(3) if row["group"] in PEOPLES]


def test_verdicts_on_peoples_runs(peoples: Scored) -> None:
    """As met, 2 of 75 that worked were likely to fail and 2 of 12 that failed fitted; the one that does is of low confidence."""
    verdicts = Counter((row["outcome"], made.memory.verdict) for row, made in peoples)
    assert sum(verdicts.values()) == 87
    assert verdicts["ok", "oom"] == verdicts["ok", "likely-oom"] == 0
    assert verdicts["oom", "oom"] >= 6 and verdicts["oom", "oom"] + verdicts["oom", "likely-oom"] >= 9
    missed = {row["id"] for row, made in peoples if row["outcome"] == "oom" and made.memory.verdict == "fits"}
    assert missed <= {"c3-iss-ax814-mb2"}


def test_figures_of_peoples_runs(peoples: Scored) -> None:
    """Reserved: 14.7 % and 67 % inside as met, 83.9 % on the rows of high confidence."""
    found = [abs(error) for error in errors(peoples, "reserved_gib")]
    assert len(found) == 54
    assert statistics.median(found) <= 0.1
    assert max(abs(error) for error in errors(peoples, "reserved_gib", "", "high")) <= 0.085
    assert inside(peoples, "reserved_gib") >= 0.87 and inside(peoples, "process_gib") >= 0.9


@pytest.fixture(scope="module")
def fourth() -> Scored:
    return [(row, estimate(row["job"])) for row in rows(4)]


def test_verdicts_of_the_fourth_collection(fourth: Scored) -> None:
    """Pretraining and long sequences. As met, 22 of 69 runs that worked were said to fail, for sure or likely; one is likely to."""
    verdicts = Counter((row["outcome"], made.memory.verdict) for row, made in fourth)
    assert sum(verdicts.values()) == 81
    assert verdicts["ok", "oom"] == verdicts["ok", "unknown"] == 0
    likely = {row["id"] for row, made in fourth if (row["outcome"], made.memory.verdict) == ("ok", "likely-oom")}
    assert likely <= {"c4-arc-h200-base-65k"}
    assert verdicts["oom", "fits"] == 0 and verdicts["oom", "tight"] <= 3


def test_figures_of_the_fourth_collection(fourth: Scored) -> None:
    """As met: 17.8, 7.6 and 41.6 % at the median, 19 of 35 inside."""
    found = {field: sorted(abs(error) for error in errors(fourth, field)) for field in FIELDS}
    assert {field: len(values) for field, values in found.items()} == {
        "allocated_gib": 16, "reserved_gib": 9, "process_gib": 10,
    }  # fmt: skip
    assert statistics.median(found["allocated_gib"]) <= 0.085
    assert statistics.median(found["reserved_gib"]) <= 0.065
    assert statistics.median(found["process_gib"]) <= 0.085
    assert max(max(values) for values in found.values()) <= 0.23
    assert inside(fourth, "allocated_gib") >= 0.93 and inside(fourth, "reserved_gib") >= 0.88
    assert inside(fourth, "process_gib") == 1.0
