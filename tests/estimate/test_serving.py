"""The serving estimator against figures printed in engines' start-up logs (sources in the data files)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import architecture_from_config
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.serving import estimate_serving, serving_levers
from cfglint.estimate.serving.kv_layout import CacheGroup, KvLayout, cache_dtype_bytes
from cfglint.estimate.serving.model_source import without_format
from cfglint.estimate.serving.parallel import pipeline_stages
from cfglint.estimate.serving.quantized import scheme_from_config, scheme_from_name
from cfglint.estimate.serving.settings_in_force import read_number
from cfglint.estimate.serving.verdicts import cache_verdict
from cfglint.estimate.serving.versions import engine_laws, read_version
from cfglint.estimate.serving.weights import allocated
from cfglint.estimate.verdict import verdict_for
from cfglint.jobs.facts import UNKNOWN, CatalogueOrigin, SettingOrigin
from cfglint.jobs.job import Hardware, ModelFacts, ServingJob, with_facts

GIB = 2**30

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN_7B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def job_of(config: dict[str, Any], **facts: Any) -> ServingJob:
    job = ServingJob("test")
    for name, value in facts.items():
        job.state(name, value, SettingOrigin("test", name))
    job.model = ModelFacts("test/model", architecture_from_config(config), "catalogue", CatalogueOrigin("test"))
    gpu = job.value("gpu")
    if gpu is not None:
        job.hardware = Hardware(find_accelerators(gpu), gpu, facts.get("gpus_per_node"), None, None)
    return job


def vllm(config: dict[str, Any], **facts: Any) -> Estimate:
    """As llm-d-planner's runs of 0.19 on one kind of H100 were started."""
    given = {"gpu": "H100-SXM", "framework_version": "0.19.0", "gpu_memory_utilization": 0.95, "max_model_len": 8192}
    return estimate_serving(job_of(config, framework="vllm", **{**given, **facts}))


def gib(value: float | None) -> float:
    assert value is not None
    return value / GIB


def kv(estimate: Estimate) -> tuple[float, float]:
    serving = estimate.serving
    assert serving is not None and serving.kv_cache is not None and serving.kv_tokens is not None
    return serving.kv_cache.expected / GIB, serving.kv_tokens.expected


# Measured: weights, activation peak, KV GiB, KV tokens (llm-d-planner PR 205, vLLM 0.19.0).
LOGS: list[tuple[dict[str, Any], dict[str, Any], tuple[float, float, float, int]]] = [
    (LLAMA_8B, {}, (14.99, 1.89, 58.11, 476016)),
    (LLAMA_8B, {"kv_cache_dtype": "fp8"}, (14.99, 1.89, 58.11, 952032)),
    (LLAMA_8B, {"dtype": "float32"}, (29.98, 2.21, 42.8, 175296)),
    (LLAMA_8B, {"quantization": "fp8"}, (8.49, 1.89, 64.61, 529248)),
    (LLAMA_8B, {"tensor_parallel_size": 2}, (7.51, 1.89, 63.76, 1044688)),
    (LLAMA_8B, {"tensor_parallel_size": 4}, (3.77, 1.89, 67.44, 2209792)),
    (QWEN_7B, {}, (14.25, 2.21, 58.53, 1096000)),
    (QWEN_7B, {"tensor_parallel_size": 2}, (7.12, 2.21, 63.84, 2390592)),
    (QWEN_7B, {"tensor_parallel_size": 4}, (3.55, 2.21, 67.34, 5043280)),
]


@pytest.mark.parametrize(("config", "facts", "measured"), LOGS)
def test_vllm_start_up_logs(
    config: dict[str, Any], facts: dict[str, Any], measured: tuple[float, float, float, int]
) -> None:
    estimate = vllm(config, **facts)
    assert estimate.serving is not None and estimate.serving.kv_cache is not None
    weights, activation, cache, tokens = measured
    assert gib(estimate.serving.weights) == pytest.approx(weights, rel=0.003)
    assert gib(estimate.serving.activation_peak) == pytest.approx(activation, rel=0.02)
    assert kv(estimate) == (pytest.approx(cache, rel=0.005), pytest.approx(tokens, rel=0.005))
    assert estimate.serving.kv_cache.low / GIB <= cache <= estimate.serving.kv_cache.high / GIB
    assert estimate.memory.verdict == "fits"


def test_cache_does_not_depend_on_length_in_v1() -> None:
    assert kv(vllm(LLAMA_8B, max_model_len=2048)) == kv(vllm(LLAMA_8B, max_model_len=32768))


