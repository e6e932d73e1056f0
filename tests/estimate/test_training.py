"""The training estimator on jobs made of facts: partial, impossible, and with known answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cfglint.catalog.accelerators import find_accelerators
from cfglint.catalog.architecture import Architecture, Layer, architecture_from_config
from cfglint.estimate.batch import estimate_batch
from cfglint.estimate.compute import estimate_compute
from cfglint.estimate.result import Estimate, Interval
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.resolve import resolve
from cfglint.estimate.verdict import decide, verdict_for
from cfglint.jobs.facts import UNKNOWN, CatalogueOrigin, FlagOrigin
from cfglint.jobs.job import Hardware, ModelFacts, TrainingJob

GIB = 2**30

LLAMA_1B = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "tie_word_embeddings": True,
}  # fmt: skip
MISTRAL_7B = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
COMPLETE: dict[str, Any] = {
    "framework": "transformers", "method": "full", "weight_dtype": "bf16", "compute_dtype": "none",
    "micro_batch_size": 1, "sequence_length": 1024, "packing": True, "gradient_checkpointing": "full",
    "attention": "sdpa", "optimizer": "adamw_torch",
}  # fmt: skip


def job(
    config: dict[str, Any] | Architecture | None = None, gpu: str = "A100-80GB", gpus: int | None = 1, **facts: Any
) -> TrainingJob:
    made = TrainingJob("test")
    for name, value in facts.items():
        if value is not None:
            made.state(name, value, FlagOrigin(f"--set {name}"))
    config = MISTRAL_7B if config is None else config
    architecture = config if isinstance(config, Architecture) else architecture_from_config(config)
    made.model = ModelFacts("test", architecture, "inline", CatalogueOrigin("test"))
    made.hardware = Hardware(
        find_accelerators(gpu) if gpu else (), gpu, gpus, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus")
    )
    return made


def complete(**changes: Any) -> TrainingJob:
    config, gpu, gpus = changes.pop("config", None), changes.pop("gpu", "A100-80GB"), changes.pop("gpus", 1)
    return job(config, gpu, gpus, **{**COMPLETE, **changes})


def allocated(estimate: Estimate) -> float:
    assert estimate.memory.allocated is not None
    return estimate.memory.allocated.expected / GIB


def test_pure_16_bit_adam_peaks_at_the_step_with_ten_bytes_a_parameter() -> None:
    estimate = estimate_training(complete(micro_batch_size=4, sequence_length=4096))
    # weights 2, gradients 2, Adam 4, and the foreach step's copy 2: 67.46 GiB measured (fms-main-009)
    assert allocated(estimate) == pytest.approx(7.2417e9 * 10 / GIB, rel=0.002)
    assert max(estimate.memory.phases, key=lambda phase: estimate.memory.phases[phase]) == "step"


def test_the_fused_kernel_needs_no_copy_and_adafactor_no_states() -> None:
    foreach = estimate_training(complete()).memory.phases["step"]
    fused = estimate_training(complete(optimizer="adamw_torch_fused")).memory.phases["step"]
    assert foreach - fused == pytest.approx(7.2417e9 * 2, rel=0.001)
    adafactor = estimate_training(complete(optimizer="adafactor")).memory
    # weights and gradients, then 16 bytes for each element of the largest matrix
    assert adafactor.phases["step"] == pytest.approx(7.2417e9 * 4 + 14336 * 4096 * 16 + 32000 * 4096 * 8, rel=0.03)


@pytest.mark.parametrize(
    ("optimizer", "per_parameter"), [("adamw_torch", 4), ("adamw_8bit", 2 * (1 + 4 / 256)), ("lion", 2), ("sgd", 0)]
)
def test_optimizer_states(optimizer: str, per_parameter: float) -> None:
    memory = estimate_training(complete(optimizer=optimizer, framework="torchtune")).memory
    states = next((c.bytes for c in memory.components if c.name == "optimizer states"), 0.0)
    assert states == pytest.approx(7.2417e9 * per_parameter, rel=0.001)


def test_8_bit_states_of_transformers_keep_embeddings_in_32_bits() -> None:
    plain = fullest_stage(resolve(complete(optimizer="adamw_8bit", framework="torchtune")))
    trainer = fullest_stage(resolve(complete(optimizer="adamw_8bit")))
    assert plain is not None and trainer is not None
    assert trainer.states.optimizer - plain.states.optimizer == pytest.approx(
        32000 * 4096 * (8 - 2 * (1 + 4 / 256)), rel=0.005
    )


def test_logits_dominate_a_small_model_with_a_big_vocabulary() -> None:
    memory = estimate_training(complete(config=LLAMA_1B, micro_batch_size=4, sequence_length=2048)).memory
    logits = next(c for c in memory.components if c.name == "logits and loss")
    # log-probabilities, their gradient and the softmax's: three fp32 tensors, beside the head's own tensors
    assert logits.bytes == pytest.approx(4 * 2048 * 128256 * 12, rel=0.06)
    fused = estimate_training(
        complete(config=LLAMA_1B, micro_batch_size=4, sequence_length=2048, loss_kernel="fused_linear")
    )
    assert allocated(fused) < memory.allocated.expected / GIB - 7  # type: ignore[union-attr]


def test_checkpointing_keeps_one_hidden_state_a_layer() -> None:
    without = estimate_training(complete(config=LLAMA_1B, gradient_checkpointing="none", loss_kernel="fused_linear"))
    with_ = estimate_training(complete(config=LLAMA_1B, loss_kernel="fused_linear"))
    saved = without.memory.phases["forward"] - with_.memory.phases["forward"]
    # 16 layers each drop far more than the 4 MiB of their input
    assert saved > 16 * 20 * 1024 * 2048 * 2


def test_accumulation_keeps_gradients_through_forward() -> None:
    once = estimate_training(complete(config=LLAMA_1B)).memory.phases["forward"]
    more = estimate_training(complete(config=LLAMA_1B, gradient_accumulation_steps=4)).memory.phases["forward"]
    assert more - once == pytest.approx(1.2358e9 * 2, rel=0.001)


def test_autocast_over_fp32_weights_caches_16_bit_copies_in_forward() -> None:
    pure = estimate_training(complete(config=LLAMA_1B, weight_dtype="fp32")).memory.phases["forward"]
    mixed = estimate_training(complete(config=LLAMA_1B, weight_dtype="fp32", compute_dtype="bf16")).memory
    assert mixed.phases["forward"] > pure - 1024 * 128256 * 4
    assert any(c.name == "autocast weight cache" for c in mixed.components) or mixed.phases["backward"] > 0


def test_a_lora_run_holds_states_of_adapters_only() -> None:
    estimate = estimate_training(complete(method="lora", lora_rank=16, lora_targets=["q_proj", "v_proj"]))
    # 32 layers: rank 16 on q (4096 × 4096) and v (4096 × 1024)
    assert estimate.trainable_parameters == 32 * 16 * (4096 + 4096 + 4096 + 1024)
    states = next(c for c in estimate.memory.components if c.name == "optimizer states")
    assert states.bytes == pytest.approx(estimate.trainable_parameters * 8)


def test_quantized_weights_with_their_block_constants() -> None:
    estimate = estimate_training(
        complete(method="qlora", quantization="nf4", upcast_unquantized=True, lora_rank=8, lora_targets=["q_proj"])
    )
    weights = next(c for c in estimate.memory.components if c.name == "weights")
    linear = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 4096 * 14336 * 3)
    rest = 32000 * 4096 * 2 + 65 * 4096
    adapters = 32 * 8 * (4096 + 4096) * 4
    assert weights.bytes == pytest.approx(linear * (0.5 + 4 / 64) + rest * 4 + adapters, rel=1e-6)
    assert "0.562 bytes (nf4)" in weights.formula


def test_full_sharding_divides_states_by_ranks() -> None:
    one = estimate_training(complete()).memory.phases["step"]
    two = estimate_training(complete(gpus=2, fsdp="full_shard", fsdp_version=1)).memory.phases["step"]
    assert two == pytest.approx(one / 2, rel=0.001)


def test_zero_2_does_not_shard_a_frozen_base_but_zero_3_does() -> None:
    lora = {"method": "lora", "lora_rank": 8, "lora_targets": ["q_proj"], "gpus": 8}

    def weights(stage: int) -> float:
        components = estimate_training(complete(zero_stage=stage, **lora)).memory.components
        return next(c.bytes for c in components if c.name == "weights")

    assert weights(2) == pytest.approx(7.2417e9 * 2, rel=0.01)
    assert weights(3) == pytest.approx(7.2417e9 * 2 / 8, rel=0.01)


def test_experts_states_are_shared_by_the_ranks_that_hold_the_same_experts() -> None:
    config = {
        "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "num_local_experts": 8,
        "num_experts_per_tok": 2, "tie_word_embeddings": False,
    }  # fmt: skip
    facts = {"framework": "megatron", "zero_stage": 1, "gpus": 8, "config": config, "master_weights": True}
    spread = estimate_training(complete(expert_parallel_size=8, **facts)).memory
    masters = next(c.bytes for c in spread.components if c.name == "master weights")
    experts = 4 * 8 * 3 * 1024 * 2048
    # each rank holds one expert of every layer and is alone with it
    assert masters >= experts / 8 * 4


def test_cpu_offload_moves_states_to_the_host() -> None:
    memory = estimate_training(complete(gpus=8, zero_stage=3, offload_optimizer="cpu")).memory
    # per node, eight ranks: master weights 4, Adam 8, fp32 gradients 4
    assert memory.host is not None and memory.host.low == pytest.approx(7.2417e9 * 16, rel=0.01)
    assert not any(c.name == "gradients" for c in memory.components)
    assert not any(c.name == "optimizer states" for c in memory.components)


def test_preference_methods_put_two_sequences_through_and_hold_a_reference() -> None:
    sft = estimate_training(complete(config=LLAMA_1B))
    dpo = estimate_training(complete(config=LLAMA_1B, method="dpo"))
    orpo = estimate_training(complete(config=LLAMA_1B, method="orpo"))
    base = 1.2358e9 * 2
    assert dpo.memory.phases["load"] - sft.memory.phases["load"] == pytest.approx(base, rel=0.001)
    assert orpo.memory.phases["load"] == pytest.approx(sft.memory.phases["load"], rel=0.001)
    assert orpo.memory.phases["forward"] > sft.memory.phases["forward"]


def test_components_add_up_to_the_peak_and_name_their_origins() -> None:
    for changes in ({}, {"gradient_accumulation_steps": 4}, {"gpus": 8, "fsdp": "full_shard", "fsdp_version": 2}):
        memory = estimate_training(complete(**changes)).memory
        assert memory.allocated is not None
        assert sum(c.bytes for c in memory.components) == pytest.approx(memory.allocated.expected)
        weights = next(c for c in memory.components if c.name == "weights")
        assert ("weight_dtype", "bf16", "--set weight_dtype") in [(i.fact, i.value, i.origin) for i in weights.inputs]


def test_missing_facts_are_named_and_nothing_is_guessed() -> None:
    estimate = estimate_training(job(framework="torchtitan", method="pretrain"))
    assert estimate.memory.verdict == "unknown"
    assert set(estimate.memory.missing) == {"micro_batch_size", "sequence_length"}
    assert estimate.memory.allocated is None
    assert estimate.memory.phases["load"] > 0  # the states are known all the same


def test_defaults_are_said_and_widen_the_interval() -> None:
    stated = estimate_training(complete())
    assumed = estimate_training(complete(gradient_checkpointing=None, optimizer=None))
    assert any("gradient_checkpointing is not stated" in a for a in assumed.assumptions)
    assert stated.memory.allocated is not None and assumed.memory.allocated is not None

    def width(interval: Interval) -> float:
        return (interval.high - interval.low) / interval.expected

    assert width(assumed.memory.allocated) > 2 * width(stated.memory.allocated)


def test_states_alone_over_capacity_are_an_oom_whatever_is_missing() -> None:
    estimate = estimate_training(
        complete(gpu="T4", micro_batch_size=None, sequence_length=None, framework="torchtitan")
    )
    assert estimate.memory.missing == ["micro_batch_size", "sequence_length"]
    assert estimate.memory.verdict == "oom"


def test_an_assumed_fact_alone_never_makes_an_oom() -> None:
    # without checkpointing this does not fit; with it, it does, and the files do not say
    facts = {
        "micro_batch_size": 8,
        "sequence_length": 4096,
        "method": "lora",
        "lora_rank": 8,
        "lora_targets": ["q_proj"],
    }
    assert estimate_training(complete(gradient_checkpointing="none", **facts)).memory.verdict == "oom"
    assert estimate_training(complete(gradient_checkpointing=None, **facts)).memory.verdict == "likely-oom"


def test_several_accelerators_give_a_verdict_only_where_they_agree() -> None:
    cards = find_accelerators("A100-40GB")[:1] + find_accelerators("A100-80GB")[:1]
    used = Interval.exactly(60 * GIB)
    assert decide(used, cards, []) == ("unknown", None)
    assert decide(Interval.exactly(20 * GIB), cards, [])[0] == "fits"
    assert decide(Interval.exactly(90 * GIB), cards, [])[0] == "oom"
    assert decide(used, (), [])[0] == "unknown"
    assert decide(used, cards[1:], ["sequence_length"])[0] == "unknown"


def test_verdict_ladder() -> None:
    assert verdict_for(Interval(1, 2, 3), 4) == "fits"
    assert verdict_for(Interval(1, 2, 5), 4) == "tight"
    assert verdict_for(Interval(1, 4.5, 5), 4) == "likely-oom"
    assert verdict_for(Interval(4.2, 4.5, 5), 4) == "oom"


@pytest.mark.parametrize(
    ("fact", "value"),
    [("micro_batch_size", -1), ("micro_batch_size", 0), ("sequence_length", 0.5), ("micro_batch_size", "many")],
)
def test_impossible_values_are_named(fact: str, value: Any) -> None:
    estimate = estimate_training(complete(**{fact: value}))
    assert fact in estimate.memory.missing
    assert any(fact in text and "whole number" in text for text in estimate.assumptions)
    assert estimate.memory.verdict == "unknown"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**30])
def test_numbers_nothing_can_be_worked_out_with_are_missing(value: Any) -> None:
    memory = estimate_training(complete(sequence_length=value)).memory
    assert "sequence_length" in memory.missing
    assert memory.verdict == "unknown"


def test_ranks_that_do_not_divide_are_named() -> None:
    estimate = estimate_training(complete(gpus=8, tensor_parallel_size=3))
    assert any("cannot be divided" in text for text in estimate.assumptions)


def test_a_model_without_layers_or_counts_gives_no_figure() -> None:
    empty = Architecture("odd", None, 64, 100, 0, 0, 0, 0, (Layer(0, "none", "none"),))
    estimate = estimate_training(complete(config=empty))
    assert estimate.memory.missing == ["model"] and estimate.memory.verdict == "unknown"


def test_a_model_known_by_its_size_alone_is_estimated_with_an_assumption() -> None:
    layers = tuple(Layer(i, "full_attention", "dense", 14336, 32, 8, 128) for i in range(32))
    sized = Architecture(
        "odd", None, 4096, 32000, 32, 8, 128, 14336, layers, total_parameters=7_241_732_096
    )  # fmt: skip
    estimate = estimate_training(complete(config=sized))
    assert allocated(estimate) == pytest.approx(allocated(estimate_training(complete())), rel=0.02)
    assert any("number of parameters" in text for text in estimate.assumptions)


def test_stated_but_unknown_values_count_as_missing() -> None:
    made = complete(micro_batch_size=None, framework="torchtitan")
    made.state("micro_batch_size", UNKNOWN, FlagOrigin("--set"))
    assert "micro_batch_size" in estimate_training(made).memory.missing


def test_length_and_depth_cost_no_time() -> None:
    import time

    large = {**MISTRAL_7B, "num_hidden_layers": 126, "hidden_size": 16384, "intermediate_size": 53248,
             "num_attention_heads": 128}  # fmt: skip
    start = time.perf_counter()
    estimate_training(complete(config=large, sequence_length=1_000_000))
    assert time.perf_counter() - start < 0.1


def test_batch_and_compute() -> None:
    made = complete(gpus=8, micro_batch_size=2, gradient_accumulation_steps=4, dataset_tokens=10_000_000)
    batch = estimate_batch(made)
    assert (batch.data_parallel, batch.sequences, batch.tokens, batch.steps_per_epoch) == (8, 64, 65536, 153)
    compute = estimate_compute(made, batch)
    attention = 32 * 4 * 4096 * 1024
    assert compute.flops_per_step == 65536 * (6 * 7_241_732_096 + 3 * attention)
    assert compute.seconds_per_step == {}  # A100-80GB is two cards
    made.hardware = Hardware(find_accelerators("A100-SXM4-80GB"), "A100", 8, 1, None)
    seconds = estimate_compute(made, batch).seconds_per_step
    assert seconds["mfu_40"] == pytest.approx(compute.flops_per_step / (312e12 * 8 * 0.4))
    assert seconds["mfu_60"] == pytest.approx(seconds["mfu_40"] * 2 / 3)


def test_batch_leaves_what_it_cannot_know() -> None:
    batch = estimate_batch(job(gpus=None, micro_batch_size=2, gradient_accumulation_steps=0))
    assert batch.micro_batch == 2
    assert batch.sequences is None and batch.tokens is None


def test_fully_sharded_experts_are_cut_one_by_one() -> None:
    """FSDP2 shards fused experts along the experts: of eight, sixteen ranks hold one each or none."""
    mixtral = {**MISTRAL_7B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    facts = {"config": mixtral, "gpus": 16, "fsdp": "full_shard", "fsdp_version": 2}
    weights = {}
    for release in ("5.24.0", "4.50.0"):
        made = complete(**facts)
        made.versions["transformers"] = release
        weights[release] = next(c for c in estimate_training(made).memory.components if c.name == "weights")
    assert "cut one by one" in weights["5.24.0"].formula
    assert weights["5.24.0"].bytes / weights["4.50.0"].bytes == pytest.approx(2, rel=0.05)


def test_megatron_keeps_gradients_on_the_device_when_the_optimizer_is_offloaded() -> None:
    facts = {"framework": "megatron", "compute_dtype": "bf16", "zero_stage": 1, "gpus": 8, "tensor_parallel_size": 8}
    kept = estimate_training(complete(**facts, offload_optimizer="cpu")).memory
    assert any(c.name == "gradients" and c.bytes > 7.2e9 / 8 * 3.9 for c in kept.components)
    deepspeed = estimate_training(
        complete(framework="deepspeed", compute_dtype="bf16", zero_stage=2, gpus=8, offload_optimizer="cpu")
    ).memory
    assert not any(c.name == "gradients" for c in deepspeed.components)


def test_adapters_on_experts_by_release_of_transformers() -> None:
    """Modules of their own in transformers 4; PEFT adapts the fused parameters of transformers 5, of models it maps."""
    mixtral = {**MISTRAL_7B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    found = {}
    for release in ("5.24.0", "4.50.0"):
        for targets in ("all-linear", "q_proj"):
            made = complete(config=mixtral, gpu="B200", method="lora", lora_rank=16, lora_targets=[targets])
            made.versions["transformers"] = release
            found[release, targets] = estimate_training(made).trainable_parameters
    attention = 32 * 16 * (4096 * 6 + 1024 * 2)
    separate = 32 * 8 * 16 * 3 * (4096 + 14336)
    # gate and up share factors of twice the rank
    fused = 32 * 8 * 16 * (2 * (4096 + 2 * 14336) + 4096 + 14336)
    assert found["4.50.0", "all-linear"] == pytest.approx(attention + separate, rel=0.01)
    assert found["5.24.0", "all-linear"] == pytest.approx(attention + fused, rel=0.01)
    assert found["5.24.0", "q_proj"] == found["4.50.0", "q_proj"] == 32 * 16 * (4096 + 4096)


def adapters(formula: str) -> float:
    """Millions of adapter parameters that a component's formula names."""
    found = re.search(r"adapters ([\d.]+) ([MB])", formula)
    assert found is not None
    return float(found[1]) * (1000 if found[2] == "B" else 1)


