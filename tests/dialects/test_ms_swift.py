"""ms-swift's commands and files."""

from collections.abc import Callable

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.shell import parse_shell
from cfglint.testing import lint_files

Read = Callable[..., Reading]

BASE = (
    "--model org/m --torch_dtype bfloat16 --per_device_train_batch_size 2 --max_length 4096 --dataset 'a#500' 'b#500' "
)


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def command(more: str, start: str = "NPROC_PER_NODE=4 CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft") -> Reading:
    return readings_of(f"{start} {BASE} {more}\n")["ms-swift"]


def test_a_command() -> None:
    found = readings_of(
        f"NPROC_PER_NODE=4 CUDA_VISIBLE_DEVICES=0,1,2,3 \\\nswift sft \\\n{BASE}\\\n--train_type lora --lora_rank 16 "
        "--gradient_accumulation_steps 8 --learning_rate 1e-4 --deepspeed zero3_offload --attn_impl flash_attn\n"
    )
    facts = found["ms-swift"].facts
    expected = {
        "model_id": "org/m", "weight_dtype": "bf16", "compute_dtype": "bf16", "micro_batch_size": 2, "sequence_length": 4096,
        "method": "lora", "lora_rank": 16, "gradient_accumulation_steps": 8, "learning_rate": 1e-4, "zero_stage": 3,
        "offload_optimizer": "cpu", "offload_parameters": "cpu", "attention": "flash2", "gradient_checkpointing": "full",
        "lora_alpha": 32.0, "lora_targets": ["all-linear"], "framework": "ms-swift",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    assert found["launch"].facts.value("gpus_per_node") == 4
    assert found["ms-swift"].context["launched_by"] is found["launch"]
    fact = facts.fact("lora_alpha")
    assert fact is not None
    assert isinstance(fact.origin, DefaultOrigin)


@pytest.mark.parametrize(
    ("more", "start", "method"),
    [
        ("", "swift sft", "lora"),
        ("--tuner_type full", "swift sft", "full"),
        ("--train_type full", "swift pt", "pretrain"),
        ("--rlhf_type dpo --train_type lora", "swift rlhf", "dpo+lora"),
        ("--rlhf_type grpo --train_type full", "swift rlhf", "grpo"),
        ("--quant_bits 4 --quant_method bnb", "swift sft", "qlora"),
        ("--use_dora true", "swift sft", "dora"),
        ("--sft_type full", "python llm_sft.py", "full"),
        ("--tuner_type lora", "torchrun --nproc_per_node 2 swift/cli/sft.py", "lora"),
        ("", "megatron sft", "full"),
    ],
)
def test_what_is_trained(more: str, start: str, method: str) -> None:
    assert command(more, start).facts.value("method") == method


def test_tuners_of_another_kind_leave_the_method_open() -> None:
    facts = command("--tuner_type llamapro").facts
    assert [f.value for f in facts.statements("method")] == [UNKNOWN]


def test_generated_answers_stand_behind_the_prompt() -> None:
    facts = command("--rlhf_type grpo --max_completion_length 1024", "swift rlhf").facts
    assert facts.value("sequence_length") == 5120


def test_one_process_over_several_devices_splits_the_layers() -> None:
    alone = command("", "CUDA_VISIBLE_DEVICES=0,1 swift sft").facts
    assert alone.value("pipeline_parallel_size") == 2
    assert command("").facts.fact("pipeline_parallel_size") is None
    under = command("", "CUDA_VISIBLE_DEVICES=0,1 accelerate launch swift/cli/sft.py").facts
    assert under.fact("pipeline_parallel_size") is None


def test_commands_that_train_nothing_are_parts() -> None:
    for text in (
        "swift infer --model org/m",
        "swift export --model org/m --quant_bits 4",
        "megatron export --model org/m",
    ):
        assert readings_of(text + "\n")["ms-swift"].role == "part"


def test_a_file_on_the_command_line_and_flags_over_it() -> None:
    found = readings_of("NPROC_PER_NODE=2 swift sft sft.yaml --learning_rate 2e-5\n")
    assert found["ms-swift"].role == "arguments"
    assert [(r.role, r.target) for r in found["launch"].references] == [("config", "sft.yaml")]
    assert found["ms-swift"].facts.value("learning_rate") == 2e-5
    assert found["ms-swift"].facts.fact("gradient_checkpointing") is None


def test_a_megatron_file(read: Read) -> None:
    reading = read(
        "model: org/m\ntuner_type: lora\nlora_rank: 8\ntarget_modules: all-linear\nmax_length: 2048\npacking: true\n"
        "micro_batch_size: 1\nglobal_batch_size: 4\nlr: 1e-4\nexpert_model_parallel_size: 4\nrecompute_granularity: full\n"
        "split_dataset_ratio: 0.01\n"
    )
    facts = reading.facts
    expected = {
        "framework": "megatron", "micro_batch_size": 1, "global_batch_size": 4, "expert_parallel_size": 4, "packing": True,
        "gradient_checkpointing": "full", "weight_dtype": "bf16", "master_weights": True, "zero_stage": 1, "method": "lora",
        "expert_tensor_parallel_size": 1,
    }  # fmt: skip
    assert (reading.dialect, reading.role) == ("ms-swift", "run")
    assert {name: facts.value(name) for name in expected} == expected


def test_a_converted_checkpoint_is_named_after_its_model() -> None:
    launch = (
        "megatron sft --load Qwen/Qwen3-8B-mcore/ --dataset our/data --tensor_model_parallel_size 2 --max_length 4096\n"
    )
    (job,) = lint_files({"run.sh": launch}).context.jobs.training
    assert job.value("model_id") == "Qwen/Qwen3-8B"
    (job,) = lint_files({"run.sh": launch.replace("Qwen/Qwen3-8B-mcore/", "out/checkpoint")}).context.jobs.training
    assert job.value("model_id") is None
