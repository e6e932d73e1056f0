"""Engine arguments by version."""

from __future__ import annotations

import pytest

from cfglint.catalog.engines import (
    COMPUTED,
    attention_backend,
    engine_argument,
    engine_arguments,
    engine_source,
    environment_known_at,
    environment_names,
    known_at,
    quantization_methods,
    quantization_needs,
    sampled_versions,
    similar_arguments,
    version_key,
)


def test_versions_are_samples() -> None:
    assert sampled_versions("vllm")[0] == "0.4.3" and sampled_versions("vllm")[-1] == "0.33.0"
    assert sampled_versions("sglang")[-1] == "0.5.23"
    assert sampled_versions("tgi") == ()
    assert "0.33.0" in engine_source("vllm")[0] and engine_source("vllm")[1]
    assert len(engine_arguments("vllm")) == 387 and len(engine_arguments("sglang")) == 601


@pytest.mark.parametrize(
    ("engine", "spelled", "name"),
    [
        ("vllm", "--max-model-len", "--max-model-len"),
        ("vllm", "max_model_len", "--max-model-len"),
        ("vllm", "-tp", "--tensor-parallel-size"),
        ("vllm", "--no-enable-prefix-caching", "--enable-prefix-caching"),
        ("sglang", "--tensor-parallel-size", "--tp-size"),
        ("sglang", "--tp", "--tp-size"),
        ("sglang", "mem_fraction_static", "--mem-fraction-static"),
    ],
)
def test_spellings(engine: str, spelled: str, name: str) -> None:
    argument = engine_argument(engine, spelled)
    assert argument is not None and argument.name == name


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("vllm", "--no-max-model-len"),
        ("vllm", "--tensor-serial"),
        ("sglang", "--en"),
        ("tgi", "--model-id"),
        ("vllm", ""),
    ],
)
def test_what_no_version_has(engine: str, name: str) -> None:
    assert engine_argument(engine, name) is None


def test_life_of_a_removed_argument() -> None:
    argument = engine_argument("vllm", "--worker-use-ray")
    assert argument is not None
    assert (argument.since, argument.absent_from, argument.deprecated_in) == (
        "0.4.3",
        "0.8.5.post1",
        ("0.4.3", "0.6.6.post1"),
    )
    versions = ("0.4.2", "0.4.3", "0.6.0", "0.7.0", "0.8.5.post1", "0.9.1", "0.33.0", "1.0")
    known = [known_at("vllm", "--worker-use-ray", version) for version in versions]
    # before the first sample, between samples that differ, and beyond the last nothing is claimed
    assert known == [None, True, True, None, False, False, False, None]
    assert known_at("vllm", "--max-model-len", "1.0") is True
    assert known_at("vllm", "--no-such", "0.33.0") is None
    assert known_at("vllm", "--max-model-len", "latest") is None


def test_defaults_by_version() -> None:
    argument = engine_argument("vllm", "--enable-chunked-prefill")
    assert argument is not None
    assert argument.default_at("0.4.3") is False
    assert argument.default_at("0.6.6.post1") is None
    changed = engine_argument("vllm", "--cuda-graph-sizes")
    assert changed is not None and changed.default_at("0.10.2") is COMPUTED
    static = engine_argument("vllm", "--tensor-parallel-size")
    assert static is not None and static.default == 1 and static.constraint == {"ge": "1"}


def test_choices_and_replacements() -> None:
    dtype = engine_argument("vllm", "--dtype")
    assert dtype is not None and dtype.choices is not None and "bfloat16" in dtype.choices
    old = engine_argument("sglang", "--disable-fast-image-processor")
    assert old is not None and old.replaced_by == "--image-processor-backend"


def test_did_you_mean() -> None:
    assert similar_arguments("vllm", "--max-model-length") == ("--max-model-len",)
    assert similar_arguments("sglang", "--mem-fraction")[0] == "--mem-fraction-static"
    assert similar_arguments("vllm", "--worker-use-rays") == ()  # removed arguments are not offered
    assert similar_arguments("tgi", "--model") == ()


def test_environment_names() -> None:
    assert environment_known_at("vllm", "VLLM_USE_V1", "0.10.2") is True
    assert environment_known_at("vllm", "VLLM_USE_V1", "0.33.0") is False
    assert environment_known_at("vllm", "VLLM_NO_SUCH", "0.33.0") is None
    assert environment_known_at("sglang", "VLLM_USE_V1", "0.5.23") is None
    assert "VLLM_USE_V1" in environment_names("vllm") and environment_names("sglang") == frozenset()


def test_quantization_needs() -> None:
    fp8 = quantization_needs("fp8", "0.33.0")
    assert fp8 is not None and fp8.capability == (7, 5) and fp8.dtypes == ("bfloat16", "float16")
    first = quantization_needs("fp8", "0.4.3")
    assert first is not None and first.capability == (8, 9)
    between = quantization_needs("fp8", "0.5.0")
    assert between is not None and between.version == "0.4.3 to 0.6.6.post1"
    later = quantization_needs("fp8", "0.6.6.post1")
    assert later is not None and later.capability is not None and between.capability == min((8, 9), later.capability)
    assert quantization_needs("squeezellm", "0.33.0") is None
    assert quantization_needs("fp8", "0.1.0") is None
    assert "squeezellm" in quantization_methods("0.4.3") and "squeezellm" not in quantization_methods()


def test_attention_backends() -> None:
    flash = attention_backend("flash_attn")
    assert flash is not None and flash.capability == (8, 0) and "fp8" in flash.kv_cache_dtypes
    assert attention_backend("NONE") is None and attention_backend("version") is None


def test_version_order() -> None:
    ordered = ["0.4.3", "0.8.5rc1", "0.8.5", "0.8.5.post1", "0.10.2", "v0.12.0", "0.12.0+cu129", "1"]
    keys = [version_key(version) for version in ordered]
    assert keys == sorted(keys) and keys[5] == keys[6]
    assert version_key("latest") == ()


def test_choices_that_are_computed_are_not_known() -> None:
    for name in ("--log-level", "--mm-processor-device"):
        argument = engine_argument("vllm", name)
        assert argument is not None
        assert argument.choices is None
