"""Start-up logs of models that no constant was fitted on (``benchmarks/holdout_serving.jsonl``), and the kinds of error they found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cfglint.catalog.architecture import Architecture, architecture_from_config
from cfglint.catalog.families import MODULES
from cfglint.catalog.models import architecture_of, find_model
from cfglint.dialects.cfglint_job import state
from cfglint.estimate.result import Interval, ServingEstimate
from cfglint.estimate.serving import estimate_serving
from cfglint.estimate.serving.kv_layout import KvLayout, compressed_layout, vllm_layout
from cfglint.estimate.serving.levers import helps_for_length
from cfglint.jobs.facts import SettingOrigin
from cfglint.jobs.hardware import resolve_hardware
from cfglint.jobs.job import ServingJob
from cfglint.jobs.models import ModelSearch

GIB = 2**30
ROWS = Path(__file__).parents[2] / "benchmarks" / "holdout_serving.jsonl"


def job_of(**facts: Any) -> ServingJob:
    job = ServingJob("test")
    for key, value in facts.items():
        state(job, key, value, SettingOrigin("test", key))
    job.hardware = resolve_hardware(job)
    job.model = ModelSearch(Path("."), {}).find(job)
    return job


def model(name: str) -> Architecture:
    row = find_model(name)
    assert row is not None
    architecture = architecture_of(row)
    assert architecture is not None
    return architecture


def rows(collection: int) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    return [row for row in found if row["collection"] == collection]


@pytest.mark.parametrize("row", rows(1), ids=lambda row: str(row["id"]))
def test_hold_out_rows(row: dict[str, Any]) -> None:
    """No server that started is said to fail; weights within 3 % where the format is not read off a name alone."""
    facts = {key: value for key, value in row["job"].items() if key not in ("cfglint", "kind", "name")}
    estimate = estimate_serving(job_of(**facts))
    assert estimate.memory.verdict not in {"ok": ("oom", "kv-too-small")}.get(row["outcome"], ("fits", "tight"))
    serving = estimate.serving
    assert serving is not None
    if "weights_gib" in row and row["confidence"] != "low":
        assert serving.weights is not None
        assert serving.weights / GIB == pytest.approx(row["weights_gib"], rel=0.032)
    if "kv_tokens" in row:
        assert serving.kv_tokens is not None
        assert serving.kv_tokens.expected == pytest.approx(row["kv_tokens"], rel=0.085)


@pytest.mark.parametrize("row", rows(2) + rows(3), ids=lambda row: str(row["id"]))
def test_later_collections(row: dict[str, Any]) -> None:
    """No server that started is said to fail and no failure to fit; weights within 7 % where the architecture is known."""
    job = job_of(**{key: value for key, value in row["job"].items() if key not in ("cfglint", "kind", "name")})
    estimate = estimate_serving(job)
    serving = estimate.serving
    assert serving is not None
    if row.get("scored", True):
        assert estimate.memory.verdict not in {"ok": ("oom", "kv-too-small")}.get(row["outcome"], ("fits",))
    if "weights_gib" in row and serving.weights is not None and row["confidence"] != "low":
        if any("come from the parameter count" in text for text in estimate.assumptions):
            return
        assert serving.weights / GIB == pytest.approx(row["weights_gib"], rel=0.07)


@pytest.mark.parametrize("row", rows(4) + rows(5), ids=lambda row: str(row["id"]))
def test_last_collections(row: dict[str, Any]) -> None:
    """No server that started is said to fail; weights within 9 %, though a re-publication is not always named."""
    job = job_of(**{key: value for key, value in row["job"].items() if key not in ("cfglint", "kind", "name")})
    estimate = estimate_serving(job)
    assert row["outcome"] != "ok" or estimate.memory.verdict not in ("oom", "likely-oom", "kv-too-small")
    if "weights_gib" in row and estimate.serving is not None and estimate.serving.weights is not None:
        assert estimate.serving.weights / GIB == pytest.approx(row["weights_gib"], rel=0.09)


def test_what_is_allocated_is_within_what_the_device_shows() -> None:
    for row in rows(1) + rows(2):
        memory = estimate_serving(
            job_of(**{key: value for key, value in row["job"].items() if key not in ("cfglint", "kind", "name")})
        ).memory
        for part, whole in ((memory.allocated, memory.reserved), (memory.reserved, memory.used)):
            if part is not None and whole is not None:
                assert part.low <= whole.low and part.expected <= whole.expected and part.high <= whole.high, row["id"]
                assert part.low <= part.expected <= part.high, row["id"]


def hybrid(name: str, tp: int, element: float, *, tokens: int = 0, draft: int = 0) -> KvLayout:
    arch = model(name)
    return vllm_layout(
        arch, range(len(arch.layers)), tp=tp, element=element, model_element=2.0, block_size=16, hybrid=True, latent=True,
        draft_layers=draft, speculative_tokens=tokens, state_blocks=2 + tokens,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tp", "element", "tokens", "block"),
    [
        ("Qwen/Qwen3.5-122B-A10B", 8, 2.0, 3, 544),
        ("Qwen/Qwen3.5-122B-A10B", 1, 1.0, 0, 4176),
        ("Qwen/Qwen3.5-122B-A10B", 1, 1.0, 1, 4192),
    ],
)
def test_attention_blocks_are_raised_to_hold_a_state(
    name: str, tp: int, element: float, tokens: int, block: int
) -> None:
    """genesis-vllm-patches#24 (padded by 2.64 %), two logs of an NVFP4 checkpoint with an FP8 cache."""
    assert hybrid(name, tp, element, tokens=tokens, draft=1 if tokens else 0).block_size == block


