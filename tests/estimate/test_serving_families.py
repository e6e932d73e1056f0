"""vLLM's logged memory for model families of every kind: what the catalogue's architectures are read for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.estimate.result import Estimate
from cfglint.estimate.serving import estimate_serving
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.job import Hardware, ServingJob
from cfglint.jobs.models import ModelSearch

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cfglint.catalog.models") is None, reason="no model catalogue yet"
)

GIB = 2**30
SEARCH = ModelSearch(Path(__file__).parent, {})

H100_0_19 = {"framework_version": "0.19.0", "gpu": "H100-SXM", "gpu_memory_utilization": 0.95, "max_model_len": 8192}
"""As llm-d-planner's runs were started (PR 205)."""


def estimate(model: str, **facts: Any) -> Estimate:
    job = ServingJob("test")
    for name, value in {"framework": "vllm", "model_id": model, **facts}.items():
        job.state(name, value, SettingOrigin("test", name))
    job.hardware = Hardware(find_accelerators(facts["gpu"]), facts["gpu"], None, None, None)
    job.model = SEARCH.find(job)
    return estimate_serving(job)


def check(found: Estimate, measured: dict[str, float]) -> None:
    """Weights to 2 %, activation peak to 6 %, KV cache and tokens to 2 %."""
    serving = found.serving
    assert serving is not None
    assert serving.weights is not None and serving.activation_peak is not None
    assert serving.kv_cache is not None and serving.kv_tokens is not None
    estimates = {
        "weights": (serving.weights / GIB, 0.02),
        "activation": (serving.activation_peak / GIB, 0.06),
        "cache": (serving.kv_cache.expected / GIB, 0.02),
        "tokens": (serving.kv_tokens.expected, 0.02),
        "concurrency": (serving.max_concurrency, 0.02),
    }
    for name, value in measured.items():
        expected, tolerance = estimates[name]
        assert expected == pytest.approx(value, rel=tolerance), name
    if "cache" in measured:
        assert serving.kv_cache.low / GIB <= measured["cache"] <= serving.kv_cache.high / GIB


@pytest.mark.parametrize(
    ("model", "facts", "measured"),
    [
        ("codellama/CodeLlama-7b-Instruct-hf", {}, {"activation": 0.77, "cache": 61.66, "tokens": 126256}),
        ("microsoft/phi-2", {"max_model_len": 2048}, {"cache": 69.0, "tokens": 226112}),
        ("microsoft/phi-4", {}, {"activation": 1.52, "cache": 46.08, "tokens": 241568}),
        ("google/gemma-7b-it", {}, {"cache": 55.44, "tokens": 129760}),
        ("google/gemma-2-9b-it", {}, {"activation": 3.62, "cache": 54.12, "tokens": 168880}),
        ("google/gemma-2-27b-it", {}, {"activation": 3.66, "cache": 20.59, "tokens": 58672, "concurrency": 7.16}),
        ("google/gemma-3-4b-it", {}, {"activation": 3.89, "cache": 62.51, "tokens": 468144}),
        ("google/gemma-3-27b-it", {}, {"activation": 3.99, "cache": 19.53, "tokens": 36560, "concurrency": 4.46}),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", {}, {"activation": 1.93, "cache": 43.61, "tokens": 1505552}),
        ("Qwen/Qwen3-30B-A3B", {}, {"weights": 56.88, "activation": 2.68, "cache": 15.41, "tokens": 168288}),
        ("Qwen/Qwen1.5-MoE-A2.7B", {}, {"weights": 26.67, "activation": 2.47, "cache": 45.83, "tokens": 250304}),
        (
            "mistralai/Mixtral-8x7B-Instruct-v0.1",
            {"tensor_parallel_size": 2},
            {"weights": 43.51, "activation": 1.21, "cache": 28.44, "tokens": 465936},
        ),
        (
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            {"tensor_parallel_size": 4},
            {"weights": 53.12, "activation": 3.19, "cache": 16.75, "tokens": 365968, "concurrency": 44.68},
        ),
        (
            "openai/gpt-oss-20b",
            {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.9},
            {"weights": 7.01, "activation": 2.87, "cache": 59.32, "tokens": 2591776},
        ),
        (
            "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8",
            {"quantization": "w8a8-int8"},
            {"weights": 24.07, "activation": 2.18, "cache": 48.73, "tokens": 319344},
        ),
    ],
)
def test_families_on_an_h100(model: str, facts: dict[str, Any], measured: dict[str, float]) -> None:
    check(estimate(model, **{**H100_0_19, **facts}), measured)


def test_v0_with_a_long_prompt_on_two_v100() -> None:
    """vllm#11251: 0.6.4.post1, 40,000 tokens in one prefill."""
    found = estimate(
        "meta-llama/Llama-3.1-8B-Instruct", framework_version="0.6.4.post1", gpu="V100-SXM2-16GB", tensor_parallel_size=2,
        gpu_memory_utilization=0.9, max_model_len=40000, dtype="float16", engine_args={"enable_chunked_prefill": False},
    )  # fmt: skip
    check(found, {"weights": 7.51, "activation": 2.53, "cache": 3.76})


def test_sorting_sampler_of_a_large_vocabulary() -> None:
    """vllm#21489: gemma-3-4b, 1,024 sequences, 38 bytes for each of 262,208 entries."""
    found = estimate(
        "google/gemma-3-4b-it",
        framework_version="0.10.2",
        gpu="B200-SXM",
        max_num_seqs=1024,
        max_num_batched_tokens=16384,
    )
    check(found, {"weights": 8.58, "activation": 9.96})


def test_second_model_runner_copies_logits_once() -> None:
    """vllm#48601: Qwen3.6-27B (the dimensions of Qwen3.5-27B) at TP 4, 1.54 GiB where the first runner takes twice that."""
    facts = {
        "framework_version": "0.25.0",
        "gpu": "H100-SXM",
        "tensor_parallel_size": 4,
        "gpu_memory_utilization": 0.92,
    }
    second = estimate("Qwen/Qwen3.5-27B", **facts, quantization="fp8", engine_args={"VLLM_USE_V2_MODEL_RUNNER": 1})
    check(second, {"weights": 7.39, "activation": 1.54, "cache": 63.25})
    first = estimate("Qwen/Qwen3.5-27B", **facts, quantization="fp8", engine_args={"VLLM_USE_V2_MODEL_RUNNER": 0})
    assert first.serving is not None and first.serving.activation_peak is not None
    assert first.serving.activation_peak / GIB > 3.0


def test_recurrent_layers_share_the_pool() -> None:
    """Qwen3.6-35B-A3B of 0.24: blocks of 2,096 tokens hold one state; two of them a sequence and group."""
    found = estimate(
        "nvidia/Qwen3.6-35B-A3B-NVFP4", framework_version="0.24.0", gpu="RTX-5090", max_model_len=131072, max_num_seqs=1,
        max_num_batched_tokens=8192, kv_cache_dtype="fp8", gpu_memory_utilization=0.92,
        engine_args={"kv_cache_memory_bytes": int(5.98 * GIB)},
    )  # fmt: skip
    assert found.serving is not None and found.serving.kv_tokens is not None
    assert found.serving.max_concurrency == pytest.approx(4.33, abs=0.01)
    assert found.serving.kv_tokens.expected == pytest.approx(567978, rel=0.002)