def test_longer_context_shrinks_the_cache_of_v0() -> None:
    """vllm#10517: 3.81 GiB at 20000 tokens, 2.89 at 29000, which then does not hold one request."""
    given = {"gpu": "RTX-3090", "framework_version": "0.6.x", "gpu_memory_utilization": 0.9}
    short = vllm(LLAMA_8B, **{**given, "max_model_len": 20000})
    long = vllm(LLAMA_8B, **{**given, "max_model_len": 29000})
    assert kv(short)[0] == pytest.approx(3.81, rel=0.02)
    assert kv(long)[0] == pytest.approx(2.89, rel=0.02)
    assert short.memory.verdict == "fits"
    assert long.memory.verdict in ("kv-too-small", "likely-oom")


def test_the_smallest_stage_decides_with_pipeline_parallelism() -> None:
    estimate = vllm(LLAMA_8B, pipeline_parallel_size=2)
    assert kv(estimate)[1] == pytest.approx(1075312, rel=0.005)


def test_sampler_of_older_versions_takes_more() -> None:
    """Sorting all logits: 4.76 GiB before the Triton kernel of 0.17, 1.89 since."""
    old = vllm(LLAMA_8B, framework_version="0.16.0")
    assert old.serving is not None
    assert gib(old.serving.activation_peak) == pytest.approx(4.76, rel=0.02)


def test_graphs_come_out_of_the_budget_since_0_21() -> None:
    before, after = vllm(LLAMA_8B, framework_version="0.20.0"), vllm(LLAMA_8B, framework_version="0.21.0")
    assert after.serving is not None and after.serving.graph is not None
    assert kv(before)[0] - kv(after)[0] > after.serving.graph / GIB * 0.9


def test_default_utilization_follows_the_version() -> None:
    old = vllm(LLAMA_8B, gpu_memory_utilization=None, framework_version="0.19.0")
    new = vllm(LLAMA_8B, gpu_memory_utilization=None, framework_version="0.25.0")
    assert "0.9 ×" in old.memory.components[-1].formula
    assert "0.92 ×" in new.memory.components[-1].formula


def test_default_batch_follows_the_gpu() -> None:
    """1,024 sequences from 70 GiB on, but not on an A100."""
    on_h100 = vllm(LLAMA_8B).memory.components[1].inputs
    on_a100 = vllm(LLAMA_8B, gpu="A100-SXM4-80GB").memory.components[1].inputs
    assert {i.fact: i.value for i in on_h100} == {"max_num_seqs": "1024", "max_num_batched_tokens": "8192"}
    assert {i.fact: i.value for i in on_a100} == {"max_num_seqs": "256", "max_num_batched_tokens": "2048"}
    assert all(i.origin == "vllm 0.19.0 default" for i in on_h100)


def test_unset_length_of_a_huge_context_model() -> None:
    estimate = vllm(LLAMA_8B, gpu="RTX-3090", max_model_len=None, gpu_memory_utilization=0.9)
    assert estimate.memory.verdict == "kv-too-small"
    assert estimate.serving is not None and estimate.serving.max_model_len is not None
    assert 40_000 < estimate.serving.max_model_len < 48_000


def test_auto_length_fits_itself() -> None:
    assert vllm(LLAMA_8B, gpu="RTX-3090", max_model_len="auto", gpu_memory_utilization=0.9).memory.verdict == "fits"


def test_weights_that_do_not_fit() -> None:
    big = {
        **LLAMA_8B,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
    }
    estimate = vllm(big)
    assert estimate.memory.verdict == "oom"
    assert estimate.serving is not None and gib(estimate.serving.weights) == pytest.approx(131.5, rel=0.01)


def test_runtime_quantization_loads_whole_weights_first() -> None:
    estimate = vllm(LLAMA_8B, quantization="fp8")
    assert gib(estimate.memory.phases["load"]) == pytest.approx(14.96, rel=0.01)


def test_stated_cache_bytes_skip_the_profile() -> None:
    estimate = vllm(LLAMA_8B, engine_args={"kv-cache-memory-bytes": 4 * GIB})
    assert kv(estimate) == (4.0, 32768)


def test_stated_blocks_override_the_profile() -> None:
    assert kv(vllm(LLAMA_8B, engine_args={"num_gpu_blocks_override": 100}))[1] == 1600


def test_lora_slots_take_room() -> None:
    without, with_slots = vllm(LLAMA_8B), vllm(LLAMA_8B, enable_lora=True, max_loras=4, max_lora_rank=64)
    # q, k, v, o, gate, up, down of 32 layers: 4 slots × rank 64 × (inputs + outputs) × 2 bytes; the embeddings' too
    sides = 32 * (8192 + 2 * 5120 + 8192 + 3 * 18432) + 2 * (128256 + 4096)
    assert kv(without)[0] - kv(with_slots)[0] == pytest.approx(4 * 64 * sides * 2 / GIB, rel=0.01)


