"""The figures the serving estimator is held to, on measured start-up logs (``../shared/cases/measured/serve.jsonl``)."""

from __future__ import annotations

import importlib.util
import json
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / ".." / "shared" / "cases" / "measured" / "serve.jsonl"
GIB = 2**30

pytestmark = [
    pytest.mark.skipif(not CASES.exists(), reason="measured cases are not beside the checkout"),
    pytest.mark.skipif(importlib.util.find_spec("cfglint.catalog.models") is None, reason="no model catalogue yet"),
]

KNOWN_ABSENT = 0.12
"""Rows whose model or accelerator is not named by the report, as a share of the high-confidence ones."""


@pytest.fixture(scope="module")
def scored() -> list[tuple[dict[str, Any], Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")  # its scripts import each other by their names
        module = importlib.import_module("score_serving")
    search = module.ModelSearch(ROOT, {})
    rows = [json.loads(line) for line in CASES.read_text().splitlines() if line.strip()]
    rows = [row for row in rows if row.get("scored", True) and row["confidence"] == "high"]
    return [(row, module.estimate_serving(module.serving_job(row["job"], search))) for row in rows]


def errors(scored: list[tuple[dict[str, Any], Any]], name: str, read: Any, engine: str | None = None) -> list[float]:
    found = []
    for row, estimate in scored:
        value = read(estimate.serving)
        if row.get(name) and value is not None and (engine is None or row["job"]["framework"] == engine):
            found.append(abs(value - row[name]) / abs(row[name]))
    return sorted(found)


def test_weights(scored: list[tuple[dict[str, Any], Any]]) -> None:
    found = errors(scored, "weights_gib", lambda s: s.weights and s.weights / GIB)
    assert len(found) >= 50
    assert statistics.median(found) <= 0.01
    assert found[int(0.95 * len(found))] <= 0.06


def test_activation_peak(scored: list[tuple[dict[str, Any], Any]]) -> None:
    found = errors(scored, "activation_peak_gib", lambda s: s.activation_peak and s.activation_peak / GIB, "vllm")
    assert len(found) >= 45
    assert statistics.median(found) <= 0.08


def test_kv_cache_and_tokens(scored: list[tuple[dict[str, Any], Any]]) -> None:
    cache = errors(scored, "kv_cache_gib", lambda s: s.kv_cache and s.kv_cache.expected / GIB)
    tokens = errors(scored, "kv_tokens", lambda s: s.kv_tokens and s.kv_tokens.expected)
    assert statistics.median(cache) <= 0.02
    assert statistics.median(tokens) <= 0.02
    inside = [
        estimate.serving.kv_cache.low / GIB <= row["kv_cache_gib"] <= estimate.serving.kv_cache.high / GIB
        for row, estimate in scored
        if row.get("kv_cache_gib") and estimate.serving.kv_cache is not None
    ]
    assert len(inside) >= 50
    assert statistics.mean(inside) >= 0.93


def test_no_server_that_started_is_called_out_of_memory(scored: list[tuple[dict[str, Any], Any]]) -> None:
    wrong = [row["id"] for row, e in scored if row["outcome"] == "ok" and e.memory.verdict in ("oom", "kv-too-small")]
    assert wrong == []


def test_most_rows_have_an_answer(scored: list[tuple[dict[str, Any], Any]]) -> None:
    told = [row["id"] for row, e in scored if row["outcome"] == "ok" and e.memory.verdict == "unknown"]
    started = [row for row, _ in scored if row["outcome"] == "ok"]
    assert len(told) <= KNOWN_ABSENT * len(started), told


def test_failures_of_memory_are_recognised(scored: list[tuple[dict[str, Any], Any]]) -> None:
    failures = ("oom-load", "oom-profile", "kv-too-small")
    given = [(row["id"], e.memory.verdict) for row, e in scored if row["outcome"] in failures]
    decided = [(name, verdict) for name, verdict in given if verdict != "unknown"]
    missed = [name for name, verdict in decided if verdict not in ("oom", "likely-oom", "kv-too-small")]
    assert len(decided) >= 12
    assert len(missed) <= 0.1 * len(decided), missed
