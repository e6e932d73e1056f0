"""Axolotl's YAML."""

from collections.abc import Callable

import pytest

from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading

Read = Callable[..., Reading]

BASE = "base_model: org/m\nsequence_len: 4096\nmicro_batch_size: 2\nnum_epochs: 1\nlearning_rate: 2e-5\n"


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(
        BASE
        + "gradient_accumulation_steps: 4\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_alpha: 16\n"
        + "lora_target_linear: true\nsample_packing: true\nbf16: true\ngradient_checkpointing: offload\n"
        + "flash_attention: true\noptimizer: paged_adamw_8bit\ndeepspeed: deepspeed_configs/zero2.json\n"
    )
    assert (reading.dialect, reading.role, reading.framework) == ("axolotl", "run", "axolotl")
    expected = {
        "model_id": ("org/m", 1), "sequence_length": (4096, 2), "micro_batch_size": (2, 3), "epochs": (1.0, 4),
        "learning_rate": (2e-5, 5), "gradient_accumulation_steps": (4, 6), "method": ("qlora", 7),
        "quantization": ("nf4-double", 8), "lora_rank": (32, 9), "lora_alpha": (16.0, 10),
        "lora_targets": (["all-linear"], 11), "packing": (True, 12), "compute_dtype": ("bf16", 13),
        "weight_dtype": ("bf16", 13), "gradient_checkpointing": ("full", 14), "attention": ("flash2", 15),
        "optimizer": ("paged_adamw_8bit", 16),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert ("deepspeed", "deepspeed_configs/zero2.json", "cwd") in [
        (r.role, r.target, r.base) for r in reading.references
    ]
    assert reading.context["activation_offloading"] == "offload"
    assert reading.facts.value("upcast_unquantized") is False
    # not on account of flash attention: what carries adapters is always cast back
    plain = read(BASE + "adapter: qlora\nload_in_4bit: true\n").facts
    assert plain.value("upcast_unquantized") is False


@pytest.mark.parametrize(
    ("keys", "compute", "weights"),
    [
        ("bf16: true\n", "bf16", "bf16"),
        ("bf16: full\n", "none", "bf16"),
        ("bf16: false\nfp16: true\n", "fp16", "fp16"),
        ("bf16: auto\nfp16: true\n", "fp16", "fp16"),
        ("bf16: false\n", "none", "fp32"),
        ("bfloat16: true\nbf16: false\n", "bf16", "bf16"),
    ],
)
def test_precision_decides_the_weights_too(read: Read, keys: str, compute: str, weights: str) -> None:
    facts = read(BASE + keys).facts
    assert (facts.value("compute_dtype"), facts.value("weight_dtype")) == (compute, weights)


def test_bf16_auto_is_unknown_with_bf16_behind_it(read: Read) -> None:
    reading = read(BASE + "bf16: auto\n")
    values = [f.value for f in reading.facts.statements("compute_dtype")]
    assert values == [UNKNOWN, "bf16"]
    assert reading.context["bf16_auto"] is True
    fact = read(BASE).facts.fact("weight_dtype")
    assert fact is not None and fact.value == "bf16" and isinstance(fact.origin, DefaultOrigin)


@pytest.mark.parametrize(
    ("keys", "method"),
    [
        ("", "full"),
        ("adapter:\n", "full"),
        ("adapter: lora\n", "lora"),
        ("adapter: lora\npeft_use_dora: true\n", "dora"),
        ("rl: dpo\n", "dpo"),
        ("rl: ipo\nadapter: qlora\nload_in_4bit: true\n", "dpo+qlora"),
        ("rl: orpo\nadapter: lora\n", "orpo+lora"),
        ("reward_model: true\n", "reward"),
        ("pretraining_dataset: [{path: c4}]\n", "pretrain"),
    ],
)
def test_the_method(read: Read, keys: str, method: str) -> None:
    assert read(BASE + keys).facts.value("method") == method


def test_quantization_needs_an_adapter(read: Read) -> None:
    assert not read(BASE + "load_in_4bit: true\n").facts.stated("quantization")
    kwargs = "bnb_config_kwargs: {bnb_4bit_use_double_quant: false}\n"
    assert read(BASE + "adapter: qlora\nload_in_4bit: true\n" + kwargs).facts.value("quantization") == "nf4"
    assert read(BASE + "adapter: lora\nload_in_8bit: true\n").facts.value("quantization") == "int8"


def test_a_partly_frozen_model_is_not_called_full(read: Read) -> None:
    facts = read(BASE + "unfrozen_parameters:\n  - model.layers.3[0-9]\n").facts
    assert facts.undecided("method")


def test_batch_size_gives_the_accumulation(read: Read) -> None:
    fact = read(BASE + "batch_size: 16\n").facts.fact("gradient_accumulation_steps")
    assert fact is not None
    assert (fact.value, fact.describe()) == (8, "batch_size 16 / micro_batch_size 2")


def test_loss_kernels(read: Read) -> None:
    plugin = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"
    assert read(BASE + plugin).facts.value("loss_kernel") == "fused_linear"
    assert read(BASE + plugin + "cut_cross_entropy: false\n").facts.value("loss_kernel") == "torch"
    assert read(BASE + "liger_fused_linear_cross_entropy: true\n").facts.value("loss_kernel") == "fused_linear"
    blocks = read(BASE + "liger_rms_norm: true\nliger_rope: false\nliger_glu_activation: true\n").facts
    assert blocks.value("block_kernels") == ["mlp", "norm"]
    tiled = read(BASE + "tiled_mlp: true\ntiled_mlp_num_shards: 4\n").facts
    assert (tiled.value("tiled_mlp"), tiled.value("mlp_pieces")) == (True, 4)
    assert read(BASE + "chunked_cross_entropy: true\n").facts.value("loss_kernel") == "chunked"


def test_fsdp_in_both_layouts(read: Read) -> None:
    old = read(BASE + "fsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_offload_params: true}\n").facts
    assert (old.value("fsdp"), old.value("fsdp_version"), old.value("offload_parameters")) == ("full_shard", 1, "cpu")
    new = read(BASE + "fsdp_version: 2\nfsdp_config: {reshard_after_forward: false, offload_params: false}\n").facts
    assert (new.value("fsdp"), new.value("fsdp_version"), new.value("offload_parameters")) == (
        "shard_grad_op",
        2,
        "none",
    )
    none = read(BASE + "fsdp:\nfsdp_config:\n").facts
    assert not none.stated("fsdp")


def test_parallel_sizes(read: Read) -> None:
    facts = read(BASE + "tensor_parallel_size: 2\nsequence_parallel_degree: 4\n").facts
    assert facts.value("tensor_parallel_size") == 2
    assert facts.value("context_parallel_size") == 4


def test_odd_values_are_not_facts(read: Read) -> None:
    facts = read(
        """
        base_model: {a: 1}
        sequence_len: [4096]
        micro_batch_size: two
        num_epochs: []
        bf16: [true]
        adapter: [lora]
        deepspeed: [x]
        plugins: nothing
        rl: [dpo]
        val_set_size: 0.1
        """
    ).facts
    assert not facts.stated("model_id")
    for name in ("sequence_length", "micro_batch_size", "epochs", "compute_dtype"):
        assert all(isinstance(f.origin, DefaultOrigin) for f in facts.statements(name)), name


def test_fused_experts_that_axolotl_quantizes_itself() -> None:
    from cfglint.estimate import estimate
    from cfglint.testing import lint_files

    run = (
        "base_model: Qwen/Qwen3-30B-A3B\nload_in_4bit: true\nadapter: qlora\nlora_r: 8\nlora_target_linear: true\n"
        "datasets: [{path: our/data, type: alpaca}]\nsequence_len: 2048\nmicro_batch_size: 1\nnum_epochs: 1\nbf16: true\n"
        "gradient_checkpointing: true\nlearning_rate: 1.0e-4\n"
    )
    weights = {}
    for more in ("", "quantize_moe_experts: true\n"):
        files = {"qlora.yaml": run + more, "requirements.txt": "transformers==5.5.0\n"}
        (job,) = lint_files(files, gpu="A100-80GB", gpus=1).context.jobs.training
        weights[more] = next(c.bytes for c in estimate(job).memory.components if c.name == "weights") / 2**30
    assert weights[""] > 50
    assert weights["quantize_moe_experts: true\n"] < 20


def test_a_run_on_a_remote_service_gets_no_verdict() -> None:
    from cfglint.estimate import estimate
    from cfglint.testing import lint_files

    run = (
        "base_model: meta-llama/Llama-3.1-70B\nsequence_len: 2048\nmicro_batch_size: 1\nnum_epochs: 1\nbf16: true\n"
        "datasets: [{path: our/data, type: alpaca}]\nlearning_rate: 1.0e-4\n"
    )
    (job,) = lint_files({"a.yaml": run}, gpu="A100-80GB", gpus=1).context.jobs.training
    assert estimate(job).memory.verdict == "oom"
    remote = run + "plugins: [axolotl.integrations.hatchery.HatcheryPlugin]\n"
    (job,) = lint_files({"a.yaml": remote}, gpu="A100-80GB", gpus=1).context.jobs.training
    assert estimate(job).memory.verdict == "unknown"


def test_lora_kernels_are_stated_together(read: Read) -> None:
    facts = read(BASE + "lora_qkv_kernel: true\nlora_mlp_kernel: false\n").facts
    assert facts.value("lora_kernels") == ["qkv"]
    # one switch that is stated keeps Axolotl from setting the others
    assert read(BASE + "lora_o_kernel: false\n").facts.value("lora_kernels") == []
    assert read(BASE).facts.fact("lora_kernels") is None