@pytest.mark.parametrize(("release", "copies"), [("4.45.2", 6), ("4.48.3", 7), ("4.49.0", 5), ("5.24.0", 5)])
def test_the_loss_of_each_transformers_release(release: str, copies: int) -> None:
    """16-bit logits held or not, the fp32 ones, their shifted copy, and log-probabilities: in units of 16-bit logits."""
    facts = {"method": "lora", "lora_rank": 8, "lora_targets": ["q_proj"], "micro_batch_size": 8}
    peaks = {}
    for length in (4096, 8192):
        made = complete(**facts, sequence_length=length, packing=False)
        made.versions["transformers"] = release
        peaks[length] = estimate_training(made).memory.phases["forward"]
    blocks = 32 * 4096 * 2 + 4096 * (2 + 2)  # kept inputs, the last block's output and the normed one
    unit = 32000 * 2
    per_token = (peaks[8192] - peaks[4096]) / (8 * 4096)
    assert (per_token - blocks) / unit == pytest.approx(copies, abs=0.2)


def test_only_the_number_of_parameters_is_known() -> None:
    unknown = Architecture(
        model_type="odd", architecture=None, hidden_size=2048, vocab_size=32000, num_attention_heads=0,
        num_key_value_heads=0, head_dim=0, intermediate_size=0, tie_word_embeddings=False, layers=(), tensors=(),
        total_parameters=7_000_000_000,
    )  # fmt: skip
    estimate = estimate_training(complete(config=unknown, gpu="T4"))
    assert estimate.memory.missing == ["model"]
    assert any("layers of odd models" in text for text in estimate.assumptions)
    assert estimate.memory.phases["load"] == pytest.approx(7e9 * 2)
    assert estimate.memory.phases["step"] == pytest.approx(7e9 * 10)  # weights, gradients, two states, foreach
    assert estimate.memory.verdict in ("oom", "unknown")


