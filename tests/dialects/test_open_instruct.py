"""open-instruct's commands."""

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import parse_shell


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def test_finetune_under_accelerate() -> None:
    found = readings_of(
        "accelerate launch --mixed_precision bf16 --num_processes 8 --use_deepspeed "
        "--deepspeed_config_file ds.conf open_instruct/finetune.py --model_name_or_path org/m --use_flash_attn "
        "--dataset_mixer_list org/a 1.0 org/b 0.5 --max_seq_length 4096 --per_device_train_batch_size 1 "
        "--gradient_accumulation_steps 16 --learning_rate 5e-6 --num_train_epochs 2 --gradient_checkpointing\n"
    )
    facts = found["open-instruct"].facts
    expected = {
        "model_id": "org/m", "attention": "flash2", "sequence_length": 4096, "micro_batch_size": 1, "method": "full",
        "gradient_accumulation_steps": 16, "learning_rate": 5e-6, "gradient_checkpointing": "full", "weight_dtype": "bf16",
        "optimizer": "adamw_torch_fused", "epochs": 2.0, "framework": "open-instruct",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    assert found["launch"].facts.value("compute_dtype") == "bf16"
    assert "hf-training-args" not in found


def test_reinforcement_learns_on_some_gpus_of_each_node() -> None:
    facts = readings_of(
        "python open_instruct/grpo_fast.py --model_name_or_path org/m --num_unique_prompts_rollout 48 "
        "--num_samples_per_prompt_rollout 16 --num_mini_batches 2 --pack_length 8192 --response_length 4096 "
        "--per_device_train_batch_size 1 --deepspeed_stage 3 --num_learners_per_node 4 4 --gradient_checkpointing\n"
    )["open-instruct"].facts
    expected = {
        "method": "grpo", "zero_stage": 3, "sequence_length": 8192, "packing": True, "global_batch_size": 384,
        "gpus_per_node": 4, "nodes": 2, "compute_dtype": "bf16",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected


def test_nodes_with_other_numbers_of_learners() -> None:
    facts = readings_of(
        "python open_instruct/grpo_fast.py --model_name_or_path org/m --num_learners_per_node 8 4 "
        "--max_prompt_token_length 2048 --response_length 2048\n"
    )["open-instruct"].facts
    assert [fact.value for fact in facts.statements("gpus_per_node")] == [UNKNOWN]
    assert facts.value("sequence_length") == 4096
    assert facts.value("zero_stage") == 0


def test_adapters_of_preference_tuning() -> None:
    facts = readings_of(
        "accelerate launch open_instruct/dpo_tune_cache.py --model_name_or_path org/m --use_lora --lora_rank 32 "
        "--lora_alpha 64 --dataset_mixer_list org/a 1.0\n"
    )["open-instruct"].facts
    assert (facts.value("method"), facts.value("lora_rank"), facts.value("lora_alpha")) == ("dpo+lora", 32, 64.0)


def test_a_script_of_the_same_name_elsewhere_is_not_its() -> None:
    assert "open-instruct" not in readings_of("torchrun finetune.py --model_name_or_path org/m --bf16 --output_dir o\n")
