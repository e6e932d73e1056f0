"""Values of a wrong type or beyond all counting in a job file or ``--set`` went into rules and estimates, which fell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cfglint.cli.main import main

TRAIN = {
    "cfglint": 1, "kind": "train", "model": "Qwen/Qwen2.5-7B", "framework": "transformers", "gpu": "A100-80GB",
    "gpus_per_node": 8, "method": "qlora", "lora_rank": 16, "quantization": "nf4", "optimizer": "adamw_8bit",
    "micro_batch_size": 1, "sequence_length": 2048, "gradient_accumulation_steps": 4, "compute_dtype": "bf16",
    "weight_dtype": "bf16", "zero_stage": 2, "dataset_tokens": 1000000, "epochs": 1, "tensor_parallel_size": 1,
}  # fmt: skip
MOE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": [[], {}], "num_hidden_layers": 61, "num_attention_heads": 128,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280,
}  # fmt: skip
TOO_LARGE = "1" + "0" * 400
ODD = ("[[], {}]", "{a: 1}", ".inf", "-.inf", ".nan", TOO_LARGE, "2024-01-01", "!!binary aGk=", "many", "-5")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.yaml"


def _write(path: Path, key: str, value: str) -> None:
    path.write_text("".join(f"{k}: {value if k == key else v}\n" for k, v in TRAIN.items()))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("key", ("micro_batch_size", "sequence_length", "zero_stage", "lora_rank", "dataset_tokens"))
def test_numbers_that_are_none_are_named(job: Path, capsys: pytest.CaptureFixture[str], key: str, odd: str) -> None:
    _write(job, key, odd)
    assert main(["check", "--preview", "--strict", "--format", "json", "--fail-on", "never", "job.yaml"]) == 0
    capsys.readouterr()
    assert main(["estimate", "job.yaml"]) == 2
    assert f"{key}: expected" in capsys.readouterr().err


@pytest.mark.parametrize("odd", ("[[], {}]", "{a: 1}", "7"))
def test_names_that_are_none_are_named(job: Path, capsys: pytest.CaptureFixture[str], odd: str) -> None:
    _write(job, "optimizer", odd)
    assert main(["check", "--preview", "--strict", "--format", "json", "--fail-on", "never", "job.yaml"]) == 0
    assert main(["estimate", "job.yaml"]) == 2
    assert "optimizer: expected" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ("kind=foo", "cfglint=2", 'weight_dtype="bf16', "model_id=x", "gpus_per_node=0"))
def test_set_that_means_nothing_is_a_usage_error(job: Path, capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main(["estimate", "--set", "model=Qwen/Qwen2.5-7B", "--set", flag]) == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_set_over_files_takes_what_the_job_file_takes(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(job, "", "")
    flags = ["--set", "framework_version=4.5", "--set", "sequence_length=4e3", "--set", "lora_targets=q_proj"]
    assert main(["estimate", "--format", "json", *flags, "job.yaml"]) == 0
    found = json.loads(capsys.readouterr().out)["jobs"][0]
    assert found["batch"]["sequence_length"] == 4000


@pytest.mark.parametrize("key", ("moe_intermediate_size", "num_experts_per_tok"))
def test_lists_of_anything_for_expert_widths(job: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    model = {**MOE, "moe_intermediate_size": 2048, key: [[], {}]}
    job.write_text(json.dumps({"cfglint": 1, "kind": "train", "model": model}))
    assert main(["estimate", "--format", "json", "job.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["memory"]["verdict"] == "unknown"


def test_a_number_beyond_counting_in_a_dialect_is_unknown(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = job.with_name("train.json")
    config.write_text(
        f'{{"model_name_or_path": "Qwen/Qwen2.5-0.5B", "output_dir": "o", "per_device_train_batch_size": {TOO_LARGE}, '
        f'"gradient_accumulation_steps": {TOO_LARGE}, "max_steps": 5, "learning_rate": 1e-5, "bf16": true}}'
    )
    assert main(["estimate", "--format", "json", "train.json"]) == 0
    batch = json.loads(capsys.readouterr().out)["jobs"][0]["batch"]
    assert batch["micro_batch"] is None


def test_a_context_beyond_counting_is_no_context(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = {**MOE, "moe_intermediate_size": 2048, "max_position_embeddings": int(TOO_LARGE)}
    content = {"cfglint": 1, "kind": "serve", "framework": "vllm", "gpu": "H200", "gpus_per_node": 8, "model": model}
    job.write_text(json.dumps(content))
    assert main(["estimate", "--format", "json", "job.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["model"]["parameters"] > 600e9


def test_a_version_of_thousands_of_digits_is_named(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(f'cfglint: 1\nkind: train\nmodel: Qwen/Qwen2.5-7B\nframework_version: "{"9" * 5000}.1"\n')
    assert main(["check", "--fail-on", "never", "job.yaml"]) == 0
    assert main(["estimate", "job.yaml"]) == 2
    assert "framework_version: expected a version" in capsys.readouterr().err


@pytest.mark.parametrize(("key", "value"), [("zero_stage", "7"), ("micro_batch_size", "-3"), ("lora_rank", TOO_LARGE)])
def test_check_names_what_estimate_refuses(job: Path, capsys: pytest.CaptureFixture[str], key: str, value: str) -> None:
    _write(job, key, value)
    assert main(["estimate", "job.yaml"]) == 2
    assert main(["check", "job.yaml", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [f["message"].split(":")[0] for f in found if f["code"] == "SCH009"] == [key]


@pytest.mark.parametrize("value", (".nan", ".inf", "-.inf"))
def test_no_number_is_no_version(job: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    """Origins read 'trl nan'."""
    job.write_text(f"cfglint: 1\nkind: train\nmodel: Qwen/Qwen2.5-7B\nframework: trl\nframework_version: {value}\n")
    assert main(["estimate", "job.yaml"]) == 2
    assert "framework_version: expected a version" in capsys.readouterr().err
