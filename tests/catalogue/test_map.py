"""The map from the evidence catalogue to rules is fresh and whole; the config cases are found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from cfglint.lint.registry import load_rules

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared"

FOUND_SHARE = 0.5
"""The least share of expected findings, of the formats that are read, that must be found."""


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_map_is_fresh() -> None:
    assert (HERE / "map.json").read_text("utf-8") == _module(HERE / "build_map.py").text()


def test_map_names_rules_that_exist() -> None:
    rules = load_rules()
    for name, entry in json.loads((HERE / "map.json").read_text("utf-8")).items():
        assert set(entry["codes"]) <= set(rules), name
        assert bool(entry["codes"]) != bool(entry["reason"]), name


@pytest.mark.skipif(not (SHARED / "rules").is_dir(), reason="../shared/rules is not here")
def test_map_holds_every_candidate_and_rules_name_only_candidates() -> None:
    known = {
        json.loads(line)["id"]
        for name in ("train.jsonl", "serve.jsonl")
        for line in (SHARED / "rules" / name).read_text("utf-8").splitlines()
        if line.strip()
    }
    assert set(json.loads((HERE / "map.json").read_text("utf-8"))) == known
    named = {covered for rule in load_rules().values() for covered in rule.catalogue}
    assert named <= known, named - known


@pytest.mark.skipif(not (SHARED / "cases/configs").is_dir(), reason="../shared/cases/configs is not here")
def test_config_cases() -> None:
    made = _module(ROOT / "benchmarks/config_cases.py").outcomes(SHARED / "cases/configs")
    read = [o for o in made if o.read]
    found = sum(len(o.found) for o in read)
    carried = sum(len(o.found) + len(o.missed) + len(o.no_rule) for o in read)
    assert found >= FOUND_SHARE * carried, f"{found} of {carried}"
    assert not any("INT001" in o.findings for o in made)
    by_id = {o.id: o for o in made}
    assert not [c for c in by_id["serve-056"].findings if not c.startswith("FCT")]
    listed = {"trainer.nan-filter-hides-nan"}
    quiet = by_id["train-013"]
    assert set(quiet.found) <= listed and not quiet.stray_errors