def test_a_mamba2_state_in_16_bits_takes_blocks_of_672_tokens() -> None:
    """NVIDIA-Nemotron-Nano-9B-v2, vllm#24280: 128 heads of 80 by 128 and a window of 3 × 12,288 in 16 bits, 4,096 bytes a token."""
    config = {
        "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "hidden_size": 4480, "num_hidden_layers": 56,
        "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", "intermediate_size": 15680,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 80,
        "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "vocab_size": 131072,
    }  # fmt: skip
    arch = architecture_from_config(config)
    layout = vllm_layout(
        arch, range(56), tp=1, element=2.0, model_element=2.0, block_size=16, hybrid=True, latent=True
    )  # fmt: skip
    assert layout.block_size == 672


def test_pool_and_concurrency_of_a_hybrid() -> None:
    """21.43 GiB: 467,712 tokens, 11.79 requests of 131,072; with a draft head 24.05 GiB: 482,080 and 6.42 of 262,144."""
    plain = hybrid("Qwen/Qwen3.5-122B-A10B", 1, 1.0)
    blocks = plain.blocks(21.43 * GIB)
    assert plain.pool_tokens(blocks) == 467712
    assert plain.concurrency(blocks, 131072, 8192) == pytest.approx(11.79, rel=0.005)
    drafted = hybrid("Qwen/Qwen3.5-122B-A10B", 1, 1.0, tokens=1, draft=1)
    blocks = drafted.blocks(24.05 * GIB)
    assert drafted.pool_tokens(blocks) == 482080
    assert drafted.concurrency(blocks, 262144, 8192) == pytest.approx(6.42, rel=0.005)


def test_pages_of_several_sizes_are_made_equal() -> None:
    """gemma-4-E2B: 3 full layers of 512 and 12 window layers of 256 keep a cache, in five groups of three."""
    arch = model("google/gemma-4-E2B-it")
    layout = vllm_layout(
        arch, range(35), tp=1, element=2.0, model_element=2.0, block_size=16, hybrid=True, latent=True
    )  # fmt: skip
    assert (layout.group_size, len(layout.groups), layout.page_bytes) == (3, 5, 32768)
    assert [group.block_size for group in layout.groups].count(32) == 4
    assert layout.concurrency(layout.blocks(0.93 * GIB), 32768, 8192) == pytest.approx(3.25, rel=0.01)


def test_groups_by_release() -> None:
    """20 window layers and 16 full ones: two groups of 20 where 1.5 is the bound, of 16 and padded where it is 1.25 or 1."""
    arch = model("google/gemma-3-1b-it")
    assert len(arch.layers) == 26

    def made(tolerance: float) -> KvLayout:
        return vllm_layout(
            arch, range(26), tp=1, element=2.0, model_element=2.0, block_size=16, hybrid=True, latent=True,
            group_tolerance=tolerance,
        )  # fmt: skip

    assert made(1.5).group_size == made(1.25).group_size == 4
    assert made(6.0).group_size == 22


