"""``cfglint fit`` from the outside, with a model that lies beside the config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.cli.main import main

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 8192, "hidden_act": "silu",
}  # fmt: skip
SFT = """\
model_name_or_path: ./model
torch_dtype: bfloat16
bf16: true
per_device_train_batch_size: 8
gradient_accumulation_steps: 4
max_length: 4096
gradient_checkpointing: false
dataset_name: our/data
learning_rate: 2.0e-5
use_peft: true
lora_r: 16
"""
SERVE = "#!/bin/bash\nvllm serve ./model --max-model-len 8192 --tensor-parallel-size 4 --max-num-seqs 512\n"
HARDWARE = ["--gpu", "A100-SXM4-80GB", "--gpus", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "sft.yaml").write_text(SFT)
    (tmp_path / "serve.sh").write_text(SERVE)


def jobs(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    content = json.loads(capsys.readouterr().out)
    assert content["version"] == 1
    found: list[dict[str, Any]] = content["jobs"]
    return found


def test_json_of_a_training_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "sft.yaml", *HARDWARE, "--format", "json"]) == 0
    (job,) = jobs(capsys)
    assert (job["name"], job["kind"]) == ("sft.yaml", "train")
    assert job["verdict"] in ("oom", "likely-oom") and job["missing"] == []
    assert 1 <= job["largest_micro_batch_size"] <= job["largest_micro_batch_size_expected"] < 8
    assert 64 <= job["largest_sequence_length"] < 4096 and job["largest_sequence_length"] % 64 == 0
    assert job["model_limit"] == 8192
    kept = job["kept_batch"]
    assert kept["micro_batch_size"] * kept["gradient_accumulation_steps"] == kept["sequences_per_rank"] == 32
    recompute = next(c for c in job["changes"] if c["words"] == "gradient checkpointing")
    assert recompute["settings"] == [
        {"dialect": "trl", "key": "gradient_checkpointing", "value": True, "path": "sft.yaml"}
    ]
    assert recompute["changes_training_result"] is False and recompute["stacked"] == 1
    assert set(recompute["used_gib"]) == {"low", "expected", "high"}
    assert recompute["cost"] and recompute["verdict"] in ("fits", "tight", "likely-oom", "oom")
    assert any(on["gpu"] == "H200-SXM" and on["verdict"] == "fits" for on in job["accelerators"])


def test_json_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "serve.sh", "--gpu", "H100-SXM", "--gpus", "8", "--format", "json"]) == 0
    (job,) = jobs(capsys)
    assert job["kind"] == "serve" and job["verdict"] in ("fits", "tight")
    assert job["kv_tokens"] > 1_000_000 and job["max_concurrency"] == pytest.approx(job["kv_tokens"] / 8192, rel=0.02)
    assert job["largest_max_model_len"] == 8192
    assert job["smallest_tensor_parallel_size"] == 1
    keys = {setting["key"]: setting["value"] for change in job["changes"] for setting in change["settings"]}
    assert keys["--gpu-memory-utilization"] == 0.95 and keys["--kv-cache-dtype"] == "fp8"


def test_text_names_the_keys_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "sft.yaml", *HARDWARE]) == 0
    page = capsys.readouterr().out
    assert page.startswith("sft.yaml  training, trl\n")
    assert "gradient_checkpointing: true" in page and "per_device_train_batch_size: " in page
    assert "fewest GPUs" in page and "(stated)" in page
    assert all(len(line) <= 130 for line in page.splitlines())
    assert main(["fit", "serve.sh", "--gpu", "H100-SXM", "--gpus", "8"]) == 0
    page = capsys.readouterr().out
    assert "smallest   tensor parallel size 1 (now 4)" in page
    assert "with --tensor-parallel-size 1" in page and "--kv-cache-dtype fp8" in page


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "sft.yaml", *HARDWARE, "--format", "markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("### `sft.yaml`\n")
    assert "| change | GiB per GPU | result | cost |" in page
    assert "| gradient_checkpointing: true | " in page


def test_flags_make_up_a_job_and_override_files(capsys: pytest.CaptureFixture[str]) -> None:
    facts = ["model=./model", "framework=trl", "method=lora", "micro_batch_size=2", "sequence_length=2048"]
    assert main(["fit", *(f"--set={fact}" for fact in facts), *HARDWARE, "--format", "json"]) == 0
    (job,) = jobs(capsys)
    assert job["name"] == "--set" and job["largest_micro_batch_size"] >= 1
    assert main(["fit", "sft.yaml", "--set", "sequence_length=512", *HARDWARE, "--format", "json"]) == 0
    (shorter,) = jobs(capsys)
    assert main(["fit", "sft.yaml", *HARDWARE, "--format", "json"]) == 0
    (longer,) = jobs(capsys)
    assert shorter["largest_micro_batch_size"] > longer["largest_micro_batch_size"]


def test_what_is_missing_is_named_with_how_to_supply_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "sft.yaml"]) == 0
    page = capsys.readouterr().out
    assert "missing    gpu: state it with --gpu NAME" in page and "fewest GPUs" in page
    Path("sft.yaml").write_text(SFT.replace("./model", "no/such-model"))
    assert main(["fit", "sft.yaml", *HARDWARE]) == 0
    page = capsys.readouterr().out
    assert "missing    model: state it with `cfglint models add ID`" in page
    assert "fewest GPUs" not in page


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--set", "micro_batch_sise=2", "--set", "model=./model"]) == 2
    assert "cfglint fit: " in capsys.readouterr().err
    assert main(["fit", "nowhere.yaml"]) == 2
    Path("empty.yaml").write_text("a: 1\n")
    assert main(["fit", "empty.yaml"]) == 0
    assert "no job found in 1 file (0 recognised)" in capsys.readouterr().err