def test_a_reward_models_size_is_not_taken_for_certain() -> None:
    facts = {"gpu": "A100-80GB", "method": "ppo-lora", "lora_rank": 8, "lora_targets": ["q_proj"]}
    memory = estimate_training(complete(**facts)).memory
    assert memory.allocated is not None
    assert memory.allocated.low < 7.25e9 * 2 * 1.4 < memory.allocated.expected


LLAMA_3B = {**LLAMA_1B, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24, "head_dim": 128}


def test_offloaded_activations_wait_on_the_host() -> None:
    """torchtune's README: 23.1 GiB become 21.8 when the inputs of 28 checkpointed blocks of 8,192 tokens are moved."""
    facts = {
        "config": LLAMA_3B, "framework": "torchtune", "optimizer": "adamw_torch_fused", "optimizer_in_backward": True,
        "micro_batch_size": 2, "sequence_length": 4096, "loss_kernel": "chunked", "compile": True,
    }  # fmt: skip
    on_device, moved = (
        allocated(estimate_training(complete(**facts, activation_offloading=on))) for on in (False, True)
    )
    assert on_device - moved == pytest.approx(28 * 8192 * 3072 * 2 / GIB, rel=0.05)
    assert on_device == pytest.approx(23.1, rel=0.06)
    assert moved == pytest.approx(21.8, rel=0.06)


