"""Whether a server starts: what stands beside the requested share, what engines do with a length that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.families import MODULES
from cfglint.catalog.models import architecture_of, find_model
from cfglint.estimate.result import Estimate
from cfglint.estimate.serving import estimate_serving
from cfglint.estimate.serving.graphs import capture_sizes
from cfglint.estimate.serving.model_source import served_model, without_format
from cfglint.estimate.serving.precision import FP4_EXPERT_BITS, checkpoint_scheme
from cfglint.estimate.serving.quantized import scheme_from_name
from cfglint.estimate.serving.versions import engine_laws, read_version
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.job import Hardware, ServingJob
from cfglint.jobs.models import ModelSearch

GIB = 2**30
SEARCH = ModelSearch(Path(__file__).parent, {})


def job_of(model: str, **facts: Any) -> ServingJob:
    job = ServingJob("test")
    for name, value in {"framework": "vllm", "model_id": model, **facts}.items():
        job.state(name, value, SettingOrigin("test", name))
    gpu = facts.get("gpu")
    if gpu is not None:
        job.hardware = Hardware(find_accelerators(gpu), gpu, None, None, None)
    job.model = SEARCH.find(job)
    return job


def estimate(model: str, **facts: Any) -> Estimate:
    return estimate_serving(job_of(model, **facts))


def on_h100(model: str, **facts: Any) -> Estimate:
    given = {"framework_version": "0.19.0", "gpu": "H100-SXM", "gpu_memory_utilization": 0.95, "max_model_len": 8192}
    return estimate(model, **{**given, **facts})


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({}, "likely-oom"),
        ({"tensor_parallel_size": 2}, "likely-oom"),
        ({"tensor_parallel_size": 2, "gpu_memory_utilization": 0.9}, "fits"),
    ],
)
def test_warming_up_the_sampler_beside_graphs(facts: dict[str, Any], verdict: str) -> None:
    """gpt-oss-20b at 0.95 ends with "out of memory when warming up sampler with 1024 dummy requests"; at 0.9 it starts."""
    assert on_h100("openai/gpt-oss-20b", **facts).memory.verdict == verdict


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", 2),
        ("Qwen/Qwen2.5-72B-Instruct", 2),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4),
        ("meta-llama/Llama-3.1-8B-Instruct", 1),
    ],
)
def test_servers_that_started_at_095_are_not_said_to_fail(model: str, size: int) -> None:
    assert on_h100(model, tensor_parallel_size=size, gpus_per_node=size).memory.verdict in ("fits", "tight")


def test_graphs_of_families_that_capture_more() -> None:
    """1.84 GiB at TP 1 and 1.55 at TP 2 (0.19): 83 sizes up to 1,024 instead of 51 up to 512."""
    one, two = on_h100("openai/gpt-oss-20b"), on_h100("openai/gpt-oss-20b", tensor_parallel_size=2)
    assert one.serving is not None and two.serving is not None
    assert one.serving.graph is not None and two.serving.graph is not None
    assert one.serving.graph / GIB == pytest.approx(1.84, rel=0.03)
    assert two.serving.graph / GIB == pytest.approx(1.55, rel=0.03)


@pytest.mark.parametrize(
    ("largest", "coarse", "count"), [(512, 256, 51), (1024, 256, 83), (512, None, 67), (256, 256, 35), (4, 256, 3)]
)
def test_capture_sizes(largest: int, coarse: int | None, count: int) -> None:
    assert capture_sizes(largest, coarse) == count


def test_the_first_line_of_a_pipeline_is_the_lightest_stage() -> None:
    """Llama-3.1-8B in four stages logs 3.28 GiB first; the stages with embedding and head hold 4.26."""
    made = on_h100("meta-llama/Llama-3.1-8B-Instruct", pipeline_parallel_size=4)
    assert made.serving is not None and made.serving.weights is not None
    assert made.serving.weights / GIB == pytest.approx(3.28, abs=0.01)
    weights = next(part for part in made.memory.components if part.name == "weights")
    assert weights.bytes / GIB == pytest.approx(4.26, abs=0.01)
    assert any("4.26, 3.28, 3.28, 4.26 GiB" in text for text in made.assumptions)


def test_experts_in_the_format_that_the_config_states() -> None:
    bits = {}
    for name in ("DeepSeek-V4-Flash", "DeepSeek-V4-Flash-Base", "DeepSeek-V4-Flash-0731"):
        model = find_model(f"deepseek-ai/{name}")
        assert model is not None
        scheme = checkpoint_scheme(architecture_of(model))
        assert scheme is not None and scheme.bits == pytest.approx(8, abs=0.01)
        bits[name] = scheme.expert_bits
    assert bits == {
        "DeepSeek-V4-Flash": FP4_EXPERT_BITS,
        "DeepSeek-V4-Flash-Base": None,
        "DeepSeek-V4-Flash-0731": FP4_EXPERT_BITS,
    }


def test_deepseek_v4_pro_on_sglang() -> None:
    """InferenceX#2128: 125.65 GiB a rank at TP 8, more than 0.88 of an H200; the draft layer adds 3 GiB."""
    facts = {
        "framework": "sglang", "framework_version": "0.5.15", "gpu": "H200", "tensor_parallel_size": 8, "mem_fraction_static": 0.88,
    }  # fmt: skip
    plain = estimate("deepseek-ai/DeepSeek-V4-Pro", **facts)
    drafted = estimate("deepseek-ai/DeepSeek-V4-Pro", **facts, speculative="nextn")
    assert plain.serving is not None and drafted.serving is not None
    assert plain.serving.weights is not None and drafted.serving.weights is not None
    assert plain.serving.weights / GIB == pytest.approx(125.65, rel=0.02)
    assert drafted.serving.weights / GIB == pytest.approx(128.72, rel=0.02)
    assert plain.memory.verdict == drafted.memory.verdict == "likely-oom"


