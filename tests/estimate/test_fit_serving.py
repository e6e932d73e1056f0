"""What would fit of servers."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import architecture_from_config
from cfglint.estimate import estimate
from cfglint.estimate.fit import fit
from cfglint.estimate.fit.serving import tensor_sizes
from cfglint.jobs.facts import CatalogueOrigin, SettingOrigin
from cfglint.jobs.job import Hardware, ModelFacts, ServingJob, with_facts

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN_7B: dict[str, Any] = {
    **LLAMA_8B, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
    "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064,
}  # fmt: skip


def job_of(config: dict[str, Any], gpu: str | None, gpus: int = 1, **facts: Any) -> ServingJob:
    job = ServingJob("test")
    for name, value in {"framework": "vllm", "framework_version": "0.19.0", **facts}.items():
        job.state(name, value, SettingOrigin("test", name))
    job.model = ModelFacts("test/model", architecture_from_config(config), "catalogue", CatalogueOrigin("test"))
    if gpu is not None:
        job.hardware = Hardware(find_accelerators(gpu), gpu, gpus, 1, None)
    return job


def test_the_longest_context_fits_and_the_next_does_not() -> None:
    job = job_of(LLAMA_8B, "L4", max_model_len=131072, gpu_memory_utilization=0.85)
    found = fit(job)
    assert found.base.memory.verdict == "kv-too-small"
    length = found.max_model_len
    assert length is not None and 8192 < length.fits <= length.expected < 131072
    for tokens, verdicts in (
        (length.fits, ("fits",)), (length.fits + 64, ("tight",)), (length.expected, ("fits", "tight")),
        (length.expected + 64, ("likely-oom", "kv-too-small")),
    ):  # fmt: skip
        assert estimate(with_facts(job, max_model_len=tokens)).memory.verdict in verdicts, tokens


def test_a_length_that_is_tight_for_other_reasons() -> None:
    found = fit(job_of(LLAMA_8B, "L4", max_model_len=131072))
    cache, length = found.base.serving, found.max_model_len
    assert cache is not None and cache.kv_tokens is not None and length is not None
    assert length.fits == pytest.approx(cache.kv_tokens.low, abs=128)
    assert length.expected == pytest.approx(cache.kv_tokens.expected, abs=128)


def test_the_length_and_the_ranks_that_fit_are_proposed() -> None:
    found = fit(job_of(LLAMA_8B, "L4", gpus=2, max_model_len=131072))
    proposed = {name: value for change in found.changes for name, value in change.facts.items()}
    assert found.max_model_len is not None
    assert proposed["max_model_len"] == found.max_model_len.fits
    assert proposed["tensor_parallel_size"] == 2
    assert all(change.verdict in ("fits", "tight") for change in found.changes if "max_model_len" in change.facts)


def test_a_model_that_fits_whole_is_capped_by_its_own_limit() -> None:
    found = fit(job_of(LLAMA_8B, "H100-SXM"))
    assert found.max_model_len is not None
    assert found.max_model_len.fits == found.model_limit == 131072
    assert found.tensor_parallel is not None and found.tensor_parallel.facts == {"tensor_parallel_size": 1}


def test_ranks_divide_the_heads() -> None:
    assert tensor_sizes(job_of(LLAMA_8B, None)) == [1, 2, 4, 8, 16, 32]
    assert tensor_sizes(job_of(QWEN_7B, None)) == [1, 2, 4]


def test_fewer_ranks_than_stated_are_seen() -> None:
    found = fit(job_of(LLAMA_8B, "H100-SXM", gpus=8, tensor_parallel_size=8, max_model_len=8192))
    assert found.tensor_parallel is not None and found.tensor_parallel.facts == {"tensor_parallel_size": 1}
    (stated,) = [on for on in found.accelerators if on.stated]
    assert stated.gpus == 1


def test_without_an_accelerator_the_others_are_tried() -> None:
    found = fit(job_of(LLAMA_8B, None, max_model_len=8192))
    assert found.missing == ("gpu",)
    assert {on.gpu: on.gpus for on in found.accelerators}["H100-SXM"] == 1
    assert found.max_model_len is None and not found.changes


def test_an_engine_without_a_memory_model_is_named() -> None:
    found = fit(job_of(LLAMA_8B, "H100-SXM", framework="kserve"))
    assert found.missing == ("memory model of kserve",)
    assert not found.accelerators


def test_each_engine_answers() -> None:
    for engine in ("vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llama.cpp"):
        found = fit(job_of(LLAMA_8B, "H100-SXM", framework=engine, framework_version=None, max_model_len=8192))
        assert found.fits, engine
        assert found.max_model_len is not None and found.max_model_len.fits >= 8192, engine
        assert any(on.stated and on.gpus == 1 for on in found.accelerators), engine


@pytest.mark.parametrize("engine", ["sglang", "lmdeploy"])
def test_the_largest_length_is_bounded_by_the_pool_where_the_engine_starts_all_the_same(engine: str) -> None:
    """SGLang warns and LMDeploy cuts the length: what fits is still what the pool holds, and more ranks hold it all."""
    wide = {**LLAMA_8B, "num_hidden_layers": 96}
    made = fit(job_of(wide, "L40S", framework=engine, framework_version="0.5.9", max_model_len=131072))
    base = made.base.serving
    assert base is not None and base.kv_tokens is not None and made.max_model_len is not None
    assert made.max_model_len.fits <= made.max_model_len.expected <= base.kv_tokens.expected < 131072
    assert made.tensor_parallel is not None
    assert made.tensor_parallel.facts["tensor_parallel_size"] > 1
    for row in made.accelerators:
        serving = row.estimate.serving
        assert serving is not None and serving.kv_tokens is not None
        assert serving.kv_tokens.expected >= 131072


def test_llamacpp_is_offered_a_shorter_context_and_its_own_cache_type() -> None:
    facts = {
        "framework": "llama.cpp",
        "framework_version": "b8000",
        "quantization": "gguf-Q4_K_M",
        "max_model_len": 262144,
    }
    made = fit(job_of({**LLAMA_8B, "max_position_embeddings": 262144}, "RTX-4090", **facts))
    assert not made.fits
    offered = {name: value for change in made.changes for name, value in change.facts.items()}
    assert 65536 < offered["max_model_len"] < 262144
    assert offered.get("kv_cache_dtype", "q8_0") == "q8_0"


@pytest.mark.parametrize(
    ("engine", "name", "value"),
    [("vllm", "kv_cache_dtype", "fp8"), ("sglang", "kv_cache_dtype", "fp8_e4m3"), ("tgi", "kv_cache_dtype", "fp8_e4m3fn"), ("lmdeploy", "quant_policy", 8)],
)  # fmt: skip
def test_a_cache_of_eight_bits_by_the_engines_own_name(engine: str, name: str, value: object) -> None:
    from cfglint.estimate.serving import serving_levers

    job = job_of(LLAMA_8B, "L40S", framework=engine, framework_version="0.9.2" if engine == "lmdeploy" else "3.3.0")
    levers = {lever[0]: lever for lever in serving_levers(job)}
    assert levers[name][1] == value
    assert "holds" in levers[name][3]
