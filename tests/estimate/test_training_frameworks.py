"""What frameworks do that their settings do not say, against bytes counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import architecture_from_config
from cfglint.estimate.result import GIB, Estimate
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.pins import pinned
from cfglint.estimate.training.profiles import PROFILES, profile_of
from cfglint.jobs.facts import CatalogueOrigin, FlagOrigin
from cfglint.jobs.job import Hardware, ModelFacts, TrainingJob

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
PARAMETERS = 8_030_261_248
LOGITS = 4 * 8192 * 128256
"""Elements of the logits of four sequences of 8,192 tokens."""


def estimate(
    framework: str,
    gpus: int = 8,
    config: dict[str, Any] = LLAMA_8B,
    versions: dict[str, str] | None = None,
    **facts: Any,
) -> Estimate:
    job = TrainingJob("job")
    job.versions = versions or {}
    settings = {
        "framework": framework,
        "micro_batch_size": 4,
        "sequence_length": 8192,
        "packing": True,
        "gradient_checkpointing": "full",
        "attention": "flash2",
        **facts,
    }
    for name, value in settings.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    origin = CatalogueOrigin("test")
    job.model = ModelFacts("model", architecture_from_config(config), "a config of the test", origin)
    job.hardware = Hardware(
        find_accelerators("H100-SXM"), "H100-SXM", gpus, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus")
    )
    return estimate_training(job)


def component(found: Estimate, name: str) -> float:
    return sum(c.bytes for c in found.memory.components if c.name == name)


@pytest.mark.parametrize(
    "framework",
    ["verl", "openrlhf", "nemo-rl", "nemo-automodel", "roll", "prime-rl", "olmo", "nanotron", "maxtext", "lightning"],
)
def test_every_framework_that_a_dialect_reads_has_a_profile_of_its_own(framework: str) -> None:
    assert profile_of(framework) == (PROFILES[framework], True)


@pytest.mark.parametrize("framework", ["slime", "primus", "megatron-bridge", "nemo", "gpt-neox"])
def test_frameworks_on_megatron_core(framework: str) -> None:
    assert profile_of(framework)[0].name == "megatron"


def test_verls_actor_is_stored_in_fp32_and_its_logits_stay_16_bit() -> None:
    """Adam's foreach workspace, gradients and states in fp32 over eight ranks; no fp32 copy of the logits."""
    found = estimate("verl", method="grpo", fsdp="full_shard", fsdp_version=1)
    assert component(found, "weights") == pytest.approx(PARAMETERS * 4 / 8)
    assert component(found, "optimizer states") == pytest.approx(PARAMETERS * 8 / 8)
    # in place on 16-bit logits the loss stays below the peak of a block; torch's log-softmax does not
    assert component(found, "logits and loss") == 0
    widened = estimate("verl", method="grpo", fsdp="full_shard", fsdp_version=1, loss_kernel="torch")
    assert component(widened, "logits and loss") >= 6 * LOGITS


def test_openrlhf_converts_the_logits_and_keeps_their_gradient_beside_them() -> None:
    found = estimate("openrlhf", method="full", zero_stage=3)
    # fp32 logits and their fp32 gradient
    assert component(found, "logits and loss") == pytest.approx(8 * LOGITS, rel=0.05)
    assert component(found, "master weights") == pytest.approx(PARAMETERS * 4 / 8)


def test_sublayers_that_are_checkpointed_one_by_one_keep_four_inputs() -> None:
    """fused_linear, so that the peak is a block's: 32 layers of three more hidden states in bf16."""
    facts: dict[str, Any] = {
        "method": "full",
        "weight_dtype": "fp32",
        "fsdp": "full_shard",
        "fsdp_version": 2,
        "optimizer": "sgd",
    }
    whole = estimate("roll", loss_kernel="fused_linear", compute_dtype="bf16", **facts)
    parts = estimate("nemo-rl", loss_kernel="fused_linear", compute_dtype="bf16", **facts)
    more = component(parts, "activations") - component(whole, "activations")
    assert more == pytest.approx(32 * 3 * 4 * 8192 * 4096 * 2, rel=0.02)


def test_nanotron_keeps_whole_fp32_gradients_and_shards_states() -> None:
    found = estimate("nanotron", method="pretrain", zero_stage=1, sequence_length=128, micro_batch_size=1)
    assert component(found, "weights") == pytest.approx(PARAMETERS * 2)
    gradients = component(found, "gradients") + component(found, "embedding gradient")
    assert gradients == pytest.approx(PARAMETERS * 4, rel=0.001)
    assert component(found, "master weights") == pytest.approx(PARAMETERS * 4 / 8)