def test_absorbed_projections_of_07() -> None:
    """DeepSeek-Coder-V2-Lite at TP 8: W_Q_UK and W_UV_O beside the weights make 3.97 GiB of 3.75."""
    weights = {
        version: estimate_serving(
            job_of(framework="vllm", framework_version=version, tensor_parallel_size=8, gpus_per_node=8,
                   model="deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct")
        ).serving
        for version in ("0.6.6", "0.7.2", "0.8.5")
    }  # fmt: skip
    sizes = {version: made.weights / GIB for version, made in weights.items() if made and made.weights}
    assert sizes["0.7.2"] == pytest.approx(3.97, abs=0.02)
    assert sizes["0.6.6"] < sizes["0.8.5"] < sizes["0.7.2"]


def test_the_old_engine_keeps_its_own_batch_beside_the_new() -> None:
    """Qwen3-4B of 10,000 tokens in V0 of 0.8.5 is profiled with them all, 0.74 GiB; V1 takes 2,048."""
    facts = {
        "framework": "vllm", "framework_version": "0.8.5", "model": "Qwen/Qwen3-4B", "gpu": "RTX 3060 12GB", "gpus_per_node": 1,
        "max_model_len": 10000, "max_num_seqs": 1, "dtype": "float16",
    }  # fmt: skip
    old = estimate_serving(job_of(**facts, engine_args={"VLLM_USE_V1": "0"})).serving
    new = estimate_serving(job_of(**facts)).serving
    assert old is not None and new is not None
    assert old.activation_peak is not None and new.activation_peak is not None
    assert old.activation_peak / GIB == pytest.approx(0.74, abs=0.02)
    assert new.activation_peak < 0.4 * old.activation_peak


def test_images_of_the_old_engine() -> None:
    """Qwen2-VL-7B starts on an L4 with 0.6.1 and 2,048 tokens: images of at most 1,280 tokens, one prompt for each."""
    facts = {
        "framework": "vllm",
        "model": "Qwen/Qwen2-VL-7B-Instruct",
        "gpu": "L4",
        "gpus_per_node": 1,
        "max_model_len": 2048,
    }
    early = estimate_serving(job_of(**facts, framework_version="0.6.1.post2"))
    assert early.memory.verdict in ("fits", "tight")
    assert early.serving is not None and early.serving.activation_peak is not None
    later = estimate_serving(job_of(**facts, framework_version="0.6.6")).serving
    assert later is not None and later.activation_peak is not None
    assert early.serving.activation_peak < 2 * GIB < later.activation_peak


def test_sglang_computes_gemmas_rotary_embeddings() -> None:
    """sglang#4826: 8.13 GiB, where vLLM's tables for 131,072 × 8 positions add 0.5."""
    facts = {"model": "google/gemma-3-4b-it", "gpu": "H200", "gpus_per_node": 1}
    made = estimate_serving(job_of(framework="sglang", framework_version="0.4.4", **facts)).serving
    other = estimate_serving(job_of(framework="vllm", framework_version="0.19.0", **facts)).serving
    assert made is not None and other is not None and made.weights is not None and other.weights is not None
    assert made.weights / GIB == pytest.approx(8.13, abs=0.06)
    assert (other.weights - made.weights) / GIB == pytest.approx(0.5, abs=0.1)


def test_windows_shows_all_of_a_geforce_card() -> None:
    facts = {
        "framework": "vllm", "framework_version": "0.19.0", "model": "Qwen/Qwen3-4B", "gpus_per_node": 1, "max_model_len": 8192,
    }  # fmt: skip
    card, board = (estimate_serving(job_of(**facts, gpu=gpu)).serving for gpu in ("RTX 4090", "A10G"))
    assert card is not None and board is not None and card.kv_cache is not None and board.kv_cache is not None

    def above(cache: Interval) -> float:
        return (cache.high - cache.expected) / GIB

    assert above(card.kv_cache) - above(board.kv_cache) == pytest.approx(0.9 * (24 - 23.51), abs=0.1)


