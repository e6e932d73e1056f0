"""What RL frameworks say of an engine that generates on the trainer's own devices: its share, and who makes room for whom."""

from __future__ import annotations

from typing import Any

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import DefaultOrigin, FactSet
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml

FACTS = ("rollout_gpu_memory_utilization", "rollout_sleeps", "trainer_sleeps")

OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --pretrain org/m --prompt_max_len 1024 --generate_max_len 1024 "
SWIFT = "swift rlhf --rlhf_type grpo --model org/m --use_vllm true "
SLIME = (
    "python3 train.py --hf-checkpoint org/m --rollout-batch-size 32 --actor-num-gpus-per-node 8 --tensor-model-parallel-size 2 "
    "--micro-batch-size 1 --num-layers 24 --advantage-estimator grpo "
)
NEMO_RL = """
policy:
  model_name: org/m
  train_micro_batch_size: 2
  train_global_batch_size: 64
  max_total_sequence_length: 2048
  dtensor_cfg: {{enabled: true}}
  generation:
    backend: {backend}
    vllm_cfg: {{gpu_memory_utilization: 0.6}}
    colocated: {{enabled: {colocated}}}
grpo: {{num_prompts_per_step: 8}}
cluster: {{gpus_per_node: 8, num_nodes: 1}}
"""
ROLL = """
exp_name: run
rollout_batch_size: 64
pretrain: org/m
adv_estimator: grpo
actor_train:
  model_args: {{dtype: bf16}}
  strategy_args: {{strategy_name: megatron_train, strategy_config: {{tensor_model_parallel_size: 1}}}}
  device_mapping: list(range(0,8))
actor_infer:
  model_args: {{dtype: bf16}}
  strategy_args: {{strategy_name: vllm, strategy_config: {{gpu_memory_utilization: 0.8}}}}
  device_mapping: list(range({devices}))
"""


def facts_of(text: str, dialect: str) -> FactSet:
    name = "config.yaml" if text.startswith("\n") else "run.sh"
    file = parse_yaml(name, text) if name.endswith("yaml") else parse_shell(name, text + "\n")
    return next(r for r in recognise_files([file])[0] if r.dialect == dialect).facts


@pytest.mark.parametrize(("text", "dialect", "expected"), [
    (OPENRLHF + "--colocate_all_models --vllm_gpu_memory_utilization 0.6 --vllm_enable_sleep --deepspeed_enable_sleep",
     "openrlhf", (0.6, True, True)),
    (OPENRLHF + "--train.colocate_all --vllm.gpu_memory_utilization 0.7 --vllm.enable_sleep", "openrlhf", (0.7, True, None)),
    (OPENRLHF + "--vllm_gpu_memory_utilization 0.6 --vllm_num_engines 4", "openrlhf", (None, None, None)),
    (OPENRLHF + "--colocate_all_models --async_train --vllm_gpu_memory_utilization 0.6", "openrlhf", (None, None, None)),
    (SWIFT + "--vllm_mode colocate --vllm_gpu_memory_utilization 0.5 --sleep_level 1 --offload_model true "
     "--offload_optimizer true", "ms-swift", (0.5, True, True)),
    (SWIFT + "--vllm_mode colocate --vllm_gpu_memory_utilization 0.3 --sleep_level 0", "ms-swift", (0.3, False, None)),
    (SWIFT + "--vllm_mode server --vllm_gpu_memory_utilization 0.5", "ms-swift", (None, None, None)),
    (SLIME + "--colocate --sglang-mem-fraction-static 0.7", "megatron", (0.7, True, True)),
    (SLIME + "--colocate --no-offload-train --sglang-mem-fraction-static 0.7", "megatron", (0.7, True, False)),
    (NEMO_RL.format(backend="vllm", colocated="true"), "nemo", (0.6, True, True)),
    (NEMO_RL.format(backend="vllm", colocated="false"), "nemo", (None, None, None)),
    (NEMO_RL.format(backend="megatron", colocated="true"), "nemo", (None, None, None)),
    (ROLL.format(devices="0,8"), "roll", (0.8, True, True)),
    (ROLL.format(devices="8,16"), "roll", (None, None, None)),
])  # fmt: skip
def test_the_share_and_who_sleeps(text: str, dialect: str, expected: tuple[Any, ...]) -> None:
    facts = facts_of(text, dialect)
    assert tuple(facts.value(name) for name in FACTS) == expected


@pytest.mark.parametrize(("text", "dialect", "share"), [
    (OPENRLHF + "--colocate_all_models", "openrlhf", 0.95), (SWIFT + "--vllm_mode colocate", "ms-swift", 0.9),
])  # fmt: skip
def test_a_share_of_the_framework(text: str, dialect: str, share: float) -> None:
    fact = facts_of(text, dialect).fact("rollout_gpu_memory_utilization")
    assert fact is not None and fact.value == share
    assert isinstance(fact.origin, DefaultOrigin)