def test_torchtitan_compiles_its_loss() -> None:
    """8 B over 8 ranks with op-level selective checkpointing: 33.71 GiB on B200, 39.09 on MI300X (torchao, Aug 2025).

    Before the first release the loss was not compiled: 47.65 GiB (torchao, Apr 2025).
    """
    facts: dict[str, Any] = {
        "method": "pretrain",
        "weight_dtype": "fp32",
        "compute_dtype": "bf16",
        "optimizer": "adamw_torch_fused",
        "micro_batch_size": 1,
        "gradient_checkpointing": "selective",
        "attention": "sdpa",
        "compile": True,
        "fsdp": "full_shard",
        "fsdp_version": 2,
    }
    released = estimate("torchtitan", framework_version="0.1.0", **facts).memory
    assert released.reserved is not None
    assert 33.71 < released.reserved.expected / GIB < 39.09
    unknown = estimate("torchtitan", **facts).memory
    assert unknown.reserved is not None
    assert unknown.reserved.expected / GIB == pytest.approx(47.65, rel=0.06)
    assert released.reserved.expected > unknown.reserved.low
    # 128,256 logits a token are 2 GiB and their gradients as much; since 0.3 an eighth of them is there, and the head's gradient
    pieces = estimate("torchtitan", framework_version="0.3.0", **facts).memory
    assert pieces.allocated is not None and released.allocated is not None
    assert 1 < (released.allocated.expected - pieces.allocated.expected) / GIB < 5


@pytest.mark.parametrize(
    ("own", "method", "stored"),
    [
        ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "lora", 1.0),
        ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "full", 2.0),
        ({"quant_method": "mxfp4"}, "lora", 2.0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "lora", 2.0),
        ({"quant_algo": "FP8"}, "lora", 2.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "lora", 0.5625),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"type": "int", "num_bits": 4}}}},
            "lora",
            0.5 + 2.5 / 128,
        ),
    ],
)
def test_what_a_quantized_checkpoint_is_trained_as(own: dict[str, Any], method: str, stored: float) -> None:
    job = TrainingJob("job")
    facts = {"framework": "axolotl", "method": method, "micro_batch_size": 1, "sequence_length": 512}
    for name, value in facts.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    architecture = architecture_from_config({**LLAMA_8B, "quantization_config": own, "dtype": "bfloat16"})
    job.model = ModelFacts("model", architecture, "a config of the test", CatalogueOrigin("test"))
    found = estimate_training(job)
    embeddings = 2 * 128256 * 4096
    rest = embeddings + 65 * 4096
    # Axolotl casts what bitsandbytes leaves alone back to 16 bit
    expected = (PARAMETERS - rest) * stored + rest * 2
    assert component(found, "weights") == pytest.approx(expected, rel=0.02)
    said = " ".join(found.assumptions)
    assert ("trained as 16-bit ones" in said) is (stored == 2.0)