def test_offloaded_activations_without_checkpointing() -> None:
    """TRL moves all that blocks save; what the running block needs stays."""
    facts = {
        "config": LLAMA_1B,
        "gradient_checkpointing": "none",
        "loss_kernel": "fused_linear",
        "sequence_length": 4096,
    }
    kept, moved = (estimate_training(complete(**facts, activation_offloading=on)) for on in (False, True))
    checkpointed = estimate_training(complete(**{**facts, "gradient_checkpointing": "full"}))
    assert allocated(moved) < allocated(kept) - 4
    assert moved.memory.phases["backward"] > moved.memory.phases["load"]
    assert allocated(moved) == pytest.approx(allocated(checkpointed), rel=0.1)


def test_ranks_that_do_not_divide_leave_no_verdict() -> None:
    """28 heads over 3 ranks, 8 GPUs in groups of 3, 100 stages of 32 layers: named, and no verdict on what cannot start."""
    qwen = {**MISTRAL_7B, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584}
    made = estimate_training(complete(config=qwen, gpus=8, framework="megatron", tensor_parallel_size=3))
    assert made.memory.verdict == "unknown" and "tensor_parallel_size" in made.memory.missing
    assert "28 attention heads do not divide by tensor_parallel_size 3" in made.problems
    assert any("8 GPUs cannot be divided" in text for text in made.problems)
    stages = estimate_training(complete(gpus=100, framework="megatron", pipeline_parallel_size=100))
    assert stages.memory.missing == ["pipeline_parallel_size"] and "fewer than the 100 stages" in stages.problems[0]
    even = estimate_training(complete(gpus=8, framework="megatron", tensor_parallel_size=4, pipeline_parallel_size=2))
    assert even.problems == [] and even.memory.missing == []