def test_missing_gpu_is_named() -> None:
    estimate = estimate_serving(job_of(LLAMA_8B, framework="vllm", framework_version="0.19.0"))
    assert estimate.memory.verdict == "unknown"
    assert estimate.memory.missing == ["gpu"]
    assert estimate.serving is not None and gib(estimate.serving.weights) == pytest.approx(14.99, rel=0.003)


def test_missing_model_is_named() -> None:
    job = ServingJob("test")
    job.state("framework", "vllm", SettingOrigin("test", "framework"))
    job.state("model_id", "nobody/unheard-of", SettingOrigin("test", "model"))
    job.model = ModelFacts(
        "nobody/unheard-of", None, "", CatalogueOrigin(""), problem="nobody/unheard-of is not in the catalogue"
    )
    estimate = estimate_serving(job)
    assert estimate.memory.verdict == "unknown"
    assert estimate.memory.missing == ["nobody/unheard-of is not in the catalogue"]


def test_unknown_engine_is_named() -> None:
    assert estimate_serving(ServingJob("test")).memory.missing == ["framework"]


def test_variants_that_disagree_give_no_verdict() -> None:
    """An "A100" has 40 or 80 GiB: 27 GiB of weights with a 32k request fit one of them only."""
    wide = {**LLAMA_8B, "num_hidden_layers": 64}
    estimate = vllm(wide, gpu="A100", max_model_len=65536, gpu_memory_utilization=0.9)
    assert estimate.memory.verdict == "unknown"
    assert "A100-SXM4-40GB" in estimate.memory.missing[0]


ENGINES = ("vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llama.cpp")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_newer_version_of_any_engine_is_said_and_lowers_confidence(engine: str) -> None:
    """The cache's interval is wider, and no failure is certain but one of weights that exceed the device."""
    newest = engine_laws(engine).newest
    given = {"framework": engine, "gpu": "H100-SXM", "max_model_len": 8192, "quantization": "w8a8"}
    known = estimate_serving(job_of(LLAMA_8B, **given, framework_version="b10000" if "." in engine else newest))
    later = estimate_serving(job_of(LLAMA_8B, **given, framework_version="b99999" if "." in engine else "99.0.0"))
    assert not any("newer than any known" in text for text in known.assumptions)
    assert any(f"newer than any known here: laws of {newest} taken" in text for text in later.assumptions)
    assert known.serving is not None and later.serving is not None
    assert known.serving.kv_cache is not None and later.serving.kv_cache is not None
    assert (
        later.serving.kv_cache.high - later.serving.kv_cache.low
        > known.serving.kv_cache.high - known.serving.kv_cache.low
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_newer_version_leaves_a_failure_open_unless_weights_alone_exceed_the_device(engine: str) -> None:
    version = "b99999" if "." in engine else "99.0.0"
    heavy = {"framework": engine, "framework_version": version, "max_model_len": 4096}
    assert estimate_serving(job_of(LLAMA_8B, **heavy, gpu="T4")).memory.verdict != "kv-too-small"
    wide = {**LLAMA_8B, "num_hidden_layers": 320}
    assert estimate_serving(job_of(wide, **heavy, gpu="A100-SXM4-80GB")).memory.verdict == "oom"


def test_every_law_names_its_source() -> None:
    for engine in ENGINES:
        laws = engine_laws(engine)
        for name, rows in laws._laws.items():
            assert all(len(law.source) > 20 for _, _, law in rows), (engine, name)
        assert all(len(constant["source"]) > 20 for constant in laws._constants.values()), engine


def test_newer_version_than_known_is_said() -> None:
    estimate = vllm(LLAMA_8B, framework_version="0.99.0")
    assert any("newer than any known" in text for text in estimate.assumptions)
    plain = vllm(LLAMA_8B, framework_version="0.30.0")
    assert estimate.serving is not None and plain.serving is not None
    assert estimate.serving.kv_cache is not None and plain.serving.kv_cache is not None
    width = estimate.serving.kv_cache.high - estimate.serving.kv_cache.low
    assert width > plain.serving.kv_cache.high - plain.serving.kv_cache.low


def test_nonsense_settings_give_an_answer_not_a_traceback() -> None:
    nonsense = {
        "tensor_parallel_size": "many",
        "max_num_seqs": [],
        "gpu_memory_utilization": {},
        "max_model_len": -5,
        "block_size": True,
    }
    memory = vllm(LLAMA_8B, **nonsense).memory
    assert memory.verdict == "unknown"
    assert memory.missing == ["max_model_len", "max_num_seqs", "gpu_memory_utilization", "tensor_parallel_size"]


def test_values_not_known_here_leave_the_verdict_open() -> None:
    job = job_of(LLAMA_8B, framework="vllm", framework_version="0.19.0", gpu="RTX-3090")
    job.state("max_model_len", UNKNOWN, SettingOrigin("test", "max_model_len"))
    assert estimate_serving(job).memory.missing == ["max_model_len"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("32k", 32000), ("32K", 32768), ("8192", 8192), (1e3, 1000), ("1.5k", 1500), ("k", None), (True, None), ([], None), ("nan", None)],
)  # fmt: skip
def test_numbers_as_vllm_reads_them(text: Any, number: float | None) -> None:
    assert read_number(text) == number