@pytest.mark.parametrize(
    ("framework", "version", "quantization", "compute", "norms", "outer", "adapters"),
    [
        # prepare_model_for_kbit_training alone, then peft_module_casting_to_bf16 too (4 bit, bf16), then neither
        ("trl", "0.4.3", "nf4", "bf16", 4, 4, 4),
        ("trl", "0.12.1", "nf4", "bf16", 4, 2, 4),
        ("trl", None, "nf4", "bf16", 4, 2, 4),
        ("trl", "0.12.1", "int8", "bf16", 4, 4, 4),
        ("trl", "0.12.1", "nf4", "none", 4, 4, 4),
        ("trl", "0.26.0", "nf4", "bf16", 2, 2, 2),
        ("trl", "0.26.0", "gptq-int4", "bf16", 2, 2, 4),
        # cast back to 16 bit, whatever computes attention
        ("axolotl", None, "nf4", "bf16", 2, 2, 4),
        ("peft", None, "nf4", "bf16", 4, 4, 4),
        ("fsdp_qlora", None, "nf4", "bf16", 2, 2, 2),
    ],
)
def test_what_quantization_leaves_alone(
    framework: str, version: str | None, quantization: str, compute: str, norms: int, outer: int, adapters: int
) -> None:
    found = estimate(
        framework, 1, method="qlora", quantization=quantization, compute_dtype=compute, weight_dtype="bf16",
        lora_rank=64, lora_targets=["q_proj"], framework_version=version, attention="sdpa",
    )  # fmt: skip
    tables, inside = 2 * 128256 * 4096, 65 * 4096
    stored = {"nf4": 0.5 + 4 / 64, "int8": 1.0, "gptq-int4": 0.5 + 2.5 / 128}[quantization]
    packed = (PARAMETERS - tables - inside) * stored
    factors = 32 * 64 * (4096 + 4096)
    expected = packed + inside * norms + tables * outer + factors * adapters
    assert component(found, "weights") == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("version", "accumulation", "whole"), [("0.5.7", 4, 1.0), ("0.5.7", 1, 0.25), ("0.5.8", 4, 0.0)]
)
def test_units_of_litgpt_that_mix_adapters_and_frozen_weights(version: str, accumulation: int, whole: float) -> None:
    """A flat parameter has one gradient, as large as the block: of all blocks between micro-steps, else as shards."""
    found = {
        release: estimate(
            "litgpt", 4, method="lora", lora_rank=8, lora_targets=["query"], weight_dtype="bf16", fsdp="full_shard",
            fsdp_version=1, gradient_accumulation_steps=accumulation, framework_version=release, micro_batch_size=1,
            sequence_length=512,
        ).memory.phases["backward"]
        for release in (version, "0.5.9")
    }  # fmt: skip
    blocks = 2 * (PARAMETERS - 2 * 128256 * 4096)
    # beside them what is on its way of one block
    assert (found[version] - found["0.5.9"]) / blocks == pytest.approx(whole, abs=0.05)


def test_checkpoints_inside_units_leave_their_hooks_nothing_to_hold() -> None:
    """FSDP 1 around a checkpointed block runs its hooks once; checkpointing around the unit runs them on what is made anew,
    and each block's input and its gradient wait for the end of backward.

    Measured by Answer.AI's script: 9.16 GiB for Llama-2-7B with 2,048 tokens (fsdp-qlora of the training hold-out).
    """
    settings: dict[str, Any] = {
        "method": "lora", "lora_rank": 64, "lora_targets": ["all-linear"], "weight_dtype": "bf16", "micro_batch_size": 1,
        "fsdp": "full_shard", "fsdp_version": 1, "sequence_length": 2048, "attention": "sdpa",
    }  # fmt: skip
    config = {**LLAMA_8B, "vocab_size": 32000}
    script, loop = (
        estimate(framework, 2, config, framework_version="0.11.1", **settings).memory.phases["backward"]
        for framework in ("fsdp_qlora", "peft")
    )
    inputs = 2048 * 4096 * 2
    # the peak is in the first block, by when the adapters' gradients are there
    gradients = 64 * 31 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    assert loop - script == 31 * inputs + gradients


def test_batches_of_unequal_length_leave_blocks_that_do_not_serve_the_next() -> None:
    """Only the high end says so, and it does not make a device too small that would do without the cache."""
    facts: dict[str, Any] = {
        "method": "lora", "lora_rank": 8, "lora_targets": ["q_proj"], "weight_dtype": "bf16", "sequence_length": 4096,
    }  # fmt: skip
    for tokens, limited in ((1024, False), (4096, True)):
        even, uneven = (
            estimate("transformers", 1, **{**facts, "packing": packing, "sequence_length": tokens}).memory
            for packing in (True, False)
        )
        assert even.reserved and uneven.reserved and uneven.used and uneven.allocated and uneven.capacity
        assert uneven.reserved.expected == pytest.approx(even.reserved.expected)
        states = 2 * PARAMETERS + 32 * 8 * 8192 * 12
        high = states + 3.7 * (uneven.allocated.expected - states)
        assert (high > uneven.capacity) is limited
        assert uneven.reserved.high == pytest.approx(uneven.capacity * 0.985 if limited else high, rel=1e-3)
        assert uneven.reserved.high > even.reserved.high
        assert even.verdict == uneven.verdict == "fits"


def test_it_fails_for_sure_only_where_live_tensors_do_not_fit() -> None:
    """What the allocator caches is given back before an allocation fails: such a run is likely to fail at most."""
    facts: dict[str, Any] = {
        "method": "full", "weight_dtype": "bf16", "compute_dtype": "bf16", "fsdp": "full_shard", "fsdp_version": 1,
        "optimizer": "adamw_torch",
    }  # fmt: skip
    verdicts = {}
    for tokens in (8192, 12288, 16384, 20480):
        memory = estimate("transformers", 4, sequence_length=tokens, **facts).memory
        assert memory.allocated and memory.used and memory.capacity
        verdicts[tokens] = memory.verdict
        assert (memory.verdict == "oom") is (memory.used.low > memory.capacity)
        assert memory.verdict != "oom" or memory.allocated.low > 0.97 * memory.capacity
    assert list(verdicts.values()) == sorted(verdicts.values(), key=["fits", "tight", "likely-oom", "oom"].index)
    assert {"likely-oom", "oom"} <= set(verdicts.values())


