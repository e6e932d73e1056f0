"""What the examples of the precision and hardware rules do not show: the families' data, odd values, one finding a cause."""

from __future__ import annotations

import json

import pytest
from cfglint_rules.precision.overflow_families import BY_MODEL_TYPE, FAMILIES, FP16_MAX

from cfglint.lint.registry import load_rules
from cfglint.testing import lint_files

OURS = tuple(code for code in load_rules() if code.startswith(("PRC0", "HWF0")))
ODD = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "auto",
    "true",
    "yes",
    "${VALUE}",
    "x" * 200,
    [],
    ["a", 1],
    {},
    {"a": {"b": 1}},
]
KEYS = (
    "model_name_or_path", "fp16", "bf16", "tf32", "torch_dtype", "attn_implementation", "optim", "fp16_full_eval",
    "load_in_4bit", "load_in_8bit", "bnb_4bit_compute_dtype", "learning_rate", "deepspeed", "do_train", "model_type",
)  # fmt: skip


def codes(files: dict[str, str], gpu: str | None = None) -> list[tuple[str, str]]:
    result = lint_files(files, gpu=gpu, select=OURS)
    assert not result.faults, result.faults[0].detail
    return sorted((f.code, f.severity) for f in result.findings)


def train(model: str, *lines: str) -> dict[str, str]:
    body = [f"model_name_or_path: {model}", *lines, "per_device_train_batch_size: 4", "num_train_epochs: 1"]
    return {"train.yaml": "\n".join((*body, "logging_nan_inf_filter: false", ""))}


def test_every_family_has_evidence_and_stands_once() -> None:
    names = [name for family in FAMILIES for name in family.model_types]
    assert len(names) == len(set(names)) == len(BY_MODEL_TYPE)
    for family in FAMILIES:
        assert family.sources and all(source.startswith("https://") for source in family.sources)
        assert len(family.seen) > 20
    assert FP16_MAX == 65504.0


@pytest.mark.parametrize(
    ("model", "severity"),
    [
        ("t5-base", "error"),
        ("google/flan-t5-xl", "error"),
        ("google/byt5-base", "error"),
        ("google/pegasus-xsum", "error"),  # not in the catalogue: the owner's name says it
        ("our-team/flan-t5-large-summaries", "warning"),  # the name alone
        ("google/gemma-3-4b-it", "warning"),  # autocast keeps the residual stream out of fp16
        ("Qwen/Qwen3-30B-A3B", "warning"),
        ("t5-small", None),
        ("google-t5/t5-small", None),
        ("facebook/opt-350m", None),
        ("EleutherAI/gpt-neox-20b", None),
    ],
)
def test_severity_follows_the_evidence(model: str, severity: str | None) -> None:
    found = [pair for pair in codes(train(model, "torch_dtype: float32", "fp16: true")) if pair[0] == "PRC001"]
    assert found == ([("PRC001", severity)] if severity else [])


def test_overflow_and_bf16_origin_are_one_finding() -> None:
    assert codes(train("google/gemma-3-4b-it", "torch_dtype: float32", "fp16: true"), "A100-80GB") == [
        ("PRC001", "warning")
    ]


def test_residual_overflow_is_an_error_with_fp16_weights() -> None:
    files = train("google/gemma-3-4b-it", "deepspeed: ds.json")
    files["ds.json"] = json.dumps({"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}})
    assert ("PRC001", "error") in codes(files)


@pytest.mark.parametrize(("gpu", "expected"), [("T4", []), ("A100-80GB", [("PRC002", "warning")])])
def test_fp16_is_right_where_there_is_no_bf16(gpu: str, expected: list[tuple[str, str]]) -> None:
    files = train("mistralai/Mistral-7B-v0.1", "torch_dtype: float32", "fp16: true")
    assert codes(files, gpu) == expected


def test_bf16_is_refused_by_old_torch_and_emulated_by_new() -> None:
    files = train("Qwen/Qwen2.5-0.5B", "torch_dtype: float32", "bf16: true")
    assert codes(files, "V100") == [("HWF001", "warning")]
    assert codes({**files, "requirements.txt": "torch==2.2.2\n"}, "V100") == [("HWF001", "error")]
    assert codes({**files, "requirements.txt": "torch>=2.4\n"}, "V100") == [("HWF001", "warning")]


def test_a_name_with_several_cards_speaks_only_where_they_agree() -> None:
    files = train("Qwen/Qwen2.5-0.5B", "torch_dtype: float32", "bf16: true")
    assert codes(files, "V100") == [("HWF001", "warning")]  # both V100 are Volta
    assert codes(files, "A100") == []


@pytest.mark.parametrize("key", KEYS)
def test_odd_values_in_trainer_arguments(key: str) -> None:
    for value in ODD:
        settings = {
            "model_name_or_path": "t5-base",
            "fp16": True,
            "per_device_train_batch_size": 2,
            "num_train_epochs": 1,
        }
        codes({"train.json": json.dumps({**settings, key: value})}, "T4")


@pytest.mark.parametrize(
    "section", ["fp16", "bf16", "amp", "zero_optimization", "communication_data_type", "data_types"]
)
def test_odd_values_in_deepspeed_files(section: str) -> None:
    settings = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "fp16": {"enabled": True}}
    inner = ("enabled", "loss_scale", "loss_scale_window", "min_loss_scale", "initial_scale_power", "stage")
    for value in ODD:
        codes({"ds.json": json.dumps({**settings, section: value})})
        codes({"ds.json": json.dumps({**settings, section: dict.fromkeys(inner, value)})})
        codes({"ds.json": json.dumps({**settings, section: {"enabled": True, "fp16_master_weights_and_grads": value}})})
