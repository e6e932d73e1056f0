"""nanotron, OLMo, ROLL and prime-rl."""

from collections.abc import Callable

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.toml import parse_toml

Read = Callable[..., Reading]
Named = Callable[..., str | None]

NANOTRON = """
checkpoints: {checkpoint_interval: 10}
general: {project: x}
model:
  dtype: bfloat16
  model_config:
    is_llama_config: true
    hidden_size: 256
    intermediate_size: 1024
    num_hidden_layers: 4
    num_attention_heads: 8
    num_key_value_heads: 4
    vocab_size: 32000
    tie_word_embeddings: false
    max_position_embeddings: 512
optimizer:
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  zero_stage: 1
  optimizer_factory: {name: adamW, torch_adam_is_fused: true}
  learning_rate_scheduler: {learning_rate: 3e-4, lr_warmup_steps: 20}
parallelism: {dp: 2, tp: 4, pp: 1, recompute_layer: true}
tokens: {micro_batch_size: 2, sequence_length: 512, batch_accumulation_per_replica: 4, train_steps: 100}
"""


def test_nanotron(read: Read) -> None:
    reading = read(NANOTRON)
    expected = {
        "weight_dtype": "bf16", "master_weights": True, "zero_stage": 1, "optimizer": "adamw_torch_fused", "learning_rate": 3e-4,
        "data_parallel_size": 2, "tensor_parallel_size": 4, "gradient_checkpointing": "full", "micro_batch_size": 2,
        "sequence_length": 512, "gradient_accumulation_steps": 4, "max_steps": 100, "method": "pretrain",
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("nanotron", "run")
    assert {name: reading.facts.value(name) for name in expected} == expected
    made = architecture_from_config(reading.context["model_config"])
    assert (made.model_type, made.num_hidden_layers, made.hidden_size) == ("llama", 4, 256)
    assert "model_config" not in read(NANOTRON.replace("is_llama_config: true", "moe_num_experts: 4")).context


OLMO = """
run_name: OLMo-7B
model:
  d_model: 4096
  n_heads: 32
  n_layers: 32
  mlp_hidden_size: 22016
  weight_tying: false
  activation_type: swiglu
  layer_norm_type: default
  layer_norm_with_affine: false
  max_sequence_length: 2048
  vocab_size: 50280
  embedding_size: 50304
  flash_attention: true
optimizer: {name: adamw, learning_rate: 3.0e-4}
save_interval_unsharded: null
save_num_unsharded_checkpoints_to_keep: -1
max_duration: 1ep
global_train_batch_size: 2048
device_train_microbatch_size: 2
precision: amp_bf16
fsdp: {wrapping_strategy: by_block, precision: mixed}
activation_checkpointing: one_in_four
max_grad_norm_ratio: null
"""


def test_olmo_counts_to_the_published_model(read: Read) -> None:
    reading = read(OLMO)
    expected = {
        "sequence_length": 2048, "micro_batch_size": 2, "global_batch_size": 2048, "epochs": 1.0, "compute_dtype": "bf16",
        "weight_dtype": "fp32", "fsdp": "full_shard", "gradient_checkpointing": "selective", "attention": "flash2",
        "optimizer": "adamw_torch", "learning_rate": 3e-4,
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("olmo", "run")
    assert {name: reading.facts.value(name) for name in expected} == expected
    made = architecture_from_config(reading.context["model_config"])
    assert sum(tensor.parameters for tensor in made.tensors) == 6_888_095_744  # allenai/OLMo-7B-hf


ROLL = """
exp_name: x
num_gpus_per_node: 8
rollout_batch_size: 64
prompt_length: 1024
response_length: 2048
adv_estimator: reinforce
pretrain: org/m
actor_train:
  model_args: {disable_gradient_checkpointing: false, dtype: bf16}
  training_args: {learning_rate: 1.0e-6, per_device_train_batch_size: 1, gradient_accumulation_steps: 32}
  strategy_args:
    strategy_name: NAME
    strategy_config: CONFIG
  device_mapping: list(range(0,16))
actor_infer:
  model_args: {dtype: bf16}
  strategy_args: {strategy_name: vllm}
"""


@pytest.mark.parametrize(
    ("name", "config", "facts"),
    [
        (
            "megatron_train", "{tensor_model_parallel_size: 2, use_distributed_optimizer: true}",
            {"framework": "megatron", "tensor_parallel_size": 2, "zero_stage": 1},
        ),
        (
            "deepspeed_train", "${deepspeed_zero3_cpuoffload}",
            {"framework": "roll", "zero_stage": 3, "offload_optimizer": "cpu", "offload_parameters": "cpu"},
        ),
        ("fsdp2_train", "{fsdp_size: 16}", {"framework": "roll", "fsdp": "full_shard", "fsdp_version": 2}),
    ],
)  # fmt: skip
def test_roll_by_the_strategy_of_what_is_trained(read: Read, name: str, config: str, facts: dict[str, object]) -> None:
    reading = read(ROLL.replace("NAME", name).replace("CONFIG", config))
    expected = {
        "model_id": "org/m", "sequence_length": 3072, "micro_batch_size": 1, "gradient_accumulation_steps": 32, "method": "grpo",
        "gpus_per_node": 8, "nodes": 2, "gradient_checkpointing": "full", "compute_dtype": "bf16", **facts,
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("roll", "run")
    assert {key: reading.facts.value(key) for key in expected} == expected


PRIME = """
max_steps = 100
seq_len = 4096
[model]
name = "org/m"
[deployment]
num_train_nodes = 2
[trainer.model]
cp = 2
attn = "flash_attention_3"
fused_lm_head_token_chunk_size = 1024
[trainer.model.ac]
freq = 1
[trainer.optim]
lr = 1e-6
[orchestrator]
batch_size = 256
"""


def test_prime_rl() -> None:
    reading = recognise_files([parse_toml("rl.toml", PRIME)])[0][0]
    expected = {
        "model_id": "org/m", "sequence_length": 4096, "nodes": 2, "context_parallel_size": 2, "attention": "flash3",
        "loss_kernel": "fused_linear", "gradient_checkpointing": "full", "learning_rate": 1e-6, "global_batch_size": 256,
        "method": "grpo", "weight_dtype": "fp32", "compute_dtype": "bf16", "fsdp_version": 2,
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("prime-rl", "run")
    assert {name: reading.facts.value(name) for name in expected} == expected
    served = recognise_files([parse_toml("a.toml", '[inference]\n[orchestrator]\n[model]\nname = "org/m"\n')])[0][0]
    assert served.role == "part"


def test_other_files_are_left_alone(recognised: Named) -> None:
    for text in (
        "tokens: {a: 1}\nparallelism: {workers: 2}\nmodel: {}\nlogging: {}\n",
        "model: {d_model: 4, n_heads: 2, n_layers: 1}\nmax_duration: 3\n",
        "reference: {a: 1}\npretrain: x\n",
        "trainer: {a: 1}\nlog: {b: 2}\n",
    ):
        assert recognised(text) is None


def test_olmo_s_script_with_overrides() -> None:
    from cfglint.source.shell import parse_shell

    command = (
        "torchrun --nproc_per_node=8 scripts/train.py configs/o.yaml --device_train_microbatch_size=2 "
        "--model.max_sequence_length=2048 --fsdp.precision=mixed\n"
    )
    found, _ = recognise_files([parse_shell("a.sh", command)])
    reading = next(r for r in found if r.dialect == "olmo")
    assert (reading.role, reading.facts.value("micro_batch_size"), reading.facts.value("sequence_length")) == (
        "arguments",
        2,
        2048,
    )
    assert not reading.facts.stated("method")
    other, _ = recognise_files([parse_shell("a.sh", "python train.py c.yaml --epochs 3\n")])
    assert [r for r in other if r.dialect == "olmo"] == []
