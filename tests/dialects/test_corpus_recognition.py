"""Recognition measured on the corpus of public configs in ../shared (skipped where that is absent)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.source.json import parse_json
from cfglint.source.yaml import parse_yaml

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"
MINE = {
    "accelerate", "axolotl", "deepspeed", "hf-generation-config", "hf-model-config", "hf-quant-config",
    "hf-training-args", "llamafactory", "peft-adapter", "trl",
}  # fmt: skip
OTHERS = {
    "verl", "nemo", "torchtune", "llm-foundry", "litgpt", "maxtext", "megatron-yaml", "skypilot", "trtllm", "dynamo",
    "kserve", "ray-serve-llm", "vllm-helm", "vllm-k8s", "vllm-compose", "negative",
}  # fmt: skip
WRAPPERS = {"skypilot", "kserve", "dynamo", "ray-serve-llm"}
"""Their files hold commands of other tools."""
SAME = {"trl": {"trl", "hf-training-args"}, "hf-training-args": {"hf-training-args", "trl"}}
TARGET = 0.98
ODD = "files/hf-training-args/modelscope__ms-swift/examples/yaml/deepspeed/sft.json"
"""An ms-swift file (``tuner_type``) that the labels count as trainer arguments."""


@pytest.mark.skipif(not (CORPUS / "index.jsonl").exists(), reason="needs the corpus in ../shared")
def test_training_files_are_recognised_and_others_left_alone() -> None:
    right: dict[str, Counter[bool]] = defaultdict(Counter)
    foreign: list[tuple[str, list[str]]] = []
    for line in (CORPUS / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        path, label = row["path"], row["framework"]
        if not path.endswith((".json", ".yaml", ".yml")) or path == ODD or label not in MINE | OTHERS:
            continue
        text = (CORPUS / path).read_bytes().decode("utf-8-sig", errors="replace")
        file = parse_json(path, text) if path.endswith(".json") else parse_yaml(path, text)
        if file.fatal or file.skipped:
            continue
        readings, _ = recognise_files([file])
        found = {reading.dialect for reading in readings}
        if label in MINE:
            right[label][bool(found & SAME.get(label, {label}))] += 1
        elif found & MINE and not found & WRAPPERS:
            foreign.append((path, sorted(found & MINE)))
    assert set(right) == MINE
    shares = {label: counts[True] / counts.total() for label, counts in right.items()}
    assert {label: share for label, share in shares.items() if share < TARGET} == {}
    assert foreign == []
