"""Several GPUs of which no file says how they share the model: no verdict where replicated and sharded differ."""

from __future__ import annotations

from cfglint.testing import lint_files

SFT = """\
model_name_or_path: meta-llama/Llama-3.1-8B
dtype: bfloat16
bf16: true
per_device_train_batch_size: 1
gradient_accumulation_steps: 4
gradient_checkpointing: true
max_length: 2048
dataset_name: our/data
learning_rate: 2.0e-5
"""


def test_no_verdict_where_the_launch_decides() -> None:
    result = lint_files({"sft.yaml": SFT}, gpu="A100-40GB", gpus=8)
    (job,) = result.context.jobs.training
    made = result.context.estimate(job)
    assert job.sharding_open
    assert made.memory.verdict == "unknown"
    assert made.memory.missing == ["sharding"]
    assert "no file says how 8 GPUs share the model" in made.assumptions[0]
    assert not [f for f in result.findings if f.code == "MEM001"]


def test_a_verdict_where_both_agree() -> None:
    result = lint_files({"sft.yaml": SFT.replace("Llama-3.1-8B", "Llama-3.2-1B")}, gpu="H100-80GB", gpus=8)
    (job,) = result.context.jobs.training
    assert job.sharding_open
    assert result.context.estimate(job).memory.verdict == "fits"


def test_a_launch_line_settles_it() -> None:
    launch = "torchrun --nproc_per_node 8 train.py --config sft.yaml\n"
    result = lint_files({"sft.yaml": SFT, "train.sh": launch}, gpu="A100-40GB")
    (job,) = result.context.jobs.training
    assert not job.sharding_open
    assert result.context.estimate(job).memory.verdict == "oom"


def test_accelerate_without_a_file_reads_one_that_is_not_here() -> None:
    launch = "accelerate launch --num_processes 8 train.py --config sft.yaml\n"
    result = lint_files({"sft.yaml": SFT, "train.sh": launch}, gpu="A100-40GB")
    (job,) = result.context.jobs.training
    assert job.sharding_open


def test_one_gpu_has_nothing_to_share() -> None:
    result = lint_files({"sft.yaml": SFT}, gpu="A100-40GB", gpus=1)
    (job,) = result.context.jobs.training
    assert not job.sharding_open
    assert result.context.estimate(job).memory.verdict == "oom"


def test_a_named_file_that_is_not_here_may_offload() -> None:
    launch = (
        "torchrun --nproc_per_node 7 train.py --deepspeed config/ds.json --model_name_or_path Qwen/Qwen1.5-14B-Chat --bf16 "
        "--model_max_length 1024 --learning_rate 1e-5 --per_device_train_batch_size 1 --gradient_checkpointing --output_dir out\n"
    )
    result = lint_files({"run.sh": launch}, gpu="RTX-4090", gpus=7)
    (job,) = result.context.jobs.training
    made = result.context.estimate(job)
    assert job.sharding_open
    assert made.memory.verdict == "likely-oom"
    assert "config/ds.json is named and not here: it may offload to the CPU" in made.assumptions
    assert [f.severity for f in result.findings if f.code == "MEM001"] == ["warning"]
