"""NeMo 2's command and Megatron-Bridge's recipes with overrides."""

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.shell import parse_shell


def nemo(text: str) -> Reading:
    return next(r for r in recognise_files([parse_shell("run.sh", text)])[0] if r.dialect == "nemo")


def test_a_recipe_of_the_catalogue_with_overrides() -> None:
    reading = nemo(
        "nemo llm pretrain --factory llama31_70b trainer.num_nodes=8 trainer.devices=8 data.micro_batch_size=2 "
        "trainer.strategy.tensor_model_parallel_size=8 -y\n"
    )
    expected = {
        "model_id": "meta-llama/Llama-3.1-70B", "nodes": 8, "gpus_per_node": 8, "micro_batch_size": 2, "method": "pretrain",
        "tensor_parallel_size": 8, "pipeline_parallel_size": 4, "context_parallel_size": 2, "sequence_length": 8192,
        "global_batch_size": 512, "weight_dtype": "bf16", "zero_stage": 1, "framework": "nemo",
    }  # fmt: skip
    assert {name: reading.facts.value(name) for name in expected} == expected
    fact = reading.facts.fact("pipeline_parallel_size")
    assert fact is not None
    assert isinstance(fact.origin, DefaultOrigin)
    assert "held_elsewhere" not in reading.context


def test_arguments_of_the_factory() -> None:
    reading = nemo(
        "srun nemo llm finetune --factory \"llama3_8b(num_nodes=2, peft_scheme='none')\" data.micro_batch_size=4\n"
    )
    expected = {"model_id": "meta-llama/Meta-Llama-3-8B", "nodes": 2, "method": "full", "micro_batch_size": 4}
    assert {name: reading.facts.value(name) for name in expected} == expected
    assert reading.context["held_elsewhere"][0] == "recipe", "what else the recipe holds decides memory"


@pytest.mark.parametrize(
    ("recipe", "model", "method"),
    [
        ("llama32_1b_pretrain_config", "meta-llama/Llama-3.2-1B", "pretrain"),
        ("qwen3_8b_sft_config", "Qwen/Qwen3-8B", "full"),
        ("gemma2_9b_peft_config", "google/gemma-2-9b", "lora"),
        ("llama3_8b_pretrain_2gpu_h100_bf16_config", "meta-llama/Meta-Llama-3-8B", "pretrain"),
        ("ours_3b_finetune_config", UNKNOWN, UNKNOWN),
    ],
)
def test_bridge_recipes_are_named_for_their_model(recipe: str, model: object, method: object) -> None:
    reading = nemo(
        f"torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe {recipe} train.micro_batch_size=2 "
        "train.global_batch_size=64 model.tensor_model_parallel_size=2 dataset.seq_length=4096\n"
    )
    assert [fact.value for fact in reading.facts.statements("model_id")] == [model]
    assert [fact.value for fact in reading.facts.statements("method")] == [method]
    expected = {"micro_batch_size": 2, "global_batch_size": 64, "tensor_parallel_size": 2, "sequence_length": 4096}
    assert {name: reading.facts.value(name) for name in expected} == expected


def test_overrides_alone_need_two_that_are_bridge_s() -> None:
    found, _ = recognise_files([parse_shell("a.sh", "python train.py model.name=x train.lr=1e-4\n")])
    assert not [r for r in found if r.dialect == "nemo"]
    assert (
        nemo("torchrun pretrain.py train.train_iters=10 model.tensor_model_parallel_size=4\n").facts.value("max_steps")
        == 10
    )