def test_components_name_their_inputs() -> None:
    weights = vllm(LLAMA_8B, tensor_parallel_size=2).memory.components[0]
    assert weights.name == "weights"
    assert [(i.fact, i.value, i.origin) for i in weights.inputs] == [
        ("tensor_parallel_size", "2", "test (tensor_parallel_size)")
    ]


# -- other engines -----------------------------------------------------------------------------------------------


def test_sglang_fraction_is_of_memory_free_at_start() -> None:
    """SGLang 0.4.1 log of an 8B Llama on an H100: 54.26 GiB, 444,500 tokens."""
    estimate = estimate_serving(job_of(LLAMA_8B, framework="sglang", framework_version="0.4.1", gpu="H100-SXM"))
    assert kv(estimate) == (pytest.approx(54.26, rel=0.01), pytest.approx(444500, rel=0.01))


def test_sglang_default_fraction_at_tensor_parallel_four() -> None:
    """SGLang 0.4.3 log of a 32B Qwen2.5 on four 24 GB cards: 0.85 × 21.6 GiB less 15.5, 46,611 tokens."""
    qwen_32b = {
        **QWEN_7B, "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64, "num_attention_heads": 40,
        "num_key_value_heads": 8,
    }  # fmt: skip
    job = job_of(qwen_32b, framework="sglang", framework_version="0.4.3", gpu="A10G", tensor_parallel_size=4)
    assert kv(estimate_serving(job))[0] == pytest.approx(2.84, rel=0.10)


def test_sglang_total_tokens_cap_the_pool() -> None:
    job = job_of(
        LLAMA_8B, framework="sglang", framework_version="0.5.8", gpu="H100-SXM", engine_args={"max_total_tokens": 20480}
    )
    assert kv(estimate_serving(job))[1] == 20480


def test_sglang_default_fraction_by_formula() -> None:
    """sglang#10975 on 79.18 GiB: 1 - max(512 + 12288 + 512 + 128, 10240) / 81080 MiB."""
    job = job_of(LLAMA_8B, framework="sglang", framework_version="0.5.8", gpu="H100-SXM")
    assert "0.834 ×" in estimate_serving(job).memory.components[-1].formula


def test_sglang_weights_above_the_fraction() -> None:
    job = job_of(LLAMA_8B, framework="sglang", framework_version="0.5.8", gpu="RTX-3090", mem_fraction_static=0.5)
    assert estimate_serving(job).memory.verdict == "oom"


def test_tgi_long_prompt_does_not_fit_its_warm_up() -> None:
    """TGI before 3.0 prefills the longest prompt in one go (text-generation-inference#2301)."""
    job = job_of(
        LLAMA_8B, framework="tgi", framework_version="2.2.0", gpu="H100-SXM", engine_args={"max-input-length": 131072}
    )
    assert estimate_serving(job).memory.verdict in ("oom", "likely-oom")
    job = job_of(
        LLAMA_8B, framework="tgi", framework_version="2.2.0", gpu="H100-SXM", engine_args={"max-input-length": 2048}
    )
    assert estimate_serving(job).memory.verdict == "fits"


def test_trtllm_engine_buffers_follow_the_build() -> None:
    """TensorRT-LLM#401: a batch of 192 × 2,048 tokens does not fit 40 GiB."""
    given = {"max_batch_size": 192, "max_input_len": 2048}
    job = job_of(LLAMA_8B, framework="trtllm", framework_version="0.5", gpu="A100-SXM4-40GB", engine_args=given)
    assert estimate_serving(job).memory.verdict in ("oom", "likely-oom")


def test_lmdeploy_share_is_of_what_weights_leave() -> None:
    job = job_of(
        LLAMA_8B,
        framework="lmdeploy",
        framework_version="0.6.0",
        gpu="H100-SXM",
        engine_args={"cache_max_entry_count": 0.5},
    )
    assert kv(estimate_serving(job))[0] == pytest.approx(0.5 * (79.18 - 0.5 - 14.99), rel=0.01)


def test_llamacpp_cache_is_context_times_cells() -> None:
    job = job_of(
        LLAMA_8B,
        framework="llama.cpp",
        gpu="RTX-3090",
        quantization="gguf-Q4_K_M",
        max_model_len=32768,
        engine_args={"ctk": "q8_0", "ctv": "q8_0"},
    )
    estimate = estimate_serving(job)
    # 32 layers × 8 heads × 128 × 2 × 1.0625 bytes × 32,768 tokens
    assert kv(estimate) == (pytest.approx(2.125, rel=1e-6), 32768)
    assert estimate.memory.verdict == "fits"
    assert estimate.serving is not None and gib(estimate.serving.weights) == pytest.approx(4.53, rel=0.02)