def length_help(**facts: Any) -> list[str]:
    given = {"framework": "vllm", "framework_version": "0.19.0", "gpus_per_node": 1}
    found = helps_for_length(job_of(**{**given, **facts}))
    return [" ".join([*(f"{name}: {value}" for name, value in help.facts.items()), help.what]) for help in found]


def test_a_length_nobody_stated_is_shortened_first() -> None:
    words = length_help(model="meta-llama/Llama-3.1-8B-Instruct", gpu="L4")
    assert words[0].startswith("max_model_len: ")
    assert 16384 <= int(words[0].split()[1]) <= 32768
    assert words[-1] == "tensor_parallel_size: 2 is the smallest that holds it"


def test_a_stated_length_is_kept_where_a_setting_holds_it() -> None:
    """17 GiB of cache would be needed of 13: FP8 halves it on an L40S; an A100's kernels do not read such a cache."""
    words = length_help(model="Qwen/Qwen3-14B", gpu="L40S", max_model_len=100000)
    assert words[0] == "kv_cache_dtype: fp8 holds it"
    ampere = length_help(model="Qwen/Qwen2.5-32B-Instruct", gpu="A100-80GB", max_model_len=131072)
    assert not any("kv_cache_dtype" in word for word in ampere)
    assert ampere[0].startswith("tensor_parallel_size: 2")


def test_no_length_too_short_to_serve_is_offered() -> None:
    """A cache of some 2,000 tokens: more ranks or a larger device, never 1,024 tokens."""
    words = length_help(model="Qwen/Qwen3-8B", gpu="A10G", gpu_memory_utilization=0.75, max_model_len=40960)
    assert words and not any(word.startswith("max_model_len") for word in words)


def serving_of(**facts: Any) -> ServingEstimate:
    found = estimate_serving(job_of(framework="vllm", **facts)).serving
    assert found is not None
    return found


def test_compiling_benchmarks_the_table_of_embeddings() -> None:
    """Logged peaks of 0.28: 1.46 GiB for 151,936 x 5,120 and 1.04 for 152,064 x 3,584; no such buffer without compiling."""
    facts = {"model": "Qwen/Qwen3-14B-AWQ", "gpu": "RTX 5090", "gpu_memory_utilization": 0.7, "max_model_len": 32768}
    peaks = [
        serving_of(framework_version=version, **facts, **more).activation_peak
        for version, more in (("0.28.0", {}), ("0.26.0", {}), ("0.28.0", {"enforce_eager": True}))
    ]
    assert [None if peak is None else round(peak / GIB, 2) for peak in peaks] == [1.45, 0.3, 0.28]
    seven = serving_of(framework_version="0.28.0", model="Qwen/Qwen2.5-7B-Instruct-AWQ", gpu="L4", max_model_len=32768)
    assert seven.activation_peak is not None
    assert seven.activation_peak / GIB == pytest.approx(1.04, rel=0.03)


def test_a_model_that_sees_embeds_outside_of_the_graph() -> None:
    facts = {
        "model": "Qwen/Qwen2.5-VL-7B-Instruct",
        "gpu": "H100 80GB",
        "limit_mm_per_prompt": {"image": 0, "video": 0},
    }
    before, after = (serving_of(framework_version=v, **facts).activation_peak for v in ("0.26.0", "0.28.0"))
    assert before is not None and after is not None
    assert after < before


def test_kept_workspaces_are_consumed_memory_since_0_27() -> None:
    """Qwen3-235B-A22B-FP8 at TP 4 on RTX PRO 6000 with 0.27.1: peak 0.76 GiB, 1.7 GiB consumed beside the weights."""
    facts = {
        "model": "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "gpu": "RTX PRO 6000", "gpus_per_node": 4, "tensor_parallel_size": 4,
        "max_model_len": 32768, "max_num_seqs": 32, "gpu_memory_utilization": 0.9,
    }  # fmt: skip
    old, new = (serving_of(framework_version=v, **facts) for v in ("0.26.0", "0.27.1"))
    assert old.activation_peak is not None and new.activation_peak is not None and new.kv_cache is not None
    # 8,192 tokens x 8 experts x two rows of 4,096 in 16 bits
    assert old.activation_peak - new.activation_peak > 0.6 * GIB
    assert new.activation_peak / GIB == pytest.approx(0.76, rel=0.25)
    assert new.kv_cache.expected / GIB == pytest.approx(27.85, rel=0.01)


