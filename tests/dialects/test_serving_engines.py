"""The engines beside vLLM: their arguments as facts, from every carrier."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cfglint.jobs.facts import DerivedOrigin
from cfglint.jobs.job import ServingJob
from cfglint.testing import lint_files


def serving(files: Mapping[str, str]) -> list[ServingJob]:
    """The serving jobs of some files, seen through a rule's eyes."""
    from cfglint_rules.facts.unknown_model import UnknownModel

    from cfglint.lint.context import Context

    seen: list[ServingJob] = []
    original = UnknownModel.check_serving

    def look(self: UnknownModel, job: ServingJob, context: Context):  # type: ignore[no-untyped-def]
        seen.append(job)
        return iter(())

    UnknownModel.check_serving = look  # type: ignore[method-assign]
    try:
        lint_files(files, select=("FCT001",))
    finally:
        UnknownModel.check_serving = original  # type: ignore[method-assign]
    return seen


def test_sglang_arguments_by_their_own_names() -> None:
    (job,) = serving(
        {
            "serve.sh": "docker run --gpus 8 lmsysorg/sglang:v0.5.2-cu126 python3 -m sglang.launch_server --model our/m --tp 8 "
            "--dp 4 --enable-dp-attention --context-length 32768 --mem-fraction-static 0.85 --chunked-prefill-size -1 "
            "--disable-radix-cache --disable-cuda-graph --cuda-graph-bs 1 2 4\n"
        }
    )
    assert job.value("framework") == "sglang"
    assert job.versions["sglang"] == "0.5.2"
    assert (job.value("model_id"), job.value("tensor_parallel_size"), job.value("data_parallel_size")) == (
        "our/m",
        8,
        4,
    )
    assert (job.value("max_model_len"), job.value("mem_fraction_static")) == (32768, 0.85)
    assert job.value("max_num_batched_tokens") is None
    assert job.value("enable_prefix_caching") is False
    assert job.value("enforce_eager") is True
    assert job.value("engine_args")["cuda_graph_bs"] == [1, 2, 4]
    assert job.hardware.gpus_per_node == 8


def test_sglang_spans_the_nodes_it_is_told() -> None:
    (job,) = serving(
        {"serve.sh": "python3 -m sglang.launch_server --model-path our/m --tp 16 --nnodes 2 --node-rank $RANK\n"}
    )
    assert job.value("nodes") == 2


def test_sglang_serve_and_its_config_file() -> None:
    (job,) = serving(
        {
            "serve.sh": "sglang serve --config sglang.yaml --tp 2\n",
            "sglang.yaml": "model-path: our/m\nmem-fraction-static: 0.8\nchunked-prefill-size: 4096\n",
        }
    )
    assert job.value("model_id") == "our/m"
    assert job.value("tensor_parallel_size") == 2
    assert job.value("max_num_batched_tokens") == 4096


def test_tgi_reads_its_environment_and_flags_win() -> None:
    (job,) = serving(
        {
            "docker-compose.yml": "services:\n  llm:\n    image: ghcr.io/huggingface/text-generation-inference:2.4.1\n"
            "    command: --max-total-tokens 4096\n    environment:\n      MODEL_ID: our/m\n      QUANTIZE: awq\n"
            "      MAX_TOTAL_TOKENS: 2048\n      NUM_SHARD: 2\n"
        }
    )
    assert job.value("framework") == "tgi"
    assert job.versions["tgi"] == "2.4.1"
    assert (job.value("model_id"), job.value("quantization")) == ("our/m", "awq")
    assert job.value("max_model_len") == 4096
    assert job.value("tensor_parallel_size") == 2


def test_tgi_takes_a_shard_for_each_device() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: llm\n"
        "      image: ghcr.io/huggingface/text-generation-inference:2.4.1\n      args: [--model-id, our/m]\n"
        "      resources: {limits: {nvidia.com/gpu: 4}}\n"
    )
    (job,) = serving({"pod.yaml": pod})
    fact = job.fact("tensor_parallel_size")
    assert fact is not None
    assert fact.value == 4
    assert isinstance(fact.origin, DerivedOrigin)


