"""``cfglint estimate`` from the outside, with a model that lies beside the config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cfglint.cli.main import main

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 8192, "hidden_act": "silu",
}  # fmt: skip
JOB = "cfglint: 1\nkind: train\nmodel: ./model\nframework: trl\nmethod: full\nsequence_length: 2048\nmicro_batch_size: 2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "job.yaml").write_text(JOB)


def jobs(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["jobs"]
    return found


def test_a_job_file_on_stated_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "job.yaml", "--gpu", "T4", "--gpus", "1", "--format", "json"]) == 0
    (job,) = jobs(capsys)
    assert job["model"]["parameters"] == 8030261248  # type: ignore[index]
    assert job["memory"]["verdict"] == "oom"  # type: ignore[index]
    assert job["batch"]["sequences"] == 2  # type: ignore[index]
    assert main(["estimate", "job.yaml", "--gpu", "T4", "--fail-on-oom"]) == 1
    assert main(["estimate", "job.yaml", "--fail-on-oom"]) == 0


def test_set_alone_is_the_same_job(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--set={line.replace(': ', '=')}" for line in JOB.splitlines()[1:]]
    assert main(["estimate", *flags, "--gpu", "T4", "--format", "json"]) == 0
    (by_flags,) = jobs(capsys)
    assert main(["estimate", "job.yaml", "--gpu", "T4", "--format", "json"]) == 0
    (by_file,) = jobs(capsys)
    assert by_flags["memory"]["used_gib"] == by_file["memory"]["used_gib"]  # type: ignore[index]
    assert main(["estimate", *flags]) == 0
    assert "sequence_length 2048 (--set)" in capsys.readouterr().out


def test_set_with_paths_counts_over_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--set", "micro_batch_size=1", "--set", "gpu=T4", "--set", "gpus_per_node=2"]
    assert main(["estimate", "job.yaml", *flags, "--format", "json"]) == 0
    (job,) = jobs(capsys)
    assert job["batch"]["micro_batch"] == 1 and job["batch"]["data_parallel"] == 2  # type: ignore[index]
    assert job["hardware"]["gpu"] == "T4"  # type: ignore[index]


def test_without_hardware_it_says_where_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "job.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "memory per GPU: no verdict" in shown
    assert "fits on" in shown and "too small: T4" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "metod=qlora"], "--set: unknown key `metod`; did you mean `method`?"),
        (["job.yaml", "--set", "micro_batch=2"], "unknown key `micro_batch`; did you mean `micro_batch_size`?"),
        (["job.yaml", "--set", "model=x"], "use it without paths"),
        (["job.yaml", "--set", "gpus_per_node=eight"], "a whole number from 1 is needed"),
        (["--set", "method"], "KEY=VALUE is needed"),
        (["none.yaml"], "none.yaml: no such file or folder"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_no_job_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["estimate", "empty"]) == 0
    assert "no job found in 0 files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("num_hidden_layers: 0, num_attention_heads: 32", "num_hidden_layers is 0, expected at least 1"),
        ("num_hidden_layers: 2, num_attention_heads: 33", "hidden_size 4096 does not divide by num_attention_heads 33"),
        (
            "num_hidden_layers: 2, num_attention_heads: 32, num_key_value_heads: 5",
            "does not divide by num_key_value_heads 5",
        ),
        ("num_hidden_layers: -3, num_attention_heads: 32", "num_hidden_layers is -3, expected at least 1"),
    ],
)
def test_a_model_that_cannot_be_is_named_with_its_line(
    config: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = f"{{model_type: llama, hidden_size: 4096, intermediate_size: 11008, vocab_size: 32000, {config}}}"
    (tmp_path / "impossible.yaml").write_text(f"cfglint: 1\nkind: train\nmodel: {shape}\nmicro_batch_size: 1\n")
    assert main(["estimate", "impossible.yaml"]) == 2
    written = capsys.readouterr()
    assert written.out == "" and written.err.startswith("cfglint: impossible.yaml:3: model: ")
    assert message in written.err


def test_one_wrong_job_file_leaves_the_others_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "cfglint: 1\nkind: train\nmodel: Qwen/Qwen2.5-0.5B\n"
    (tmp_path / "good.yaml").write_text(f"{job}micro_batch_size: 1\n")
    (tmp_path / "wrong.yaml").write_text(f"{job}micro_batchsize: 1\n")
    assert main(["estimate", "."]) == 2
    written = capsys.readouterr()
    assert written.out.startswith("good.yaml") and "wrong.yaml" not in written.out
    assert written.err == "cfglint: wrong.yaml:4: unknown key `micro_batchsize`; did you mean `micro_batch_size`?\n"


def test_a_family_that_is_not_known_is_no_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.yaml").write_text("cfglint: 1\nkind: train\nmodel: {model_type: brand_new}\nmicro_batch_size: 1\n")
    assert main(["estimate", "new.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "problem    the config does not state hidden_size (model_type 'brand_new')" in shown
    assert "cfglint models add" not in shown


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("gpus=8", "did you mean `gpus_per_node`?"),
        ("engine=vllm", "did you mean `framework`?"),
        ("lora_r=8", "did you mean `lora_rank`?"),
        ("qqqq=1", "`cfglint schema cfglint-job` lists the keys"),
    ],
)
def test_a_key_that_set_does_not_know(flag: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--set", "model=./model", "--set", flag]) == 2
    assert f"unknown key `{flag.split('=')[0]}`; {hint}" in capsys.readouterr().err


def test_a_server_without_room_for_a_cache(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--set", "kind=serve", "--set", "framework=vllm", "--set", "model=./model", "--gpu", "T4", "--gpus", "1"]
    assert main(["estimate", *flags]) == 0
    out = capsys.readouterr().out
    assert "KV cache   none: 3." in out and "GiB too much, as expected" in out
    assert main(["estimate", *flags, "--gpu", "L4", "--set", "gpu_memory_utilization=0.5"]) == 0
    out = capsys.readouterr().out
    assert "KV cache   none: " in out
    assert "the engine may take a part of it, and that has no room for a KV cache" in out


def test_an_accelerator_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "job.yaml", "--gpu", "unheard"]) == 0
    assert "hardware   no accelerator is called 'unheard'" in capsys.readouterr().out


def test_a_file_that_does_not_parse_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """'no job found in 1 file (0 recognised)' was all there was; of broken TOML and job files ``check`` said nothing too."""
    monkeypatch.chdir(tmp_path)
    broken = {
        "job.yaml": ("cfglint: 1\nkind: train\nmodel: {\n", 3),
        "titan.toml": (
            "[training]\nlocal_batch_size = 1\n[parallelism]\ndata_parallel_shard_degree = -1\n[validation\n",
            5,
        ),
    }
    for name, (text, line) in broken.items():
        (tmp_path / name).write_text(text)
        assert main(["estimate", name]) == 2
        assert f"cfglint: {name}:{line}: " in capsys.readouterr().err
        assert main(["check", name, "--format", "concise"]) == 1
        assert f"{name}:{line}:" in (said := capsys.readouterr().out) and "SRC001" in said