# -- levers ------------------------------------------------------------------------------------------------------


def test_levers_say_what_frees_most() -> None:
    job = job_of(LLAMA_8B, framework="vllm", framework_version="0.19.0", gpu="H100-SXM", gpus_per_node=1)
    levers = {name: (value, freed / GIB) for name, value, freed, _ in serving_levers(job)}
    assert levers["max_num_seqs"] == (256, pytest.approx(0.86, abs=0.1))
    assert levers["gpu_memory_utilization"] == (0.95, pytest.approx(0.05 * 79.18, rel=0.01))
    assert levers["kv_cache_dtype"][0] == "fp8"


def test_levers_name_the_length_and_the_parallelism_that_fit() -> None:
    job = job_of(LLAMA_8B, framework="vllm", framework_version="0.19.0", gpu="RTX-3090", gpus_per_node=2)
    levers = {name: value for name, value, _, _ in serving_levers(job)}
    assert levers["tensor_parallel_size"] == 2
    assert levers["max_model_len"] % 1024 == 0
    assert estimate_serving(with_facts(job, max_model_len=levers["max_model_len"])).memory.verdict in (
        "fits",
        "tight",
    )


def test_levers_of_a_job_without_a_gpu() -> None:
    assert serving_levers(job_of(LLAMA_8B, framework="vllm")) == []


# -- parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "release", "exact"),
    [
        ("0.19.0", (0, 19, 0), True), ("0.6.x", (0, 6, 99), False), ("0.2x", (0, 20), False), (">=0.17", (0, 17), False),
        ("==0.11.2", (0, 11, 2), True), ("0.26.1rc1.dev608", (0, 26, 1), True), ("0.25-0.26", (0, 25), False),
        ("b4719", (4719,), True), ("server-cuda-b4719", (4719,), True),
        ("2026-04", None, False), ("<0.9", None, False), ("stage-c", None, False), (None, None, False),
    ],
)  # fmt: skip
def test_versions_as_people_write_them(text: str | None, release: tuple[int, ...] | None, exact: bool) -> None:
    version = read_version(text)
    assert (version.release, version.exact) == (release, exact)


def test_laws_cover_every_version_without_a_gap() -> None:
    for engine in ENGINES:
        laws = engine_laws(engine)
        for name, rows in laws._laws.items():
            assert rows[0][0] == (), name
            assert rows[-1][1] is None, name
            for (_, until, _), (since, _, _) in pairwise(rows):
                assert until == since, name


@pytest.mark.parametrize(
    ("name", "bits"),
    [("fp8", 8), ("w8a8-int8", 8), ("awq-int4", 4.15625), ("gptq", 4.15625), ("nf4", 4.5), ("mxfp4", 4.25), ("gguf-IQ4_XS", 4.25), ("UD-Q2_K", 3.35)],
)  # fmt: skip
def test_bits_of_named_schemes(name: str, bits: float) -> None:
    scheme = scheme_from_name(name)
    assert scheme is not None and scheme.bits == bits


def test_unknown_scheme() -> None:
    assert scheme_from_name("turbo") is None


def test_bits_of_a_checkpoint() -> None:
    block = scheme_from_config({"quant_method": "fp8", "weight_block_size": [128, 128]})
    grouped = scheme_from_config({"quant_method": "gptq", "bits": 4, "group_size": 32})
    packed = scheme_from_config({
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}}},
    })  # fmt: skip
    assert block is not None and block.bits == 8 + 32 / 16384
    assert grouped is not None and grouped.bits == 4 + 16 / 32 + 4 / 32
    assert packed is not None and packed.bits == 4.125


def test_layers_a_checkpoint_leaves_alone() -> None:
    """Of 32 layers the first keeps its attention in 16 bits: 7/4 more bytes for q, k, v and o of that layer."""
    every = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}
    first = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"]}
    whole, less = vllm({**LLAMA_8B, "quantization_config": every}), vllm({**LLAMA_8B, "quantization_config": first})
    assert whole.serving is not None and less.serving is not None
    assert whole.serving.weights is not None and less.serving.weights is not None
    assert less.serving.weights - whole.serving.weights == pytest.approx((4096 + 2 * 1024 + 4096) * 4096)


@pytest.mark.parametrize(
    ("name", "base", "label"),
    [
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", "Llama-3.3-70B-Instruct", "quantized.w8a8"),
        ("RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", "Qwen2.5-7B-Instruct", "fp8-dynamic"),
        ("Qwen/Qwen1.5-7B-Chat-GPTQ-Int4", "Qwen1.5-7B-Chat", "GPTQ-Int4"),
        ("Qwen/Qwen3-8B", "Qwen3-8B", None),
        ("AWQ", "AWQ", None),
    ],
)  # fmt: skip
def test_names_of_quantized_checkpoints(name: str, base: str, label: str | None) -> None:
    assert without_format(name) == (base, label)


