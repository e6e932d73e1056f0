"""The figures the training estimator is held to, on the oracle and on public measurements (``../shared``)."""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT / ".." / "shared"
ORACLE = SHARED / "oracle" / "train.jsonl"
MEASURED = SHARED / "cases" / "measured" / "train.jsonl"
SIXTEEN = MEASURED.with_name("peers16.jsonl")
GIB = 2**30

pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason="measured cases are not beside the checkout")

GROUPS = ("fms-main", "fms-liger", "fitcheck-t4", "litgpt-config-hub", "simumax-b200")
"""Groups whose mean error stays within 10 %. torchtune-ladder does not as its rows are labelled; see test_torchtunes_ladder."""
UNNAMED = ("custom transformer", "Llama-4-Scout 17Bx16E", "sshleifer/tiny-gpt2", "lmsys/vicuna-7b-v1.5 (LLaVA-1.5)")
"""Models of high-confidence rows whose names say no dimensions that the catalogue has."""

Scored = list[tuple[dict[str, Any], Any]]


def benchmark(name: str = "score_training") -> ModuleType:
    """A script of ``benchmarks``, which import each other by their names."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def score(path: Path, everything: bool = False) -> Scored:
    module = benchmark()
    search = module.ModelSearch(ROOT, {})
    return [
        (row, module.estimate_training(module.training_job(row["job"], search)))
        for row in module.read_rows([str(path)], everything)
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


def test_eager_attention_in_fp16_as_cuda_runs_it(measured: Scored) -> None:
    """Score matrices up to a third of the peak: 10 to 17 % were missing with the CPU's softmax."""
    eager = [(r, e) for r, e in measured if r["group"] == "fitcheck-t4" and r["job"].get("attention") == "eager"]
    found = errors(eager, "allocated_gib", "allocated")["fitcheck-t4"]
    assert len(found) == 39
    assert max(found) <= 0.025


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
        assert statistics.mean(groups[group]) <= 0.10, group


def test_adapters_on_attention_and_projections(measured: Scored) -> None:
    """``cift-4080`` names its targets so and means the feed-forward's projections: 15 % were missing without checkpointing."""
    found = errors(measured, "allocated_gib", "allocated")["cift-4080"]
    assert len(found) == 11
    assert statistics.median(found) <= 0.005 and max(found) <= 0.021


def test_litgpts_adapters(measured: Scored) -> None:
    """30 runs with adapters, half of them on NF4: what autograd keeps of padded parts, logits held in fp32, and inputs that
    bitsandbytes kept until the next loss (before those were counted LoRA was 2 to 8 % under, QLoRA up to 11 % off).
    """
    found = [
        (row["job"]["method"], error)
        for row, estimate in measured
        if row["group"] == "litgpt-config-hub" and row["job"]["method"] != "full"
        for error in errors([(row, estimate)], "allocated_gib", "allocated")["litgpt-config-hub"]
    ]
    assert (len(found), sum(method == "qlora" for method, _ in found)) == (30, 16)
    assert max(error for _, error in found) <= 0.015


def test_litgpts_full_fine_tuning(measured: Scored) -> None:
    """Gemma 2B on four GPUs: embedding and head are one flat parameter, whose gradient is put together while it is gathered
    (12.6 % were missing); TinyLlama on one.
    """
    full = [(row, estimate) for row, estimate in measured if row["id"] in ("litgpt-hub-04", "litgpt-hub-50")]
    found = errors(full, "allocated_gib", "allocated")["litgpt-config-hub"]
    assert len(found) == 2
    assert min(found) <= 0.005 and max(found) <= 0.03


def test_names_lead_to_models(measured: Scored) -> None:
    """Re-publications, mirrors and models cut to fewer layers among them."""
    unknown = {row["job"]["model"] for row, estimate in measured if "model" in estimate.memory.missing}
    assert [name for name in unknown if not name.startswith(UNNAMED)] == []