def test_accumulation_follows_from_a_global_batch() -> None:
    """256 sequences over 2 data-parallel ranks of 4 sequences: 32 micro-steps, whose gradients stay through forward."""
    facts = {"framework": "megatron", "tensor_parallel_size": 4, "micro_batch_size": 4, "gpus": 8}
    one, many = complete(**facts, global_batch_size=8), complete(**facts, global_batch_size=256)
    assert (estimate_batch(one).gradient_accumulation, estimate_batch(many).gradient_accumulation) == (1, 32)
    assert estimate_batch(many).sequences == 256
    piped = {**facts, "tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    less, more = (estimate_training(complete(**piped, global_batch_size=n)) for n in (8, 64))
    # a first stage holds two micro-batches in flight where the step has two or more
    assert allocated(more) > allocated(less)
    stated = complete(**facts, global_batch_size=256, gradient_accumulation_steps=3)
    assert estimate_batch(stated).gradient_accumulation == 3
    uneven = estimate_batch(complete(**facts, global_batch_size=100))
    assert uneven.gradient_accumulation is None and uneven.sequences == 100


def test_gpt_oss_as_its_eager_kernels_save() -> None:
    """Joined, shifted and cut scores, clamped gates: what the oracle measured of one step on 8 ranks."""
    config = {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
        "sliding_window": 128, "num_local_experts": 32, "num_experts_per_tok": 4, "tie_word_embeddings": False,
    }  # fmt: skip
    made = estimate_training(
        complete(
            config=config, gpus=8, attention="eager", gradient_checkpointing="none", sequence_length=3072,
            fsdp="full_shard", fsdp_version=2, framework_version="5.24.0",
        )
    )  # fmt: skip
    # ../shared/oracle/fakemem.py, transformers 5.24: forward 71.64, backward 72.79 GiB
    assert made.memory.phases["forward"] / GIB == pytest.approx(71.64, rel=0.01)
    assert made.memory.phases["backward"] / GIB == pytest.approx(72.79, rel=0.01)


def test_bf16_before_ampere_has_no_fused_attention() -> None:
    """Below compute capability 8.0 sdpa in bf16 is composed: each block keeps its scores in fp32."""

    def kept(gpu: str, dtype: str) -> float:
        made = resolve(complete(gpu=gpu, weight_dtype=dtype, gradient_checkpointing="none", packing=False))
        stage = fullest_stage(made)
        assert stage is not None and stage.activations is not None
        assert made.composes_attention is (gpu == "T4" and dtype == "bf16")
        return stage.activations.kept

    assert kept("A100-80GB", "bf16") == kept("T4", "fp16") == kept("A100-80GB", "fp16")
    plan = resolve(complete(gpu="T4"))
    assert plan.micro_batch and plan.sequence and plan.architecture
    heads, layers = plan.architecture.num_attention_heads, len(plan.architecture.layers)
    scores = 4 * plan.micro_batch * heads * plan.sequence**2 * layers
    assert kept("T4", "bf16") - kept("A100-80GB", "bf16") >= scores


def test_one_key_and_value_head_is_repeated_by_a_view() -> None:
    """transformers' ``repeat_kv`` copies where there are several groups; the oracle: 13.68 GiB in forward."""
    config = {
        "model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16, "n_inner": 8192, "vocab_size": 49280,
        "multi_query": True,
    }  # fmt: skip
    made = estimate_training(
        complete(
            config=config, gradient_checkpointing="none", micro_batch_size=4, optimizer="adamw_torch_fused",
            framework_version="5.24.0",
        )
    )  # fmt: skip
    assert made.memory.phases["forward"] / GIB == pytest.approx(13.6774, rel=0.01)


def test_what_a_device_shows_is_at_least_what_is_reserved_and_allocated() -> None:
    """A tight job: the allocator gives cached blocks back, so no more is reserved than the device holds."""
    job = TrainingJob("test")
    facts = {"method": "qlora", "gradient_checkpointing": "full", "micro_batch_size": 4, "sequence_length": 2048}
    for name, value in facts.items():
        job.state(name, value, FlagOrigin("test"))
    config = {
        "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False, "dtype": "bfloat16",
    }  # fmt: skip
    job.model = ModelFacts("test/model", architecture_from_config(config), "catalogue", CatalogueOrigin("test"))
    job.hardware = Hardware(find_accelerators("RTX-4090"), "RTX-4090", 1, 1, None)
    memory = estimate_training(job).memory
    assert memory.verdict == "tight" and memory.capacity is not None
    assert memory.used is not None and memory.reserved is not None and memory.allocated is not None
    assert memory.used.expected < memory.capacity
    for end in ("low", "expected", "high"):
        used, reserved, allocated = (getattr(part, end) for part in (memory.used, memory.reserved, memory.allocated))
        assert used >= reserved >= allocated > 0


def _weights_formula(**facts: object) -> str:
    from cfglint.testing import lint_files

    stated = {"model": "Qwen/Qwen2.5-7B", "framework": "trl", "micro_batch_size": 1, "sequence_length": 512, **facts}
    text = "cfglint: 1\nkind: train\n" + "".join(f"{key}: {value}\n" for key, value in stated.items())
    result = lint_files({"job.yaml": text}, gpu="H100-SXM", gpus=2)
    (job,) = result.context.jobs.training
    return result.context.estimate(job).memory.components[0].formula


def test_the_formula_of_weights_says_why_it_is_not_what_is_stated() -> None:
    """'× 4 bytes' stood beside 'weight_dtype bf16', '0.00 GiB' beside '7.62 B × 2 bytes'."""
    facts = {"weight_dtype": "bf16", "compute_dtype": "bf16"}
    cast = _weights_formula(fsdp="full_shard", fsdp_version=2, **facts)
    assert cast == "7.62 B × 4 bytes (fp32, to which what is trained is cast) / 2 ranks"
    assert _weights_formula(zero_stage=3, **facts) == "7.62 B × 2 bytes / 2 ranks"
    offloaded = _weights_formula(zero_stage=3, offload_parameters="cpu", **facts)
    assert offloaded == "7.62 B × 2 bytes / 2 ranks, all on the host"


def test_a_pair_is_two_sequences_of_tokens_and_compute() -> None:
    from cfglint.report.estimates import JobEstimate, as_markdown, as_text
    from cfglint.testing import lint_files

    text = (
        "cfglint: 1\nkind: train\nmodel: Qwen/Qwen2.5-7B\nframework: trl\nmicro_batch_size: 2\nsequence_length: 512\n"
    )
    made = {}
    for method in ("full", "dpo", "kto"):
        result = lint_files({"job.yaml": f"{text}method: {method}\n"}, gpu="H100-SXM", gpus=1)
        (job,) = result.context.jobs.training
        made[method] = result.context.estimate(job)
        shown = as_text([JobEstimate(job, made[method])])
        assert ("= 2 pairs per step; × 2 × 512 = 2,048 tokens" in shown) == (method == "dpo")
        assert ("| 2 pairs |" in as_markdown([JobEstimate(job, made[method])])) == (method == "dpo")
    assert made["dpo"].batch.sequences == made["full"].batch.sequences == 2
    assert made["dpo"].compute.flops_per_step == 2 * (made["full"].compute.flops_per_step or 0)
    assert made["kto"].compute.flops_per_step == made["full"].compute.flops_per_step


def test_more_data_parallel_ranks_than_gpus_make_no_verdict() -> None:
    made = estimate_training(complete(gpus=8, zero_stage=3, data_parallel_size=1000))
    assert made.memory.verdict == "unknown"
    assert made.problems == ["data_parallel_size 1000 × 1 ranks of a model are more than 8 GPUs"]
    assert estimate_training(complete(gpus=8, zero_stage=3, data_parallel_size=8)).problems == []