def test_pipeline_stages_leave_the_ends_lighter() -> None:
    assert [len(stage) for stage in pipeline_stages(30, 4)] == [7, 8, 8, 7]
    assert [len(stage) for stage in pipeline_stages(48, 2, (16, 32))] == [16, 32]
    assert [len(stage) for stage in pipeline_stages(2, 8)] == [1, 1]


def test_large_allocations_are_rounded_as_torch_does() -> None:
    mib = 2**20
    assert allocated(9.3 * mib) == 9.3 * mib
    assert allocated(31.5 * mib) == 32 * mib
    assert allocated(24.5 * mib) == 24.5 * mib


def test_groups_of_a_sliding_window_model() -> None:
    """gemma-3-27b: 52 window layers and 10 full ones make 7 groups of 10; concurrency 4.46 at 8,192 tokens."""
    page = 16 * 2 * 16 * 128 * 2
    groups = (CacheGroup("full"), *(CacheGroup("sliding", 1024),) * 6)
    layout = KvLayout(16, page, 10, groups, 62 * page / 16)
    blocks = layout.blocks(19.53 * GIB)
    assert layout.pool_tokens(blocks) == pytest.approx(36560, rel=0.001)
    assert layout.concurrency(blocks, 8192, 8192) == pytest.approx(4.46, rel=0.01)


def test_longest_request_is_the_last_that_fits() -> None:
    layout = KvLayout(16, 16.0, 1, (CacheGroup("full"), CacheGroup("sliding", 64)), 1.0)
    longest = layout.largest_request(100, 32, 10_000)
    assert layout.blocks_per_request(longest, 32) <= 100 < layout.blocks_per_request(longest + 1, 32)


def test_cache_types() -> None:
    assert cache_dtype_bytes("auto", 4.0) == 4.0
    assert cache_dtype_bytes("fp8_e5m2", 2.0) == 1.0
    assert cache_dtype_bytes("q8_0", 2.0) == 1.0625
    assert cache_dtype_bytes("strange", 2.0) is None


def test_verdicts_follow_the_interval() -> None:
    assert [verdict_for(Interval(8, 9, 10), size) for size in (11, 9.5, 8.5, 7)] == [
        "fits",
        "tight",
        "likely-oom",
        "oom",
    ]
    cache = Interval(1, 2, 3)
    assert cache_verdict(cache, Interval(10, 20, 30), 40) == "kv-too-small"
    assert cache_verdict(cache, Interval(10, 20, 30), 25) == "likely-oom"
    assert cache_verdict(cache, Interval(10, 20, 30), 15) == "tight"
    assert cache_verdict(cache, Interval(10, 20, 30), 5) == "fits"
    assert cache_verdict(Interval(-3, -2, -1), None, None) == "oom"


def test_draft_model_takes_weights_and_cache() -> None:
    """Qwen2.5-0.5B drafting: 0.92 GiB, and 24 layers × 2 heads × 64 × 2 × 2 bytes a token beside 131,072."""
    plain = vllm(LLAMA_8B)
    drafted = vllm(LLAMA_8B, speculative={"model": "Qwen/Qwen2.5-0.5B-Instruct", "num_speculative_tokens": 4})
    assert plain.serving is not None and drafted.serving is not None
    assert gib(drafted.serving.weights) - gib(plain.serving.weights) == pytest.approx(0.93, abs=0.03)
    assert drafted.serving.kv_bytes_per_token == 131072 + 24 * 2 * 2 * 64 * 2


def test_draft_head_is_one_more_layer() -> None:
    plain, drafted = vllm(LLAMA_8B), vllm(LLAMA_8B, speculative={"method": "eagle", "num_speculative_tokens": 2})
    assert plain.serving is not None and drafted.serving is not None
    assert drafted.serving.kv_bytes_per_token == 131072 * 33 / 32
    assert any("one more decoder layer" in text for text in drafted.assumptions)


def tgi(version: str, config: dict[str, Any] | None = None, **facts: Any) -> Estimate:
    given = {"framework": "tgi", "framework_version": version, "gpu": "H100-SXM", "dtype": "bfloat16"}
    return estimate_serving(job_of(config or LLAMA_8B, **{**given, **facts}))