def test_a_rank_of_ddp_keeps_humps_apart_as_one_gpu_does() -> None:
    """fsdp-qlora of the training hold-out: 20.94 and 22.04 GiB reserved, where 16.7 and 20.3 were expected."""
    facts: dict[str, Any] = {
        "method": "lora", "lora_rank": 8, "lora_targets": ["q_proj"], "weight_dtype": "bf16", "sequence_length": 2048,
    }  # fmt: skip
    one, four = (estimate("transformers", gpus, **facts).memory for gpus in (1, 4))
    assert one.allocated and one.reserved and four.allocated and four.reserved
    hump = one.reserved.expected - one.allocated.expected * 1.025
    assert hump > 0.5 * GIB
    assert four.reserved.expected - four.allocated.expected * 1.025 == pytest.approx(hump, rel=1e-6)


@pytest.mark.parametrize(
    ("framework", "version", "quantization", "saved"),
    [
        # PEFT converts adapters alone: copies of modules keep the base's dtype
        ("transformers", None, None, 2),
        ("peft", None, "nf4", 4),
        ("trl", "0.12.1", "nf4", 2),
        ("llamafactory", None, None, 4),
    ],
)
def test_modules_saved_beside_adapters(
    framework: str, version: str | None, quantization: str | None, saved: int
) -> None:
    """The head trained whole: its copy, gradients and Adam's states in its own dtype."""
    head, factors = 128256 * 4096, 32 * 16 * (4096 + 4096)
    states = component(
        estimate(
            framework, 1, method="lora", quantization=quantization, weight_dtype="bf16", compute_dtype="bf16",
            lora_rank=16, lora_targets=["q_proj"], lora_modules_to_save=["lm_head"], framework_version=version,
            optimizer="adamw_torch",
        ),
        "optimizer states",
    )  # fmt: skip
    assert states == pytest.approx(2 * (head * saved + factors * 4), rel=1e-6)


@pytest.mark.parametrize(
    ("targets", "sides"),
    [
        (["shared_expert.up_proj", "shared_expert.down_proj"], 2 * (2048 + 5632)),
        (["experts.up_proj"], 60 * (2048 + 1408)),
        (["up_proj"], 60 * (2048 + 1408) + 2048 + 5632),
    ],
)
def test_targets_that_name_the_owner_of_a_projection(targets: list[str], sides: int) -> None:
    """PEFT compares the end of a module's name: ``shared_expert.up_proj`` is no routed expert's."""
    config = {
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936,
    }  # fmt: skip
    facts = {"method": "lora", "lora_rank": 8, "lora_targets": targets, "weight_dtype": "bf16", "compute_dtype": "bf16"}
    found = estimate("axolotl", 1, config, framework_version="0.13.0", **facts)
    assert found.trainable_parameters == 24 * 8 * sides
    # what the routed experts read is saved by their adapters alone, so by more than the shared expert's
    routed = estimate(
        "axolotl", 1, config, framework_version="0.13.0", **{**facts, "lora_targets": ["experts.up_proj"]}
    )
    more = found.memory.phases["backward"] - routed.memory.phases["backward"]
    assert (more < 0) is (targets[0].startswith("shared"))


@pytest.mark.parametrize(("release", "whole"), [("0.12.2", False), ("0.13.0", True), (None, True)])
def test_libraries_that_a_release_of_axolotl_pins(release: str | None, whole: bool) -> None:
    """accelerate 1.10 until 0.12, whose ``no_sync`` did nothing for FSDP2; 1.11 since, with which gradients stay whole."""
    found = estimate(
        "axolotl", 8, method="full", weight_dtype="bf16", compute_dtype="bf16", fsdp="full_shard", fsdp_version=2,
        gradient_accumulation_steps=4, framework_version=release, micro_batch_size=1, sequence_length=512,
    )  # fmt: skip
    assert (component(found, "gradients") > PARAMETERS * 1.9) is whole
    assert pinned("axolotl", "0.12.2")["accelerate"] == "1.10.0"
    assert pinned("axolotl", "0.3.0") == pinned("trl", "0.12.0") == pinned("axolotl", None) == {}