def test_googles_build_of_tgi_has_its_release_in_its_name() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: llm\n      image: "
        "us-docker.pkg.dev/deeplearning-platform-release/gcr.io/huggingface-text-generation-inference-cu124.2-3.ubuntu2204.py311\n"
        "      env: [{name: MODEL_ID, value: our/m}]\n"
    )
    (job,) = serving({"pod.yaml": pod})
    assert (job.value("model_id"), job.versions["tgi"]) == ("our/m", "2.3")


def test_lmdeploy_model_and_format() -> None:
    (job,) = serving(
        {
            "serve.sh": "lmdeploy serve api_server our/m-awq --tp 2 --session-len 16384 --cache-max-entry-count 0.5 --model-format awq --quant-policy 8\n"
        }
    )
    assert (job.value("model_id"), job.value("tensor_parallel_size")) == ("our/m-awq", 2)
    assert (job.value("max_model_len"), job.value("quantization")) == (16384, "awq")
    assert job.value("engine_args") == {"cache_max_entry_count": 0.5, "model_format": "awq", "quant_policy": 8}


def test_trtllm_with_its_options_file() -> None:
    (job,) = serving(
        {
            "serve.sh": "mpirun -n 4 trtllm-llmapi-launch trtllm-serve our/m --tp_size 4 --extra_llm_api_options extra.yaml\n",
            "extra.yaml": "kv_cache_config:\n  free_gpu_memory_fraction: 0.7\n  dtype: fp8\nmax_batch_size: 64\n"
            "enable_attention_dp: false\n",
        }
    )
    assert job.value("framework") == "trtllm"
    assert (job.value("tensor_parallel_size"), job.value("max_num_seqs")) == (4, 64)
    assert job.value("kv_cache_dtype") == "fp8"


def test_trtllm_disaggregated_file_has_two_servers() -> None:
    jobs = serving(
        {
            "disagg.yaml": "model: our/m\nhostname: localhost\ncontext_servers:\n  num_instances: 1\n  tensor_parallel_size: 2\n"
            "generation_servers:\n  num_instances: 1\n  tensor_parallel_size: 4\n"
        }
    )
    assert [(j.value("model_id"), j.value("tensor_parallel_size")) for j in jobs] == [("our/m", 2), ("our/m", 4)]


@pytest.mark.parametrize(
    "text",
    [
        "llama-server -hf our/m-GGUF:Q4_K_M -c 8192 -ngl 99 -np 2 -fa on -ctk q8_0\n",
        "docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -hf our/m-GGUF:Q4_K_M -c 8192 --n-gpu-layers 99 --parallel 2 --flash-attn on --cache-type-k q8_0\n",
    ],
    ids=["program", "image"],
)
def test_llamacpp_short_and_long_options(text: str) -> None:
    (job,) = serving({"serve.sh": text})
    assert job.value("framework") == "llama.cpp"
    assert (job.value("model_id"), job.value("quantization")) == ("our/m-GGUF", "Q4_K_M")
    assert (job.value("max_model_len"), job.value("max_num_seqs")) == (8192, 2)
    assert job.value("engine_args")["n_gpu_layers"] == 99
    assert job.value("engine_args")["cache_type_k"] == "q8_0"


def test_an_image_that_a_variable_names_is_no_llamacpp() -> None:
    text = "services:\n  a:\n    image: ${IMAGE:-ghcr.io/ggml-org/llama.cpp:server}\n    command: -m /models/a.gguf\n"
    assert serving({"docker-compose.yml": text}) == []


def test_arguments_behind_a_script_of_the_entrypoint() -> None:
    (job,) = serving(
        {
            "docker-compose.yml": "services:\n  a:\n    image: our/llm:1\n    entrypoint:\n      - /bin/bash\n      - -c\n"
            '      - exec llama-server "$$@"\n      - --\n    command: [-m, /models/a.gguf, -c, "4096"]\n'
        }
    )
    assert job.value("max_model_len") == 4096


def test_a_patch_of_a_container_is_claimed_and_makes_no_job() -> None:
    patch = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers:\n"
        "        - name: server\n          args: ['--model=our/m', '--max-model-len=4096', '--tensor-parallel-size=64']\n"
    )
    assert serving({"patch.yaml": patch}) == []
