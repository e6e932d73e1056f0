"""OpenRLHF's commands."""

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.shell import parse_shell


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


SFT = """
read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft \\
   --max_len 2048 \\
   --train_batch_size 256 \\
   --micro_train_batch_size 2 \\
   --pretrain org/m \\
   --zero_stage 3 \\
   --bf16 --flash_attn --gradient_checkpointing --packing_samples \\
   --learning_rate 5e-6
EOF
deepspeed --num_gpus 8 --module $training_commands
"""


def test_flags_in_a_heredoc_under_deepspeed() -> None:
    found = readings_of(SFT)
    facts = found["openrlhf"].facts
    expected = {
        "sequence_length": 2048, "global_batch_size": 256, "micro_batch_size": 2, "model_id": "org/m", "zero_stage": 3,
        "compute_dtype": "bf16", "attention": "flash2", "gradient_checkpointing": "full", "packing": None, "method": "full",
        "learning_rate": 5e-6, "framework": "openrlhf",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    assert found["launch"].facts.value("gpus_per_node") == 8
    assert found["openrlhf"].context["launched_by"] is found["launch"]


def test_flags_of_2026_in_groups() -> None:
    facts = readings_of(
        "deepspeed --module openrlhf.cli.train_dpo --model.model_name_or_path org/m --train.micro_batch_size 1 "
        "--ds.zero_stage 3 --ds.param_dtype bf16 --ds.lora.rank 32 --ds.load_in_4bit --data.max_len 8192 --adam.lr 1e-6\n"
    )["openrlhf"].facts
    expected = {
        "model_id": "org/m", "micro_batch_size": 1, "zero_stage": 3, "compute_dtype": "bf16", "method": "dpo+qlora",
        "lora_rank": 32, "quantization": "nf4-double", "sequence_length": 8192, "learning_rate": 1e-6,
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected


@pytest.mark.parametrize(("more", "method"), [("", "ppo"), ("--advantage_estimator group_norm", "grpo")])
def test_ray_places_the_actor(more: str, method: str) -> None:
    facts = readings_of(
        "ray job submit --address=x -- python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 2 "
        f"--actor_num_gpus_per_node 4 --pretrain org/m --prompt_max_len 1024 --generate_max_len 3072 --adam_offload {more}\n"
    )["openrlhf"].facts
    assert (facts.value("nodes"), facts.value("gpus_per_node"), facts.value("sequence_length")) == (2, 4, 4096)
    assert (facts.value("method"), facts.value("offload_optimizer")) == (method, "cpu")


def test_old_scripts_by_their_flags_and_servers_as_parts() -> None:
    old = readings_of("deepspeed ./train_sft.py --pretrain org/m --train_batch_size 8 --zero_stage 2 --bf16\n")
    assert old["openrlhf"].facts.value("zero_stage") == 2
    assert readings_of("python -m openrlhf.cli.serve_rm --pretrain org/m\n")["openrlhf"].role == "part"
    assert "openrlhf" not in readings_of("python train_sft.py --model org/m --zero_stage 2\n")