def test_tgi_keeps_back_what_its_release_keeps_back() -> None:
    """0.95 of what is free in 2.3, 0.90 in 2.4; from 3.0 a share of the whole device: 0.95, 0.93, 0.90."""
    batch = {"engine_args": {"max_batch_prefill_tokens": 4096}}
    caches = {
        v: gib(tgi(v, **batch).serving.kv_cache.expected)
        for v in ("1.4.0", "2.3.1", "2.4.0", "3.0.0", "3.2.0", "3.3.7")
    }  # type: ignore[union-attr]
    assert caches["2.3.1"] == pytest.approx(0.95 * caches["1.4.0"])
    assert caches["2.4.0"] == pytest.approx(0.90 * caches["1.4.0"])
    assert caches["3.0.0"] - caches["3.2.0"] == pytest.approx(0.02 * 79.18, abs=0.05)
    assert caches["3.2.0"] - caches["3.3.7"] == pytest.approx(0.03 * 79.18, abs=0.05)


def test_tgi_before_the_warm_up_takes_what_the_launcher_says() -> None:
    """0.9.0 to 0.9.3: 16,000 tokens; 131,072 bytes each."""
    made = tgi("0.9.2").serving
    assert made is not None and made.kv_tokens is not None
    assert made.kv_tokens.expected == 16000


def test_tgi_prefills_what_the_card_computes_in_a_second() -> None:
    """3.x: 900 TFLOP/s over the operations of a token of Llama-3.1-8B, 59,870 tokens; other cards take 4,096."""
    texts = {gpu: tgi("3.3.0", gpu=gpu).memory.components[-1].formula for gpu in ("H100-SXM", "B200-SXM")}
    assert "warm-up of 59870 tokens" in texts["H100-SXM"]
    assert "warm-up of 4096 tokens" in texts["B200-SXM"]
    assert "warm-up of 4145 tokens" in tgi("2.2.0").memory.components[-1].formula


def test_trtllm_fraction_of_its_first_releases() -> None:
    made = [
        estimate_serving(job_of(LLAMA_8B, framework="trtllm", framework_version=v, gpu="H100-SXM", engine_args={"max_num_tokens": 8192}))
        for v in ("0.5.0", "0.17.0")
    ]  # fmt: skip
    old, new = (m.serving.kv_cache.expected for m in made if m.serving is not None and m.serving.kv_cache is not None)
    assert old / new == pytest.approx(0.85 / 0.9)


def test_lmdeploy_shares_and_scales() -> None:
    """0.5 of the whole memory before 0.2.2; a cache of 8 bits keeps 4 bytes of scales for each head of 128."""

    def made(version: str, **arguments: Any) -> Estimate:
        facts = {
            "framework": "lmdeploy",
            "framework_version": version,
            "gpu": "A100-SXM4-80GB",
            "engine_args": arguments,
        }
        return estimate_serving(job_of(LLAMA_8B, **facts))

    old, packed, torch_engine = made("0.2.1"), made("0.9.0", quant_policy=8), made("0.9.0", backend="pytorch")
    assert old.serving is not None and old.serving.kv_cache is not None
    assert gib(old.serving.kv_cache.expected) == pytest.approx(0.5 * 79.15, abs=0.2)
    assert packed.serving is not None and packed.serving.kv_bytes_per_token == 65536 * (1 + 4 / 128)
    plain = made("0.9.0")
    assert plain.serving is not None and torch_engine.serving is not None
    assert plain.serving.kv_cache is not None and torch_engine.serving.kv_cache is not None
    kept = plain.serving.kv_cache.expected - torch_engine.serving.kv_cache.expected
    assert kept == pytest.approx(0.8 * (4096 + 2 * 128) * 128256 * 2)


def llamacpp(build: str | None, config: dict[str, Any] | None = None, **facts: Any) -> Estimate:
    given = {"framework": "llama.cpp", "gpu": "RTX-4090", "quantization": "gguf-Q4_K_M", "framework_version": build}
    return estimate_serving(
        job_of(config or LLAMA_8B, **{k: v for k, v in {**given, **facts}.items() if v is not None})
    )


def test_llamacpp_context_by_build() -> None:
    """512, the model's own, 4,096, and the model's own cut to the device."""
    lengths = [llamacpp(build, engine_args={"ngl": 99}).serving for build in ("b2000", "b3579", "b5000", "b8000")]
    tokens = [made.kv_tokens.expected for made in lengths if made is not None and made.kv_tokens is not None]
    assert tokens[:3] == [512, 131072, 4096]
    assert 100000 < tokens[3] <= 131072
    assert llamacpp("b8000").memory.verdict in ("fits", "tight")


def test_llamacpp_offloads_nothing_unless_asked_before_august_2025() -> None:
    old, new = llamacpp("b5000"), llamacpp("b7000")
    assert old.serving is not None and new.serving is not None
    assert old.serving.weights == 0
    assert gib(new.serving.weights) > 4