@pytest.mark.parametrize(("accelerate", "stored"), [("0.29.3", 2), ("0.30.0", 4), (None, 4)])
def test_accelerate_holds_what_fsdp_trains_in_fp32_since_a_release(accelerate: str | None, stored: int) -> None:
    found = estimate(
        "transformers", 4, versions={"accelerate": accelerate} if accelerate else {}, method="full", weight_dtype="bf16",
        compute_dtype="bf16", fsdp="full_shard", fsdp_version=1, micro_batch_size=1, sequence_length=512,
    )  # fmt: skip
    assert component(found, "weights") == pytest.approx(PARAMETERS * stored / 4)


def test_what_a_loss_keeps_of_the_batch_before_is_not_in_the_low_end_of_unequal_batches() -> None:
    """litgpt's tables of Oct 2023, whose longest sample came first, lie as far below the estimate."""
    facts: dict[str, Any] = {
        "method": "qlora", "quantization": "nf4", "lora_rank": 8, "lora_targets": ["query", "value"], "weight_dtype": "bf16",
        "framework_version": "0.5.4", "gradient_checkpointing": "none", "micro_batch_size": 1, "sequence_length": 1024,
    }  # fmt: skip
    packed, plain = (estimate("litgpt", 1, packing=packing, **facts).memory.allocated for packing in (True, False))
    assert packed and plain and packed.expected == plain.expected
    # inputs of the projections: queries, output, gate and up as one, down
    kept = 32 * 1024 * (3 * 4096 + 14336) * 2
    assert packed.low - plain.low == pytest.approx(kept * 0.96, rel=0.01)


@pytest.mark.parametrize(
    ("framework", "release", "adapters"),
    [
        ("trl", "0.26.0", 2),
        ("alignment-handbook", "0.26.0", 4),
        ("open-r1", "0.1.0", 4),
        ("alignment-handbook", None, 4),
    ],
)
def test_a_version_of_a_project_that_builds_on_trl_is_not_one_of_trl(
    framework: str, release: str | None, adapters: int
) -> None:
    found = estimate(
        framework, 1, method="qlora", quantization="nf4", weight_dtype="bf16", compute_dtype="bf16", lora_rank=64,
        lora_targets=["q_proj"], framework_version=release, optimizer="adamw_torch",
    )  # fmt: skip
    assert component(found, "optimizer states") == 32 * 64 * (4096 + 4096) * 2 * adapters


def test_a_version_of_peft_is_not_one_of_transformers() -> None:
    """Adapters share the weights' dtype before PEFT 0.12; transformers' release stays unknown."""
    found = {
        version: estimate("peft", 1, method="lora", lora_rank=64, lora_targets=["q_proj"], weight_dtype="bf16",
                          framework_version=version)
        for version in ("0.11.1", "0.15.2", "4.40.0")
    }  # fmt: skip
    factors = 32 * 64 * (4096 + 4096)
    weights = {version: component(each, "weights") for version, each in found.items()}
    assert weights["0.15.2"] - weights["0.11.1"] == factors * 2
    assert weights["4.40.0"] == weights["0.15.2"]
    assert found["0.15.2"].memory.phases["forward"] != found["4.40.0"].memory.phases["forward"]


QWEN3_MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