def test_torchtunes_ladder(measured: Scored) -> None:
    """The README adds techniques one by one; as it reads, not as the rows are labelled, each is within 8 %."""
    plots = benchmark("plot_training")
    search = plots.ModelSearch(ROOT, {})
    found = {}
    for row, _ in measured:
        if row["group"] == "torchtune-ladder":
            again = plots.training_job({**row["job"], **plots.README_SAYS[row["id"]]}, search)
            allocated = plots.estimate_training(again).memory.allocated
            found[row["id"]] = abs(allocated.expected / GIB / row["allocated_gib"] - 1)
    assert len(found) == 9
    assert statistics.mean(found.values()) <= 0.05 and max(found.values()) <= 0.08


def test_torch_preflight_as_its_script_runs() -> None:
    """``torch-preflight-t4``: its script takes torch's word on bf16, which torch gives for a T4 that emulates it, and
    leaves attention to sdpa, which has no fused kernel for that; GPT-2 trains with its own dropout.
    """
    module = benchmark()
    search = module.ModelSearch(ROOT, {})
    found = {}
    for row in module.read_rows([str(MEASURED)]):
        if row["group"] == "torch-preflight-t4":
            again = module.training_job({**row["job"], "attention": "sdpa", "compute_dtype": "bf16"}, search)
            if again.architecture.model_type == "gpt2":
                own = {**again.architecture.config, "attn_pdrop": 0.1, "resid_pdrop": 0.1}
                again.model = replace(again.model, architecture=replace(again.architecture, config=own))
            allocated = module.estimate_training(again).memory.allocated
            found[row["id"]] = abs(allocated.expected / GIB / row["allocated_gib"] - 1)
    assert len(found) == 6
    # as the rows are labelled (fp16, eager) the mean is 4.6 %
    assert statistics.mean(found.values()) <= 0.025 and max(found.values()) <= 0.045


def test_the_sixteen_published_cases() -> None:
    """All are expressed; each against the kind that its source calls the peak."""
    found = []
    for row, estimate in score(SIXTEEN):
        fields = [f for f in ("reserved_gib", "process_gib", "allocated_gib") if row.get(f)]
        interval = getattr(estimate.memory, benchmark().FIELDS[fields[0]])
        assert interval is not None, row["id"]
        found.append(abs(interval.expected / GIB / row[fields[0]] - 1))
        assert interval.low <= row[fields[0]] * GIB <= interval.high, row["id"]
    assert len(found) == 16 and statistics.mean(found) <= 0.06


def test_runs_that_failed_are_recognised() -> None:
    """Of those with high or medium confidence whose settings are complete."""
    verdicts = [
        estimate.memory.verdict
        for row, estimate in score(MEASURED, everything=True)
        if row.get("outcome") == "oom" and row["confidence"] in ("high", "medium") and not estimate.memory.missing
    ]
    recognised = sum(verdict in ("oom", "likely-oom") for verdict in verdicts)
    assert len(verdicts) > 80 and recognised >= 0.85 * len(verdicts)


def test_measured_process(measured: Scored) -> None:
    assert statistics.median(flat(errors(measured, "process_gib", "used"))) <= 0.12


def test_no_run_that_worked_is_called_an_oom(measured: Scored) -> None:
    verdicts = [estimate.memory.verdict for row, estimate in measured if row.get("outcome") == "ok"]
    assert verdicts.count("oom") == 0
    assert verdicts.count("likely-oom") <= 0.03 * len(verdicts)


def test_intervals_hold_and_are_narrow(oracle: Scored, measured: Scored) -> None:
    module = benchmark()
    for rows in (oracle, measured):  # apart: the oracle's are narrower
        inside, widths = [], []
        for row, estimate in rows:
            for _, truth, interval in module.pairs(row, estimate):
                inside.append(interval.low <= truth * GIB <= interval.high)
                widths.append((interval.high - interval.low) / interval.expected)
        assert sum(inside) / len(inside) >= 0.93
        assert statistics.median(widths) <= 0.20


def test_rows_are_read_as_they_are_written() -> None:
    rows = [json.loads(line) for line in ORACLE.read_text().splitlines()]
    assert len(rows) == len(benchmark().read_rows([str(ORACLE)]))