def test_llamacpp_slots_share_one_cache_where_nobody_says_how_many() -> None:
    """b9265: with -c 8192 alone each of four slots may take 8,192 tokens; with -np 4 each has 2,048."""
    shared = llamacpp("b9265", max_model_len=8192).serving
    split = llamacpp("b9265", max_model_len=8192, max_num_seqs=4).serving
    assert shared is not None and split is not None
    assert (shared.max_model_len, shared.max_concurrency) == (8192, 1)
    assert (split.max_model_len, split.max_concurrency) == (2048, 4)


def test_llamacpp_windows_and_latents_by_build() -> None:
    """gemma-3's window layers keep 1,024 cells and a micro-batch each; MLA keeps 576 elements, 1,088 while it keeps values."""
    gemma = {
        **LLAMA_8B, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "sliding_window": 1024,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"], "num_hidden_layers": 6, "head_dim": 128,
    }  # fmt: skip
    facts = {"max_model_len": 32768, "max_num_seqs": 1, "engine_args": {"ngl": 99}}
    whole, windowed = llamacpp("b5000", gemma, **facts), llamacpp("b6000", gemma, **facts)
    assert whole.serving is not None and windowed.serving is not None
    assert whole.serving.kv_cache is not None and windowed.serving.kv_cache is not None
    layer = 2 * 8 * 128 * 2
    assert whole.serving.kv_cache.expected == 6 * 32768 * layer
    assert windowed.serving.kv_cache.expected == (32768 + 5 * 1536) * layer


def sglang(version: str, config: dict[str, Any], **facts: Any) -> Estimate:
    return estimate_serving(job_of(config, framework="sglang", framework_version=version, gpu="H100-SXM", **facts))


def test_sglang_window_layers_keep_a_share_where_the_pool_knows_them() -> None:
    gpt_oss = {
        **LLAMA_8B, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "sliding_window": 128, "num_local_experts": 8,
        "num_experts_per_tok": 2, "layer_types": ["sliding_attention", "full_attention"] * 16, "head_dim": 128,
    }  # fmt: skip
    old, new = sglang("0.5.3", gpt_oss).serving, sglang("0.5.9", gpt_oss).serving
    off = sglang("0.5.9", gpt_oss, engine_args={"disable_hybrid_swa_memory": True}).serving
    assert old is not None and new is not None and off is not None
    assert old.kv_bytes_per_token == off.kv_bytes_per_token == 131072
    assert new.kv_bytes_per_token == pytest.approx(131072 * 0.9)


@pytest.mark.parametrize(
    ("version", "gpu", "tp", "fraction"),
    [("0.4.3", "H100-SXM", 1, 0.88), ("0.4.6", "H200-SXM", 1, 1 - 13 / 139.72), ("0.5.9", "H100-SXM", 1, 1 - 13440 / 81080)],
)  # fmt: skip
def test_sglang_default_fraction_by_version(version: str, gpu: str, tp: int, fraction: float) -> None:
    """0.5.9: 512 + 8,192 × 1.5 + 256 × 2 + 128 = 13,440 MiB of 81,080; above 80 GiB 0.4.6 keeps 13 GiB."""
    made = estimate_serving(
        job_of(LLAMA_8B, framework="sglang", framework_version=version, gpu=gpu, tensor_parallel_size=tp)
    )
    shown = float(made.memory.components[-1].formula.split(" ")[0])
    assert shown == pytest.approx(fraction, abs=0.003)


def test_swap_space_is_pinned_by_the_old_engine_alone() -> None:
    """4 GiB a rank by default, on two ranks; V1 has no CPU blocks whatever is stated."""

    def host(version: str, **facts: Any) -> float:
        made = vllm(LLAMA_8B, framework_version=version, tensor_parallel_size=2, gpus_per_node=2, **facts).memory.host
        assert made is not None
        return made.low / GIB

    assert host("0.6.6") - host("0.19.0") == pytest.approx(8)
    assert host("0.6.6", engine_args={"swap_space": 16}) - host("0.6.6") == pytest.approx(24)
    assert host("0.19.0", engine_args={"swap_space": 16}) == host("0.19.0")


def test_trtllm_profiles_instead_of_building_from_1_0() -> None:
    """An engine whose build is not stated may hold buffers six times the default's; the PyTorch backend's follow its arguments."""
    made = [
        estimate_serving(job_of(LLAMA_8B, framework="trtllm", framework_version=v, gpu="L40S")).memory.verdict
        for v in ("0.17.0", "1.1.0")
    ]  # fmt: skip
    assert made == ["tight", "fits"]


def test_tgi_of_a_model_without_attention_or_mlp() -> None:
    """Mamba: nothing to divide the card's speed or memory by; the prefill is the plain default."""
    config = {
        "model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 2560, "num_hidden_layers": 64,
        "vocab_size": 50280, "state_size": 16, "intermediate_size": 5120, "conv_kernel": 4,
    }  # fmt: skip
    made = tgi("3.3.7", config, quantization=None)
    assert made.serving is not None and made.memory.verdict in ("fits", "tight")