def test_pooling_models_keep_the_first_runner_until_0_29() -> None:
    """Qwen3-Embedding-0.6B of 0.28: 0.52 GiB, the table of 0.29 and the estimate for 51 piecewise graphs."""
    serving = serving_of(
        framework_version="0.28.0", model="Qwen/Qwen3-Embedding-0.6B", gpu="RTX 5090", gpu_memory_utilization=0.3,
        max_model_len=2048, engine_args={"runner": "pooling"},
    )  # fmt: skip
    assert serving.activation_peak is not None and serving.kv_cache is not None and serving.graph is not None
    assert serving.activation_peak / GIB == pytest.approx(0.52, rel=0.08)
    assert serving.graph / GIB == pytest.approx(0.24, rel=0.05)
    assert serving.kv_cache.low / GIB <= 7.31 <= serving.kv_cache.high / GIB


def test_small_cublas_workspace_below_hopper() -> None:
    """Qwen3-8B on an L20: 256 rows of 151,936 entries at 38 bytes, 2,304 rows of hidden states and 0 to 15 MiB: 1.40 GiB."""
    serving = serving_of(framework_version="0.14.0", model="Qwen/Qwen3-8B", gpu="L20", max_model_len=16384)
    assert serving.activation_peak is not None
    assert serving.activation_peak / GIB == pytest.approx(1.40, abs=0.015)


def test_compressed_keys_take_most_for_windows_and_compressors() -> None:
    """vllm#44376: DeepSeek-V4-Flash needs 6.66 GiB for one request of 30,000 tokens in batches of 16,384."""
    arch = model("deepseek-ai/DeepSeek-V4-Flash")
    layout = compressed_layout(arch, range(len(arch.layers)))
    assert layout.page_bytes == 22 * (65 * 576 + 15 * 576 + 3 * 576)
    assert layout.blocks_per_request(30000, 16384) * layout.page_bytes / GIB == pytest.approx(6.66, abs=0.005)
    # Ten times the length takes a third more.
    assert layout.blocks_per_request(300000, 16384) < 1.35 * layout.blocks_per_request(30000, 16384)
    assert compressed_layout(arch, range(len(arch.layers)), packed=True).page_bytes < layout.page_bytes


def test_compressed_keys_give_no_certain_failure() -> None:
    """A server of two H200 with 32 GiB of cache logged 2,175,276 tokens; what is between the releases' laws is uncertain."""
    serving = serving_of(
        framework_version="0.21.0", model="deepseek-ai/DeepSeek-V4-Flash", gpu="H200", gpus_per_node=2, tensor_parallel_size=2,
        gpu_memory_utilization=0.78, max_model_len=262144, kv_cache_dtype="fp8", enforce_eager=True,
    )  # fmt: skip
    assert serving.kv_tokens is not None
    assert serving.kv_tokens.low <= 2175276 <= serving.kv_tokens.high
    assert serving.kv_tokens.expected == pytest.approx(2175276, rel=0.12)


def test_two_batches_are_in_flight_since_0_26() -> None:
    """gemma-4-E2B of a 0.29 build on an MI300X: 155.04 GiB hold 275.45 requests of 32,768 tokens."""
    facts = {
        "model": "google/gemma-4-E2B-it", "gpu": "MI300X", "gpu_memory_utilization": 0.9, "max_model_len": 32768,
        "engine_args": {"kv_cache_memory_bytes": int(155.04 * GIB)},
    }  # fmt: skip
    counted = [serving_of(framework_version=v, **facts).max_concurrency for v in ("0.29.0", "0.25.1")]
    assert counted[0] == pytest.approx(275.45, rel=0.01)
    assert counted[1] is not None and counted[0] is not None and counted[1] > 1.3 * counted[0]