def mixture(**facts: Any) -> Estimate:
    job = TrainingJob("job")
    settings = {
        "framework": "megatron",
        "method": "pretrain",
        "micro_batch_size": 1,
        "sequence_length": 4096,
        "packing": True,
        "gradient_checkpointing": "none",
        "optimizer": "adamw_torch_fused",
        "zero_stage": 1,
        **facts,
    }
    for name, value in settings.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    job.model = ModelFacts("model", architecture_from_config(QWEN3_MOE), "inline", CatalogueOrigin("test"))
    job.hardware = Hardware(find_accelerators("B200"), "B200", 8, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    return estimate_training(job)


def test_expert_parallel_ranks_hold_gradients_of_their_own_experts() -> None:
    """The block's backward leaves an eighth of the experts' gradients: no more than the states count."""
    found = mixture(framework="torchtitan", fsdp="full_shard", fsdp_version=2, zero_stage=None, expert_parallel_size=8)
    trained = found.trainable_parameters
    assert trained is not None
    assert component(found, "gradients") <= trained * 4 / 8 * 1.01


def test_tensor_parallelism_divides_what_experts_compute() -> None:
    """By width where the experts' matrices are cut; by tokens where experts are whole on expert-parallel ranks."""
    whole = component(mixture(micro_batch_size=16), "activations")
    width = component(mixture(micro_batch_size=16, tensor_parallel_size=4, sequence_parallel=True), "activations")
    tokens = component(
        mixture(micro_batch_size=16, tensor_parallel_size=4, expert_parallel_size=8, sequence_parallel=True),
        "activations",
    )
    assert tokens < width < whole
    assert tokens == pytest.approx(whole / 4, rel=0.2)


def test_composers_adamw_is_a_loop_over_tensors() -> None:
    facts: dict[str, Any] = {
        "method": "pretrain",
        "optimizer": "adamw_torch",
        "micro_batch_size": 1,
        "sequence_length": 64,
    }
    loop = estimate("llm-foundry", gpus=1, **facts)
    foreach = estimate("llm-foundry", gpus=1, optimizer_foreach=True, **facts)
    steps = [found.memory.phases["step"] for found in (foreach, loop)]
    # one tensor's temporaries, the embedding's, in place of a copy of everything
    assert steps[0] - steps[1] == pytest.approx((PARAMETERS - 2 * 128256 * 4096) * 4, rel=0.01)


MISTRAL_7B: dict[str, Any] = {**LLAMA_8B, "model_type": "mistral", "vocab_size": 32000}
FSDP: dict[str, Any] = {
    "method": "full",
    "fsdp": "full_shard",
    "fsdp_version": 1,
    "weight_dtype": "fp16",
    "compute_dtype": "none",
}


@pytest.mark.parametrize(
    ("gpus", "micro_batch", "measured"), [(2, 8, 36.49), (4, 4, 26.12), (8, 2, 20.95), (8, 8, 21.2), (8, 16, 22.37)]
)
def test_the_trainer_keeps_gradients_whole_between_micro_steps(gpus: int, micro_batch: int, measured: float) -> None:
    """fms-mp: Mistral-7B in fp16 under FSDP 1, two micro-steps of unpadded samples of 280 tokens on the mean."""
    facts = {"micro_batch_size": micro_batch, "gradient_accumulation_steps": 2, "sequence_length": 280}
    found = estimate("trl", gpus, MISTRAL_7B, **FSDP, **facts, optimizer="adamw_torch").memory
    assert found.allocated is not None
    assert found.allocated.expected / GIB == pytest.approx(measured, rel=0.025)
    sharded = estimate("trl", gpus, MISTRAL_7B, **FSDP, **facts, reduces_each_micro_step=True).memory
    assert sharded.allocated is not None and sharded.allocated.expected < found.allocated.expected * 0.95


@pytest.mark.parametrize(
    ("framework", "version", "releases", "bytes_each"),
    [
        ("trl", 1, {}, 2),
        ("trl", 2, {"accelerate": "1.12.0"}, 2),
        ("trl", 2, {"accelerate": "1.10.0"}, 0),
        ("nemo-automodel", 2, {}, 4),
        ("roll", 2, {}, 4),
        ("verl", 1, {}, 0),
        ("lightning", 1, {}, 0),
        ("torchtune", 2, {}, 0),
        ("llama-recipes", 1, {}, 0),
        ("llm-foundry", 1, {}, 0),
    ],
)
def test_whose_gradients_stay_whole(framework: str, version: int, releases: dict[str, str], bytes_each: int) -> None:
    facts = {**FSDP, "fsdp_version": version, "weight_dtype": "fp32", "compute_dtype": "bf16", "micro_batch_size": 1}
    one, several = (
        component(estimate(framework, 8, versions=releases, **facts, gradient_accumulation_steps=steps), "gradients")
        for steps in (1, 4)
    )
    assert several == pytest.approx(PARAMETERS * bytes_each if bytes_each else PARAMETERS * 4 / 8)
    assert one <= PARAMETERS * 4 / 8 * 1.001


def test_whole_gradients_are_said_to_be_whole() -> None:
    made = estimate("trl", 8, **FSDP, gradient_accumulation_steps=4)
    (gradients,) = (c for c in made.memory.components if c.name == "gradients")
    assert gradients.formula == "8.03 B × 2 bytes, whole until the last micro-step"
    assert "gradients are reduced in the last micro-step only: FSDP keeps them whole until then" in made.assumptions


def test_where_the_release_is_open_the_low_end_has_them_sharded() -> None:
    facts = {**FSDP, "fsdp_version": 2, "gradient_accumulation_steps": 4, "micro_batch_size": 1}
    one_release = estimate("trl", 8, versions={"accelerate": "1.12"}, **facts).memory.allocated
    open_release = estimate("trl", 8, **facts).memory.allocated
    assert one_release is not None and open_release is not None
    assert open_release.expected == one_release.expected
    assert one_release.low - open_release.low > 0.6 * PARAMETERS * 2


def test_adapters_have_no_whole_gradients_to_keep() -> None:
    facts = {**FSDP, "method": "lora", "lora_rank": 8, "gradient_accumulation_steps": 4}
    assert component(estimate("trl", 8, **facts), "gradients") < PARAMETERS / 100


def test_nemo_under_fsdp2_runs_transformers_models() -> None:
    facts = {**FSDP, "fsdp_version": 2, "weight_dtype": "bf16", "compute_dtype": "bf16", "optimizer": "adamw_torch"}
    one, other = (estimate(name, 8, **facts).memory.allocated for name in ("nemo", "nemo-automodel"))
    assert one is not None and one == other
    megatron = estimate("nemo", 8, method="full", weight_dtype="bf16").memory.allocated
    assert megatron is not None and megatron.expected != one.expected


def test_axolotls_lora_kernels_by_release() -> None:
    """Switched on by Axolotl itself since 0.10 where nothing stands against it; without a release only the low end says so."""
    lora = {"method": "lora", "lora_rank": 16, "lora_targets": ["all-linear"], "gradient_checkpointing": "none"}

    def bounds(**facts: Any) -> tuple[float, float]:
        found = estimate("axolotl", gpus=1, **{**lora, **facts}).memory.allocated
        assert found is not None
        return found.low, found.expected

    chain, kernels = bounds(lora_kernels=[]), bounds(lora_kernels=["mlp", "qkv", "o"])
    assert kernels[1] < 0.8 * chain[1]
    assert bounds(framework_version="0.16.1") == kernels
    assert bounds(framework_version="0.12.0", lora_dropout=0.0) == kernels
    # an unset dropout is not 0: axolotl before 0.16 then leaves them off
    assert bounds(framework_version="0.12.0")[1] == chain[1]
    assert bounds(framework_version="0.9.2", lora_dropout=0.0)[1] == chain[1]
    assert bounds(framework_version="0.16.1", method="dpo+lora")[1] > bounds(framework_version="0.16.1")[1]
    assert bounds() == (kernels[0], chain[1])


UNSLOTH: dict[str, Any] = {
    "method": "lora", "lora_rank": 16, "lora_targets": "all-linear", "lora_dropout": 0.0, "weight_dtype": "bf16",
    "compute_dtype": "bf16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("release", "bytes_each"),
    [
        # logits in 16 bits, over which the kernel writes their gradient, and accelerate's fp32 copy of what the model returns
        ("2024.5", 6),
        ("2024.11.6", 6),
        # one piece: its fp32 logits are 15.7 GiB, of 64 that are free
        ("2025.9.1", 4),
    ],
)
def test_unsloths_loss_by_release(release: str, bytes_each: int) -> None:
    """``fast_cross_entropy_loss`` until November 2024; since September 2025 pieces as large as the free memory allows."""
    memory = estimate("unsloth", gpus=1, framework_version=release, **UNSLOTH).memory
    made = next(part.bytes for part in memory.components if part.name == "logits and loss")
    assert bytes_each * LOGITS <= made <= bytes_each * LOGITS + GIB


def test_unsloths_short_batches_make_whole_logits() -> None:
    """``bsz * q_len <= 1024`` from November 2024 to September 2025: unpacked batches may be so short, which the high end holds."""
    small = {
        **LLAMA_8B,
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "tie_word_embeddings": True,
    }
    facts = {**UNSLOTH, "micro_batch_size": 1, "sequence_length": 2048, "framework_version": "2025.4.7"}

    def above(**stated: Any) -> float:
        memory = estimate("unsloth", gpus=1, config=small, **{**facts, **stated}).memory
        assert memory.allocated is not None
        return memory.allocated.high - memory.phases["load"]

    assert above(packing=False) > 6 * 1024 * 128256 > 2 * above(packing=True)


def test_unsloths_kernel_caps_logits_itself() -> None:
    def made(**config: Any) -> float:
        gemma = {
            **LLAMA_8B,
            "model_type": "gemma2",
            "head_dim": 128,
            "query_pre_attn_scalar": 128,
            "sliding_window": 4096,
            **config,
        }
        memory = estimate("unsloth", gpus=1, config=gemma, framework_version="2024.7", **UNSLOTH).memory
        return next(part.bytes for part in memory.components if part.name == "logits and loss")

    assert made(final_logit_softcapping=30.0) == pytest.approx(made(final_logit_softcapping=None))
    assert made(final_logit_softcapping=30.0) == pytest.approx(6 * LOGITS, rel=0.05)


@pytest.mark.parametrize(("gpu", "pieces"), [("H100-SXM", 1), ("L4", 4)])
def test_unsloths_fused_loss_takes_half_of_what_is_free(gpu: str, pieces: int) -> None:
    """Pieces in fours once the fp32 logits of all exceed what the weights leave (``get_chunk_size``)."""
    facts = {**UNSLOTH, "framework_version": "2025.9.1", "micro_batch_size": 2}  # 7.8 GiB of fp32 logits
    job = TrainingJob("job")
    for name, value in {"framework": "unsloth", "sequence_length": 8192, "packing": True, **facts}.items():
        job.state(name, value, FlagOrigin(f"--{name}"))
    job.model = ModelFacts("model", architecture_from_config(LLAMA_8B), "a config of the test", CatalogueOrigin("test"))
    job.hardware = Hardware(find_accelerators(gpu), gpu, 1, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    phases = estimate_training(job).memory.phases
    above = phases["forward"] - phases["load"]
    logits = 2 * 8192 * 128256 * 4 / pieces
    assert logits <= above <= logits + 2 * GIB


def test_unsloths_lora_kernels() -> None:
    """``patch_peft_model``: no dropout, no bias; Qwen2's biased projections keep PEFT's chain, and models not listed all of it."""

    def expected(config: dict[str, Any] = LLAMA_8B, **facts: Any) -> tuple[float, float]:
        settings = {**UNSLOTH, "gradient_checkpointing": "none", "framework_version": "2025.8.1", **facts}
        found = estimate("unsloth", gpus=1, config=config, **settings).memory.allocated
        assert found is not None
        return found.low, found.expected

    kernels, chain = expected(), expected(lora_dropout=0.05)
    assert kernels[1] < 0.75 * chain[1]
    assert expected({**LLAMA_8B, "model_type": "qwen2"})[1] > kernels[1]
    unknown = expected(framework_version=None)
    assert unknown[0] == pytest.approx(kernels[0], rel=0.01) and unknown[1] > 1.2 * kernels[1]


@pytest.mark.parametrize(("compute", "masters"), [("fp16", 4 * PARAMETERS), ("none", 0)])
def test_deepspeeds_engine_has_fp32_masters_without_zero_too(compute: str, masters: int) -> None:
    """``_configure_fp16_optimizer`` at stage 0; a run in fp32 has none."""
    stored = "fp16" if masters else "fp32"
    facts = {"method": "full", "weight_dtype": stored, "compute_dtype": compute, "zero_stage": 0}
    memory = estimate("deepspeed", gpus=1, **facts).memory
    assert sum(part.bytes for part in memory.components if part.name == "master weights") == masters


@pytest.mark.parametrize(("compute", "freed"), [("fp16", 2), ("bf16", 4)])
def test_what_loading_a_quantized_model_leaves_in_the_cache_is_in_the_high_end(compute: str, freed: int) -> None:
    """16-bit embeddings and head whose fp32 copies were made; under bf16 TRL casts back, and those go in turn."""
    facts = {"framework_version": "0.25.0", "method": "qlora", "quantization": "nf4", "weight_dtype": compute}
    memory = estimate("trl", gpus=1, compute_dtype=compute, loss_kernel="fused_linear", **facts).memory
    assert memory.reserved is not None and memory.allocated is not None
    without = max(memory.allocated.high, 1.1 * memory.reserved.expected)
    assert memory.reserved.high - without == pytest.approx(2 * 128256 * 4096 * freed, rel=1e-6)


def test_a_loop_around_stage_3_may_have_had_the_whole_model_on_the_device() -> None:
    """``zero.Init`` is the loop's own to call; what was there before the partition stays in the cache, so the high end has it."""
    facts = {"method": "full", "weight_dtype": "bf16", "compute_dtype": "bf16", "zero_stage": 3}
    reserved = estimate("deepspeed", gpus=8, **facts).memory.reserved
    assert reserved is not None
    assert reserved.high - 1.6 * reserved.expected == pytest.approx(2 * PARAMETERS, rel=0.01)