@pytest.mark.parametrize(
    ("framework", "version", "length", "verdict"),
    [
        ("sglang", "0.5.9", 120000, "tight"),
        ("lmdeploy", "0.9.0", 120000, "tight"),
        ("tgi", "2.4.0", 120000, "kv-too-small"),
        ("vllm", "0.19.0", 120000, "kv-too-small"),
        ("vllm", "0.19.0", 4096, "fits"),
    ],
)
def test_a_length_that_the_pool_does_not_hold(framework: str, version: str, length: int, verdict: str) -> None:
    """SGLang and LMDeploy start and refuse or cut longer requests; vLLM and TGI end."""
    facts = {"framework": framework, "framework_version": version, "gpu": "RTX 3090", "max_model_len": length}
    assert estimate("meta-llama/Llama-3.1-8B-Instruct", **facts).memory.verdict == verdict


def test_an_unstated_length_of_an_unknown_version_is_no_final_verdict() -> None:
    facts = {"gpu": "RTX 3090"}
    model = "meta-llama/Llama-3.1-8B-Instruct"
    assert estimate(model, framework_version="0.19.0", **facts).memory.verdict == "kv-too-small"
    assert estimate(model, framework_version=">=0.17", **facts).memory.verdict == "likely-oom"
    assert estimate(model, framework_version=">=0.17", max_model_len=131072, **facts).memory.verdict == "kv-too-small"


@pytest.mark.parametrize(
    ("name", "base", "bits"),
    [
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "Llama-3.2-1B-Instruct", 4.127),
        ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "Qwen3-14B", 4.127),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen2.5-7B-Instruct", 8.1875),
        ("RedHatAI/Qwen3-8B-NVFP4A16", "Qwen3-8B", 4.5),
        ("cpatonn/Qwen3-8B-AWQ-8bit", "Qwen3-8B", 8.1875),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-KV", "Meta-Llama-3.1-8B-Instruct", 8),
        ("Intel/Qwen3-8B-int4-AutoRound-inc", "Qwen3-8B", 4.15625),
    ],
)
def test_formats_in_names(name: str, base: str, bits: float) -> None:
    found, label = without_format(name)
    assert found == base and label is not None
    scheme = scheme_from_name(label)
    assert scheme is not None and scheme.bits == bits


@pytest.mark.parametrize(
    ("model", "size", "logged"),
    [
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", 1, 0.9786),  # oumi#1223
        ("meta-llama/Llama-3.2-1B-Instruct", 1, 2.3185),  # oumi#1223
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", 1, 67.7229),  # vllm#12569
        (
            "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8",
            8,
            57.752,
        ),  # vllm#6746: attention and two layers stay in 16 bits
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", 1, 5.38),
        ("Qwen/Qwen3.8-27B-FP8", 2, 14.28),  # vllm-project/recipes#810
    ],
)
def test_logged_weights_of_quantized_checkpoints(model: str, size: int, logged: float) -> None:
    made = estimate(model, framework_version="0.19.0", gpu="H200", tensor_parallel_size=size)
    assert made.serving is not None and made.serving.weights is not None
    assert made.serving.weights / GIB == pytest.approx(logged, rel=0.02)


def test_a_format_without_its_bits_leaves_the_verdict_open() -> None:
    made = estimate("unsloth/Qwen3-8B-GGUF", framework_version="0.19.0", gpu="L4")
    assert made.memory.verdict == "unknown" and "quantization" in made.memory.missing


def test_models_by_their_name_alone() -> None:
    found = served_model(job_of("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8"))
    assert found.id == "meta-llama/Llama-3.3-70B-Instruct" and found.format == "quantized.w8a8"
    assert served_model(job_of("someone/No-Such-Model-AWQ")).architecture is None