def test_the_second_runner_profiles_no_sampling_parameters() -> None:
    """Qwen3-0.6B on an H100, 1,024 requests: 73.53 GiB of cache at 0.95, and then no room for 594 MiB of fp32 logits."""
    facts = {"model": "Qwen/Qwen3-0.6B", "gpu": "H100 80GB", "max_model_len": 16384, "gpu_memory_utilization": 0.95}
    estimate = estimate_serving(job_of(framework="vllm", framework_version="0.28.0", **facts))
    assert estimate.serving is not None and estimate.serving.kv_cache is not None and estimate.memory.used is not None
    assert estimate.serving.kv_cache.expected / GIB == pytest.approx(73.53, rel=0.003)
    # The copy and its kernels stand beside what was requested.
    later = estimate_serving(job_of(framework="vllm", framework_version="0.33.0", **facts))
    assert later.memory.used is not None and later.serving is not None and later.serving.kv_cache is not None
    assert estimate.memory.used.expected > later.memory.used.expected
    assert later.serving.kv_cache.expected < estimate.serving.kv_cache.expected - 1.5 * GIB


def test_ecc_that_is_off_shows_more_memory() -> None:
    """An L20 showed 47.4 GiB, and Qwen3-8B 25.94 GiB of cache; cards whose total was seen both ways hold both."""
    serving = serving_of(framework_version="0.14.0", model="Qwen/Qwen3-8B", gpu="L20", max_model_len=16384)
    assert serving.kv_cache is not None
    assert serving.kv_cache.low / GIB <= 25.94 <= serving.kv_cache.high / GIB
    wide = serving_of(framework_version="0.19.0", model="Qwen/Qwen3-8B", gpu="RTX A6000", gpu_memory_utilization=0.9)
    assert wide.kv_cache is not None
    assert wide.kv_cache.high - wide.kv_cache.expected > 0.9 * (47.431 - 44.427) * GIB


def test_a_release_nobody_states_may_be_an_old_one() -> None:
    """Llama-3.1-8B on an RTX A5000: 5.29 GiB, with a share of 0.9 or 0.92 and 0.01 to 0.95 GiB beside torch."""
    facts = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "RTX A5000",
        "max_model_len": 2048,
        "enforce_eager": True,
    }
    known, unknown = serving_of(framework_version="0.33.0", **facts).kv_cache, serving_of(**facts).kv_cache
    assert known is not None and unknown is not None
    assert unknown.low / GIB <= 5.29 <= unknown.high / GIB
    assert unknown.low < known.low and unknown.high > known.high


def test_laws_of_nvidia_devices_on_rocm() -> None:
    """gemma-4-E2B of a 0.29 build on an MI300X: a peak of 5.59 GiB, estimated 1.98, and 155.04 GiB of cache."""
    facts = {
        "framework": "vllm", "framework_version": "0.29.1", "model": "google/gemma-4-E2B-it", "gpu": "MI300X",
        "gpu_memory_utilization": 0.9, "max_model_len": 32768, "limit_mm_per_prompt": {"audio": 0},
    }  # fmt: skip
    estimate = estimate_serving(job_of(**facts))
    assert estimate.serving is not None and estimate.serving.kv_cache is not None
    assert estimate.serving.kv_cache.low / GIB <= 155.04 <= estimate.serving.kv_cache.high / GIB
    assert any("NVIDIA" in text for text in estimate.assumptions)


def test_glm_5_3_flash_by_its_tensors() -> None:
    """At TP 8 it logged 38.24 GiB of weights, 81.79 GiB of cache and 7,228,559 tokens."""
    serving = serving_of(
        framework_version="0.28.1", model="zai-org/GLM-5.3-Flash", gpu="H200", gpus_per_node=8, tensor_parallel_size=8,
        gpu_memory_utilization=0.9, max_model_len=131072,
    )  # fmt: skip
    assert serving.kv_cache is not None and serving.weights is not None and serving.kv_tokens is not None
    assert serving.weights / GIB == pytest.approx(38.24, rel=0.025)
    assert serving.kv_cache.low / GIB <= 81.79 <= serving.kv_cache.high / GIB
    assert serving.kv_tokens.expected == pytest.approx(7_228_559, rel=0.05)


