"""Serving rules beyond their examples: fixes, what stays silent, what a job file gives."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cfglint.lint.finding import Finding
from cfglint.lint.fixes import fault_of
from cfglint.testing import lint_files

SERVING = ("SRV", "PAR10", "HWF10", "PRC10", "MEM10", "CTR", "SEC")


def found(files: Mapping[str, str], *codes: str, gpu: str | None = None, gpus: int | None = None) -> list[Finding]:
    result = lint_files(files, select=codes or SERVING, gpu=gpu, gpus=gpus)
    assert not result.faults, result.faults[0].detail
    return [f for f in result.findings if f.code[:3] != "INT"]


def fixed(finding: Finding) -> str:
    (fix, *_) = finding.fixes
    made, why = fault_of(fix.edits[0].document.file, fix.edits)
    assert made is not None, why
    return made.text


def test_dropped_false_is_written_as_its_negation() -> None:
    (finding,) = found({"serve.yaml": "model: our/m\nmax-model-len: 4096\nenable-prefix-caching: false\n"}, "SRV010")
    assert fixed(finding) == "model: our/m\nmax-model-len: 4096\nno-enable-prefix-caching: true\n"


def test_percent_is_written_as_a_share() -> None:
    (finding,) = found({"serve.yaml": "model: our/m\nmax-model-len: 4096\ngpu-memory-utilization: 85\n"}, "MEM104")
    assert fixed(finding) == "model: our/m\nmax-model-len: 4096\ngpu-memory-utilization: 0.85\n"


def test_misspelt_argument_is_renamed() -> None:
    (finding,) = found({"serve.sh": "vllm serve our/m --max-model-lenght 4096\n"}, "SRV002")
    assert finding.severity == "error"
    assert fixed(finding) == "vllm serve our/m --max-model-len 4096\n"


def test_argument_without_effect_is_removed() -> None:
    files = {"serve.yaml": "model: our/m\nmax-model-len: 4096\nswap-space: 4\n", "requirements.txt": "vllm==0.18.1\n"}
    (finding,) = found(files, "SRV001")
    assert finding.severity == "error"
    assert fixed(finding) == "model: our/m\nmax-model-len: 4096\n"


@pytest.mark.parametrize(
    ("version", "severity"), [("==0.18.1", "error"), (">=0.18.1", "error"), ("==0.12.0", None), (">=0.8", None)]
)
def test_removed_arguments_follow_the_stated_version(version: str, severity: str | None) -> None:
    files = {"serve.sh": "vllm serve our/m --swap-space 4\n", "requirements.txt": f"vllm{version}\n"}
    assert [f.severity for f in found(files, "SRV001")] == ([severity] if severity else [])


def test_forks_may_have_arguments_of_their_own() -> None:
    (finding,) = found({"serve.sh": "docker run --gpus all our/omni:1 vllm serve our/m --omni\n"}, "SRV002")
    assert finding.severity == "info"


def test_model_max_length_of_the_config_counts() -> None:
    config = '{"model_type": "cohere", "max_position_embeddings": 8192, "model_max_length": 131072}'
    files = {
        "serve.sh": "vllm serve CohereForAI/c4ai-command-r-v01 --max-model-len 131072\n",
        ".cfglint/models/CohereForAI/c4ai-command-r-v01/config.json": config,
    }
    assert found(files, "SRV005") == []
    del files[".cfglint/models/CohereForAI/c4ai-command-r-v01/config.json"]
    assert found(files, "SRV005") == []


@pytest.mark.parametrize(("version", "count"), [("0.25.1", 0), ("0.33.0", 1)])
def test_yarn_is_read_as_the_release_reads_it(version: str, count: int) -> None:
    config = (
        '{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, '
        '"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768, '
        '"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}'
    )
    files = {
        "serve.sh": "vllm serve our/long --max-model-len 131072\n",
        ".cfglint/models/our/long/config.json": config,
        "requirements.txt": f"vllm=={version}\n",
    }
    assert len(found(files, "SRV005")) == count


@pytest.mark.parametrize(
    ("version", "severity"), [("0.7.3", "error"), ("0.8.5", "error"), ("0.9.1", "info"), ("0.12.0", "info")]
)
def test_auto_dtype_before_ampere_follows_the_release(version: str, severity: str) -> None:
    files = {"serve.sh": "vllm serve Qwen/Qwen2.5-1.5B-Instruct\n", "requirements.txt": f"vllm=={version}\n"}
    assert [f.severity for f in found(files, "HWF101", gpu="T4", gpus=1)] == [severity]


def test_a_name_with_several_cards_decides_nothing_where_they_differ() -> None:
    files = {"serve.sh": "vllm serve openai/gpt-oss-20b\n"}
    assert found(files, "HWF102", gpu="A100", gpus=1) == []
    assert len(found(files, "HWF102", gpu="V100", gpus=1)) == 1


def test_ray_may_bring_the_other_gpus() -> None:
    files = {"serve.sh": "ray start --head\nvllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 16\n"}
    assert [f.severity for f in found(files, "PAR102", gpu="H100-80GB", gpus=8)] == ["info"]


def test_one_service_with_two_commands_shares_nothing() -> None:
    files = {
        "docker-compose.yml": "services:\n  llm:\n    image: vllm/vllm-openai:v0.18.1\n    entrypoint: [/bin/bash, -c]\n"
        "    command:\n      - |\n        if [ -n x ]; then vllm serve our/a --port 1; else vllm serve our/b --port 2; fi\n"
        "    deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}\n"
    }
    assert found(files, "MEM103") == []


def test_a_job_file_is_judged_like_any_server() -> None:
    files = {
        "job.yaml": "cfglint: 1\nkind: serve\nframework: vllm\nmodel: Qwen/Qwen2.5-7B-Instruct\n"
        "tensor_parallel_size: 8\nmax_num_seqs: 512\nmax_num_batched_tokens: 256\n"
    }
    assert sorted(f.code for f in found(files, "PAR101", "SRV006")) == ["PAR101", "SRV006"]


@pytest.mark.parametrize("key", ["gated", "custom"])
def test_odd_types_raise_nothing(key: str) -> None:
    values = (
        "model: [1, 2]\nmax-model-len: {a: 1}\ngpu-memory-utilization: true\nspeculative-config: [1]\nlora-modules: 3\n"
    )
    more = "tensor-parallel-size: null\nquantization: 4\ndtype: [x]\nkv-cache-dtype: 1.5\nattention-backend: {}\n"
    assert all(f.code != "INT001" for f in found({f"{key}.yaml": values + more}, gpu="T4", gpus=1))


def test_a_quantized_republication_that_is_judged_is_not_said_not_to_be() -> None:
    """'memory and precision cannot be judged' stood beside a verdict on the model its name says."""
    (finding,) = found({"serve.sh": "vllm serve Qwen/Qwen2.5-72B-Instruct-AWQ\n"}, "FCT001")
    assert "is taken as Qwen/Qwen2.5-72B-Instruct with quantized weights, as its name says" in finding.message
    (finding,) = found({"serve.sh": "vllm serve our/own-72b-awq\n"}, "FCT001")
    assert "cannot be judged" in finding.message
