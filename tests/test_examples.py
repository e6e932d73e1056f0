"""The example repository: its faults are found, its mended twin is silent, its jobs are linked across files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = {
    "axolotl/gemma3-lora.yaml": {"PRC001", "HWF002", "HWF003"},
    "deepspeed/zero2.json": {"CON001", "SCH002", "PRC007", "PRC009"},
    "trl/llama-sft.yaml": {"MEM001", "CKP001", "EVL001"},
    "k8s/vllm.yaml": {"MEM102", "CTR001"},
}
"""What a person is meant to learn from each file; more may be found."""


def run(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "cfglint", *words, "--format", "json"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    codes: dict[str, set[str]] = {}
    for finding in run("check", "examples/finetune")["findings"]:
        codes.setdefault(finding["path"].removeprefix("examples/finetune/"), set()).add(finding["code"])
    return codes


@pytest.mark.parametrize("path", FAULTS)
def test_the_faults_are_found(found: dict[str, set[str]], path: str) -> None:
    assert FAULTS[path] <= found[path]


def test_the_mended_twin_is_silent() -> None:
    assert run("check", "examples/finetune/fixed")["findings"] == []


def test_jobs_are_linked_across_files() -> None:
    jobs = {job["name"]: job for job in run("estimate", "examples/finetune/fixed")["jobs"]}
    sft = jobs["examples/finetune/fixed/trl/llama-sft.yaml"]
    assert sft["dialects"] == ["trl", "launch", "accelerate"]
    assert sft["hardware"]["gpus_per_node"] == 8
    assert sft["batch"]["sequences"] == 1 * 4 * 8
    assert sft["batch"]["tokens"] == 32 * 8192
    assert jobs["examples/finetune/fixed/axolotl/gemma3-lora.yaml"]["dialects"] == ["axolotl", "deepspeed"]
    server = jobs["examples/finetune/fixed/k8s/vllm.yaml"]["serving"]
    assert server["kv_bytes_per_token"] == 2 * 80 * 2 * 128 * 2  # 8 KV heads over 4 ranks