def test_an_unknown_family_may_be_published_in_fp8(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has neither tensors nor a sourced dtype: the cache may have what half the weights would leave."""
    for name in ("qwen4_exp", "qwen4_exp_text"):
        monkeypatch.delitem(MODULES, name)
    serving = serving_of(
        framework_version="0.28.1", model="Qwen/Qwen3.8-Flash-Next", gpu="H200", gpus_per_node=8, tensor_parallel_size=8,
        gpu_memory_utilization=0.9, max_model_len=131072,
    )  # fmt: skip
    assert serving.kv_cache is not None and serving.weights is not None
    assert serving.weights / GIB == pytest.approx(41.9, abs=0.1)
    assert serving.kv_cache.high >= serving.kv_cache.expected + serving.weights / 2


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("inclusionAI/Ling-3.0-flash-fp4", "inclusionAI/Ling-3.0-flash"),
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16"),
    ],
)
def test_a_name_states_the_format_where_the_row_does_not(name: str, base: str) -> None:
    """Ling-3.0-flash-fp4 counts 65.6 billion elements, two weights in each byte of its 127.5; Nemotron's method is MIXED_PRECISION."""
    small, large = (serving_of(framework_version="0.27.1", model=model, gpu="H200").weights for model in (name, base))
    assert small is not None and large is not None
    assert 0.25 < small / large < 0.36


def test_the_longest_video_is_profiled() -> None:
    """Qwen2.5-VL-7B of 0.23 on an A100 at 0.22: 114,688 tokens of video, -14.28 GiB of cache; a short length or no video spares it."""
    facts = {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "gpu": "A100 80GB", "framework_version": "0.23.0"}
    long = serving_of(gpu_memory_utilization=0.22, max_model_len=128000, **facts)
    assert long.kv_cache is not None and long.activation_peak is not None
    assert long.kv_cache.expected / GIB == pytest.approx(-14.28, abs=0.6)
    for setting in ({"max_model_len": 8192}, {"max_model_len": 128000, "limit_mm_per_prompt": {"video": 0}}):
        peak = serving_of(**facts, **setting).activation_peak
        assert peak is not None and peak < 0.25 * long.activation_peak
    # A length that nobody states may be a short one.
    unstated = serving_of(gpu_memory_utilization=0.22, **facts).kv_cache
    assert unstated is not None and unstated.high > 0 > unstated.expected


def test_the_cache_of_a_video_that_is_counted_too_long() -> None:
    """Qwen3-VL-30B-A3B of 0.11 at TP 4 on RTX 3090: a cache of 153,600 embeddings, each with three inner layers' features."""
    serving = serving_of(
        framework_version="0.11.0", model="Qwen/Qwen3-VL-30B-A3B-Instruct", gpu="RTX 3090", gpus_per_node=4, tensor_parallel_size=4,
        gpu_memory_utilization=0.9, max_model_len=65536,
    )  # fmt: skip
    assert serving.kv_cache is not None and serving.kv_tokens is not None
    assert serving.kv_cache.expected / GIB == pytest.approx(2.31, abs=0.2)
    assert serving.kv_tokens.low <= 100752 <= serving.kv_tokens.high


def test_experts_run_on_the_tokens_of_all_data_parallel_ranks() -> None:
    """Qwen3-Coder-480B-FP8 of 0.10.1 at DP 8 on cards of 141 GB: 48.66 GiB of cache at 0.9, 55.65 at 0.95."""
    for share, logged in ((0.9, 48.66), (0.95, 55.65)):
        serving = serving_of(
            framework_version="0.10.1", model="Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", gpu="H200", gpus_per_node=8,
            data_parallel_size=8, enable_expert_parallel=True, max_model_len=262144, gpu_memory_utilization=share,
        )  # fmt: skip
        assert serving.kv_cache is not None
        assert serving.kv_cache.expected / GIB == pytest.approx(logged, rel=0.035)


def test_one_device_of_unified_memory() -> None:
    """Qwen3-0.6B of 0.27.1 on a DGX Spark at 0.6: 69.4 GiB of cache; two in parallel leave less of each."""
    facts = {
        "framework_version": "0.27.1",
        "model": "Qwen/Qwen3-0.6B",
        "gpu": "DGX Spark GB10",
        "gpu_memory_utilization": 0.6,
    }
    one, two = serving_of(**facts).kv_cache, serving_of(gpus_per_node=2, tensor_parallel_size=2, **facts).kv_cache
    assert one is not None and two is not None
    assert one.expected / GIB == pytest.approx(69.4, abs=1.5)
    assert one.expected - two.expected > 10 * GIB


def test_cache_types_with_a_scale_for_each_head() -> None:
    """One byte and an fp32 scale for 128 elements: Qwen3-8B takes 36 layers x 2 x 8 heads x 132 bytes a token."""
    facts = {"framework_version": "0.26.0", "model": "Qwen/Qwen3-8B", "gpu": "RTX 3090", "max_model_len": 4096}
    assert serving_of(kv_cache_dtype="int8_per_token_head", **facts).kv_bytes_per_token == 36 * 2 * 8 * 132
    assert serving_of(kv_cache_dtype="int4_per_token_head", **facts).kv_bytes_per_token == 36 * 2 * 8 * 68


@pytest.mark.parametrize(
    ("name", "logged", "ranks"), [("nvidia/Gemma-4-31B-IT-NVFP4", 31.18, 1), ("nvidia/GLM-5.2-NVFP4", 106.69, 4)]
)
def test_attention_that_nvidia_leaves_in_16_bits(name: str, logged: float, ranks: int) -> None:
    serving = serving_of(
        framework_version="0.26.0", model=name, gpu="B200", gpus_per_node=ranks, tensor_parallel_size=ranks,
        enable_expert_parallel=ranks > 1,
    )  # fmt: skip
    assert serving.weights is not None
    assert serving.weights / GIB == pytest.approx(logged, rel=0.025)


def test_the_old_engine_profiles_an_image_and_a_video() -> None:
    """Qwen2.5-VL-7B-AWQ under V0 of 0.9.2: a peak of 4.93 GiB at a length of 4,096, as 32,768 tokens of text pass."""
    facts = {"gpus_per_node": 1, "engine_args": {"VLLM_USE_V1": "0"}}
    awq = serving_of(
        framework_version="0.9.2", model="Qwen/Qwen2.5-VL-7B-Instruct-AWQ", gpu="A100 40GB", max_model_len=4096, **facts
    )
    assert awq.activation_peak is not None
    assert awq.activation_peak / GIB == pytest.approx(4.93, rel=0.05)
    # On an RTX 3090 2,400 tokens were left, and 8,192 asked for.
    full = serving_of(
        framework_version="0.8.5", model="Qwen/Qwen2.5-VL-7B-Instruct", gpu="RTX 3090", max_model_len=8192, **facts
    )
    assert full.kv_tokens is not None
    assert full.kv_tokens.low <= 2400 <= full.kv_tokens.high


def test_a_table_that_a_first_compilation_may_take_since_0_22() -> None:
    """Qwen2.5-7B of 0.22.0 on a card of 44.5 GiB: 26.32 GiB of cache, 27.1 without the table of 1.02."""
    serving = serving_of(
        framework_version="0.22.0", model="Qwen/Qwen2.5-7B-Instruct", gpu="L40S", gpu_memory_utilization=0.95, max_model_len=4096,
        max_num_batched_tokens=2048, max_num_seqs=128,
    )  # fmt: skip
    assert serving.kv_cache is not None
    assert serving.kv_cache.low / GIB <= 26.32 <= serving.kv_cache.expected / GIB


def test_settings_of_the_encoder() -> None:
    """What bounds images or spares the encoder's profile; an encoder that every rank holds whole."""
    facts = {
        "framework_version": "0.19.0",
        "model": "Qwen/Qwen2.5-VL-7B-Instruct",
        "gpu": "A100 80GB",
        "max_model_len": 65536,
    }
    plain = serving_of(**facts)
    bounded = serving_of(engine_args={"mm_processor_kwargs": {"max_pixels": 602112}}, **facts)
    spared = serving_of(engine_args={"skip_mm_profiling": True}, **facts)
    assert plain.kv_cache is not None and bounded.kv_cache is not None and spared.activation_peak is not None
    assert (
        bounded.kv_cache.high - plain.kv_cache.high > 3 * GIB and bounded.kv_cache.expected == plain.kv_cache.expected
    )
    assert plain.activation_peak is not None and spared.activation_peak < 0.2 * plain.activation_peak
    two = {"tensor_parallel_size": 2, "gpus_per_node": 2}
    split, whole = serving_of(**facts, **two), serving_of(engine_args={"mm_encoder_tp_mode": "data"}, **facts, **two)
    assert split.weights is not None and whole.weights is not None
    assert (whole.weights - split.weights) / GIB == pytest.approx(1.18 / 2, abs=0.05)
    assert split.activation_peak is not None and whole.activation_peak is not None
    assert whole.activation_peak > split.activation_peak
