"""The corpus of real public configs: no traceback, nothing foreign claimed, no error on a file that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
SHOWN_BROKEN: dict[str, str] = json.loads((ROOT / "benchmarks/broken_in_corpus.json").read_text("utf-8"))
"""``path code`` of errors on shipped files that are true, with the proof."""

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")
LIMIT_SECONDS = 120
WARNED_SHARE = 1 / 20


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cfglint", "check", "--show-files", "--format", "json", "--isolated", "files"],
        cwd=CORPUS,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["seconds"] = time.monotonic() - start
    return found


@pytest.fixture(scope="module")
def index() -> dict[str, dict[str, Any]]:
    rows = map(json.loads, (CORPUS / "index.jsonl").read_text("utf-8").splitlines())
    return {row["path"]: row for row in rows}


def test_ends_in_time(answer: dict[str, Any]) -> None:
    assert len(answer["files"]) > 4000
    assert answer["seconds"] < LIMIT_SECONDS


def test_claims_no_foreign_file(answer: dict[str, Any], index: dict[str, dict[str, Any]]) -> None:
    foreign = {f["path"]: f["dialects"] for f in answer["files"] if f["dialects"]}
    claimed = {path: foreign[path] for path, row in index.items() if row["framework"] == "negative" and path in foreign}
    assert not claimed


def test_no_internal_fault(answer: dict[str, Any]) -> None:
    assert [f for f in answer["findings"] if f["code"] == "INT001"] == []


def test_no_error_on_a_working_file(answer: dict[str, Any], index: dict[str, dict[str, Any]]) -> None:
    wrong = [
        f"{f['path']}:{f['start']['line']} {f['code']} {f['message']}"
        for f in answer["findings"]
        if f["severity"] == "error"
        and index.get(f["path"], {}).get("tier") in ("shipped", "ci")
        and f"{f['path']} {f['code']}" not in SHOWN_BROKEN
    ]
    assert wrong == []


def test_warnings_are_rare_on_working_files(answer: dict[str, Any], index: dict[str, dict[str, Any]]) -> None:
    claimed = {f["path"] for f in answer["files"] if f["dialects"]}
    working = {p for p, row in index.items() if row.get("tier") in ("shipped", "ci") and p in claimed}
    warned = {f["path"] for f in answer["findings"] if f["severity"] == "warning"} & working
    assert len(warned) <= WARNED_SHARE * len(working), f"{len(warned)} of {len(working)}"


def test_exceptions_name_files_that_are_listed(index: dict[str, dict[str, Any]]) -> None:
    listed = map(json.loads, (CORPUS / "scripts.jsonl").read_text("utf-8").splitlines())
    known = {f"scripts/{row['repo'].replace('/', '__')}/{row['original_path']}" for row in listed} | set(index)
    excused: dict[str, str] = json.loads((ROOT / "benchmarks/not_of_their_label.json").read_text("utf-8"))
    assert set(excused) <= known
    assert {key.rpartition(" ")[0] for key in SHOWN_BROKEN} <= known
    assert all(len(reason) > 8 for reason in (*excused.values(), *SHOWN_BROKEN.values()))
