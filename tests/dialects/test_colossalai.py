"""ColossalAI's scripts under ``colossalai run`` and torchrun."""

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import parse_shell


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def test_a_chat_script_and_its_hosts() -> None:
    found = readings_of(
        "colossalai run --nproc_per_node 4 --hostfile hosts --master_port 31312 train_dpo.py --pretrain org/m "
        "--dataset a b --plugin zero2_cpu --batch_size 8 --accumulation_steps 2 --lr 5e-5 --max_length 4096 "
        "--grad_checkpoint --use_flash_attn --mixed_precision fp16 --max_epochs 1\n"
    )
    facts = found["colossalai"].facts
    expected = {
        "model_id": "org/m", "zero_stage": 2, "offload_optimizer": "cpu", "weight_dtype": "fp16", "master_weights": True,
        "micro_batch_size": 8, "gradient_accumulation_steps": 2, "sequence_length": 4096, "learning_rate": 5e-5,
        "gradient_checkpointing": "full", "attention": "flash2", "method": "dpo", "epochs": 1.0, "framework": "colossalai",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    launch = found["launch"]
    assert launch.facts.value("gpus_per_node") == 4
    assert [fact.value for fact in launch.facts.statements("nodes")] == [UNKNOWN], (
        "all hosts of a file that is not read"
    )
    assert found["colossalai"].context["launched_by"] is launch


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("gemini", {"zero_stage": 3}),
        ("3d --tp 2 --pp 4 --zero_stage 1 --batch_size 16 --microbatch_size 2 --accumulation_steps 3", {
            "tensor_parallel_size": 2, "pipeline_parallel_size": 4, "zero_stage": 1, "micro_batch_size": 2,
            "gradient_accumulation_steps": 24,
        }),
        ("moe --ep 8 --lora_rank 8 --lora_alpha 16", {"expert_parallel_size": 8, "method": "lora", "lora_rank": 8}),
        ("ddp", {"zero_stage": 0}),
    ],
)  # fmt: skip
def test_a_plugin_says_how_a_model_is_shared(plugin: str, expected: dict[str, object]) -> None:
    facts = readings_of(f"torchrun --nproc_per_node 8 train.py --pretrained org/m --plugin {plugin}\n")[
        "colossalai"
    ].facts
    assert {name: facts.value(name) for name in expected} == expected


def test_one_letter_flags_of_the_benchmarks() -> None:
    found = readings_of("colossalai run --nproc_per_node 8 benchmark.py -c 7b -p gemini -g -l 4096 -b 8\n")
    facts = found["colossalai"].facts
    assert (facts.value("zero_stage"), facts.value("micro_batch_size"), facts.value("sequence_length")) == (3, 8, 4096)
    assert facts.value("gradient_checkpointing") == "full"


def test_a_plugin_of_another_program_is_not_its() -> None:
    assert "colossalai" not in readings_of("python build.py --plugin markdown --batch_size 4\n")


def test_chat_scripts_are_not_taken_for_those_of_the_same_name() -> None:
    found = readings_of(
        "torchrun --nproc_per_node 2 train_ppo.py --pretrain org/m --plugin zero2 --train_batch_size 4 --lr 1e-6\n"
    )
    assert set(found) == {"launch", "colossalai"}
