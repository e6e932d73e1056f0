"""Twenty well-known jobs told in many formats: the facts a person reads are read, and the tellings' estimates agree."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(folder for folder in (ROOT / "tests/jobs/twenty").iterdir() if (folder / "facts.json").is_file())


@cache
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("twenty_jobs", ROOT / "benchmarks" / "twenty_jobs.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["twenty_jobs"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@cache
def story(name: str) -> Any:
    return module().story(ROOT / "tests/jobs/twenty" / name)


def test_there_are_twenty_told_in_at_least_two_formats() -> None:
    assert len(FOLDERS) == 20
    for folder in FOLDERS:
        formats = {path.name for path in folder.iterdir() if path.is_dir()}
        told = story(folder.name).tellings
        assert {telling.name for telling in told} == formats
        assert len(formats) >= 2


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_facts_are_those_a_person_reads(name: str) -> None:
    wrong = {telling.name: telling.wrong() for telling in story(name).tellings}
    assert {format_name: facts for format_name, facts in wrong.items() if facts} == {}
    assert all(len(telling.wanted) >= 4 for telling in story(name).tellings)


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_tellings_of_a_job_agree_or_the_framework_says_why(name: str) -> None:
    one = story(name)
    agree = module().AGREE
    assert one.reference.figures
    for telling in one.tellings:
        apart = one.differences(telling)
        assert set(apart) == set(one.reference.figures), telling.name
        worst = max(abs(value) for value in apart.values())
        if not telling.explained:
            assert worst <= agree, (telling.name, apart)
            continue
        # the named facts are the whole difference: with the reference's values it is gone
        assert max(abs(value) for value in one.differences(telling, aligned=True).values()) <= agree, telling.name
