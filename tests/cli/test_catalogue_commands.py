"""``cfglint models`` and ``cfglint gpus``."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from cfglint.cli.main import main

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
}  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_one_model_with_its_working(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "models", "meta-llama/llama-3.1-8b")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "meta-llama/Llama-3.1-8B"
    assert "  parameters    8,030,261,248 (counted from its dimensions, equal to the published files)" in lines
    assert "  KV cache      65,536 elements per token (128.0 KiB at 2 bytes)" in lines
    assert "    q_proj                    4,096 × 4,096  × 32           536,870,912" in lines
    assert lines[-1].split() == ["total", "8,030,261,248"]
    assert any(line.startswith("  source ") and "checked 2026-11-30" in line for line in lines)


def test_one_model_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "models", "mistralai/Mixtral-8x7B-v0.1", "--format", "json")
    document = json.loads(out)
    assert code == 0 and document["version"] == 1
    assert document["architecture"]["parameters"] == 46_702_792_704
    assert document["architecture"]["active_parameters"] == document["model"]["active_parameters"] == 12_879_925_248
    assert sum(tensor["parameters"] for tensor in document["architecture"]["tensors"]) == 46_702_792_704


def test_a_model_known_by_its_total(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "models", "nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B-BF16")
    assert code == 0
    assert "(total of the published files)" in out
    assert "Not worked out: all tensors" in out


def test_what_the_files_hold_beside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Hy3's files hold a draft layer (3,752,612,096) and a bias for each of 80 routers."""
    code, out, _ = said(capsys, "models", "tencent/Hy3")
    assert code == 0 and "298,786,155,776 (total of the published files)" in out
    assert "3,752,627,456 of them (draft layers, buffers or scales)" in out
    assert "Not worked out" not in out


def test_the_list_and_its_filters(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "models", "--family", "mixtral")
    lines = out.splitlines()
    assert code == 0 and lines[0].split() == ["model", "family", "parameters", "active", "dtype", "context"]
    assert [line for line in lines if line.startswith("mistralai/Mixtral-8x7B-v0.1 ")]
    assert lines[-1].startswith("9 models.")
    code, out, _ = said(capsys, "models", "--search", "QWEN3-vl", "--format", "json")
    assert all("qwen3-vl" in (row["id"] + " ".join(row["aliases"])).lower() for row in json.loads(out)["models"])
    code, out, _ = said(capsys, "models", "--search", "no such model anywhere")
    assert code == 0 and "no model of the catalogue matches" in out


def test_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "models", "qwen/qwen2.5-7b-instrct")
    assert code == 2 and out == ""
    assert "nearest: Qwen/Qwen2.5-7B-Instruct" in err and "cfglint models add qwen/qwen2.5-7b-instrct" in err


def test_add_from_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    arguments = ["models", "add", str(tmp_path / "ckpt"), "--project", str(tmp_path)]
    code, _, err = said(capsys, *arguments)
    assert code == 2 and "--as org/name" in err
    code, out, _ = said(capsys, *arguments, "--as", "acme/tiny")
    assert code == 0 and "parameters" in out
    assert json.loads((tmp_path / ".cfglint/models/acme/tiny/config.json").read_text("utf-8")) == CONFIG
    code, out, _ = said(capsys, "models", "acme/tiny", "--project", str(tmp_path))
    assert code == 0 and "the project's own" in out


def test_add_takes_the_name_that_the_config_states(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, "_name_or_path": "acme/stated"}), "utf-8")
    assert said(capsys, "models", "add", str(file), "--project", str(tmp_path))[0] == 0
    assert (tmp_path / ".cfglint/models/acme/stated/config.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "states no model_type"),
        ("{}", "states no model_type"),
        ('{"model_type": 3}', "states no model_type"),
    ],
)
def test_add_refuses_what_is_no_model_config(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "config.json").write_text(content, "utf-8")
    code, _, err = said(capsys, "models", "add", str(tmp_path), "--as", "a/b", "--project", str(tmp_path))
    assert code == 2 and message in err
    assert not (tmp_path / ".cfglint").exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../b", "a/b/c", "nothing", "a b/c"])
def test_add_never_writes_outside_the_project(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    code, _, err = said(capsys, "models", "add", str(tmp_path), "--as", name, "--project", str(tmp_path))
    assert code == 2 and "is no model id" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json"]


def test_add_without_the_hub_library(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = said(capsys, "models", "add", "acme/tiny", "--project", str(tmp_path))
    assert code == 2 and "cfglint-llm[hub]" in err and "--as acme/tiny" in err


def test_add_from_the_hub(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cached.json").write_text(json.dumps(CONFIG), "utf-8")
    asked: dict[str, Any] = {}

    def download(**options: Any) -> str:
        asked.update(options)
        if options["repo_id"] == "acme/gated":
            raise type("GatedRepoError", (Exception,), {})()
        if options["repo_id"] == "acme/offline":
            raise ConnectionError
        return str(tmp_path / "cached.json")

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(hf_hub_download=download))
    code, out, _ = said(capsys, "models", "add", "acme/tiny", "--revision", "v2", "--project", str(tmp_path))
    assert code == 0 and "stored acme/tiny" in out
    assert asked == {"repo_id": "acme/tiny", "filename": "config.json", "revision": "v2"}
    code, _, err = said(capsys, "models", "add", "acme/gated", "--project", str(tmp_path))
    assert code == 2 and "gated" in err
    code, _, err = said(capsys, "models", "add", "acme/offline", "--project", str(tmp_path))
    assert code == 2 and "cannot be reached" in err


def test_gpus_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "gpus", "8xA100-80GB")
    assert code == 0
    assert out.startswith("A100-80GB can mean 2 accelerators\n\nA100-SXM4-80GB\n")
    assert "  memory          80 GB as sold, 79.15 GiB measured" in out
    assert "79.12 GiB, estimated from the label" in out
    assert "  checked         2026-11-30" in out and "Vendor specifications change" in out


def test_gpus_list_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "gpus")
    assert code == 0 and "160 accelerators." in out and "Vendor specifications change" in out
    code, out, _ = said(capsys, "gpus", "--vendor", "amd", "--format", "json")
    document = json.loads(out)
    assert {row["vendor"] for row in document["accelerators"]} == {"AMD"}
    assert "Vendor specifications change" in document["note"]
    assert all(row["sources"] and row["checked"] for row in document["accelerators"])


def test_unknown_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "gpus", "A100-64GB")
    assert code == 2 and out == "" and "nearest: A100-" in err
    code, _, err = said(capsys, "gpus", "--vendor", "acme")
    assert code == 2 and "there are AMD" in err


def test_add_a_path_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "models", "add", "./nowhere")
    assert code == 2 and "./nowhere: no such file or folder" in err