def test_the_cache_of_a_vision_model_whose_text_part_is_known() -> None:
    """Kimi-VL keeps a latent cache: 41.32 GiB on one H100 and 54.78 on each of two, neither divided by TP."""
    for size, logged, tokens in ((1, 41.32, 1426368), (2, 54.78, 1890896)):
        made = on_h100("moonshotai/Kimi-VL-A3B-Instruct", tensor_parallel_size=size)
        assert made.serving is not None and made.serving.kv_cache is not None and made.serving.kv_tokens is not None
        assert made.serving.kv_cache.expected / GIB == pytest.approx(logged, rel=0.01)
        assert made.serving.kv_tokens.expected == pytest.approx(tokens, rel=0.01)


def test_a_patch_of_any_number_is_not_newer_than_known() -> None:
    laws = engine_laws("sglang")
    assert not laws.newer_than_known(read_version("0.5.x"))
    assert laws.newer_than_known(read_version("0.9.0"))


def test_a_mixture_of_experts_that_may_be_published_smaller_is_no_final_verdict() -> None:
    """Moonlight's dtype is recalled, so its 29.7 GiB are not certain; a stated dtype makes them so."""
    row = find_model("moonshotai/Moonlight-16B-A3B")
    assert row is not None and not row.native_dtype_sourced
    facts = {"framework_version": "0.19.0", "gpu": "RTX 3090"}
    assert estimate("moonshotai/Moonlight-16B-A3B", **facts).memory.verdict == "likely-oom"
    assert estimate("moonshotai/Moonlight-16B-A3B", **facts, dtype="bfloat16").memory.verdict == "oom"


def test_aliases_published_in_another_format() -> None:
    bits = {}
    for name in ("moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2-Thinking"):
        made = estimate(name, framework_version="0.19.0", gpu="H200", tensor_parallel_size=8)
        assert made.serving is not None and made.serving.weights is not None
        bits[name] = made.serving.weights / GIB
    assert bits["moonshotai/Kimi-K2-Instruct"] == pytest.approx(121, abs=1)
    assert bits["moonshotai/Kimi-K2-Thinking"] == pytest.approx(71, abs=1)


def test_what_a_server_would_take_that_has_no_room_for_a_cache() -> None:
    """405B on one H100: the start fails, and the device would have to hold the weights whole."""
    made = on_h100("meta-llama/Llama-3.1-405B")
    assert made.memory.verdict == "oom" and made.serving is not None and made.serving.weights is not None
    assert made.memory.used is not None and made.memory.allocated is not None and made.serving.kv_cache is not None
    assert made.serving.weights / GIB == pytest.approx(756, abs=1)
    assert made.serving.weights < made.memory.allocated.expected < made.memory.used.expected
    assert made.serving.kv_cache.expected < 0
    assert made.memory.used.low / GIB > 750


@pytest.mark.parametrize("framework", ["vllm", "sglang", "tgi", "trtllm", "lmdeploy"])
def test_heads_that_cannot_be_dealt_out_leave_no_verdict(framework: str) -> None:
    facts = {"framework": framework, "gpu": "H100", "gpus_per_node": 8}
    made = estimate("meta-llama/Llama-3.1-8B", tensor_parallel_size=3, **facts)
    assert made.problems == ["32 attention heads do not divide by tensor_parallel_size 3"]
    assert made.memory.verdict == "unknown" and made.memory.missing == ["tensor_parallel_size"]
    assert estimate("meta-llama/Llama-3.1-8B", tensor_parallel_size=4, **facts).problems == []


def test_attention_split_over_fewer_ranks_than_the_rest() -> None:
    facts = {"framework": "sglang", "gpu": "H100", "gpus_per_node": 8, "tensor_parallel_size": 8}
    args = {"enable_dp_attention": True, "dp_size": 8}
    made = estimate("Qwen/Qwen2.5-7B-Instruct", engine_args=args, **facts)
    assert made.problems == [] and made.memory.verdict == "fits"
    assert estimate("Qwen/Qwen2.5-7B-Instruct", **facts).memory.verdict == "unknown"


def test_a_failure_that_hangs_on_how_an_unknown_family_keeps_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("qwen4_exp", "qwen4_exp_text"):
        monkeypatch.delitem(MODULES, name)
    short = estimate("Qwen/Qwen3.8-Flash-Next", gpu="H200-SXM", tensor_parallel_size=4, max_model_len=900_000)
    assert short.memory.verdict == "unknown"
    assert "how qwen4_exp keeps keys and values: its config.json's class is not known" in short.memory.missing
    heavy = estimate("Qwen/Qwen3.8-Flash-Next", gpu="H200-SXM", tensor_parallel_size=2, max_model_len=32_768)
    assert heavy.memory.verdict == "likely-oom"  # its weights alone exceed two devices
