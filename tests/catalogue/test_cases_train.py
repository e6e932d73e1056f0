"""Small configs as reports have them: what is expected of each candidate of the evidence catalogue is found, near misses are silent.

A line of cases/train.jsonl is one folder: ``files`` (path to text), the hardware, ``expected`` and ``silent`` (ids of the
evidence catalogue, told apart by the rules that cover them) and ``strict``, where only a careful reader wants to hear of
it. The configs are written from the candidates' own words, not from the rules' code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from cfglint.lint.registry import load_rules
from cfglint.testing import lint_files

CASES = Path(__file__).parent / "cases" / "train.jsonl"


def _cases() -> Iterator[Any]:
    for number, line in enumerate(CASES.read_text("utf-8").splitlines(), 1):
        case = json.loads(line)
        ids = case.get("expected") or case["silent"]
        yield pytest.param(case, id=f"{number}-{ids[0]}")


@lru_cache(maxsize=1)
def _covering() -> dict[str, set[str]]:
    codes: dict[str, set[str]] = {}
    for code, rule in load_rules().items():
        for covered in rule.catalogue:
            codes.setdefault(covered, set()).add(code)
    return codes


def test_every_covered_candidate_has_a_case() -> None:
    map_ = json.loads((CASES.parents[1] / "map.json").read_text("utf-8"))
    cased = {name for line in CASES.read_text("utf-8").splitlines() for name in json.loads(line).get("expected", ())}
    evidence = CASES.parents[4] / "shared" / "rules" / "train.jsonl"
    if not evidence.is_file():
        pytest.skip("../shared/rules is not here")
    training = {json.loads(line)["id"] for line in evidence.read_text("utf-8").splitlines() if line.strip()}
    assert {name for name in training if map_[name]["codes"]} <= cased


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: dict[str, Any]) -> None:
    hardware = {name: case.get(name) for name in ("gpu", "gpus", "nodes")}
    result = lint_files(case["files"], strict=case.get("strict", False), **hardware)
    assert not result.faults
    shown = {finding.code for finding in result.shown}
    expected = {name: _covering()[name] for name in case.get("expected", ())}
    assert not [name for name, codes in expected.items() if not codes & shown], shown
    assert not [name for name in case.get("silent", ()) if _covering()[name] & shown], shown
    asked_for = set().union(*expected.values())
    assert {f.code for f in result.shown if f.severity == "error"} <= asked_for
