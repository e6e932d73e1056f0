"""Megatron's arguments and models' own files beyond the rules' examples: near misses, open commands, odd values."""

from __future__ import annotations

import json

import pytest

from cfglint.lint.finding import Finding
from cfglint.testing import lint_files

COMMAND = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} "
    "--num-layers {layers} --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
    "--max-position-embeddings 4096 --micro-batch-size {micro} --global-batch-size {total} --train-iters 10 "
    "--lr 3e-4 --min-lr 3e-5 --bf16 {more}\n"
)


def found(files: dict[str, str], code: str) -> list[Finding]:
    result = lint_files(files, select=(code,))
    assert not result.faults, result.faults[0].detail
    return [f for f in result.findings if f.code == code]


def megatron(code: str, tp: str = "2", pp: str = "1", layers: str = "32", micro: str = "1", total: str = "64", more: str = "") -> list[Finding]:  # fmt: skip
    return found({"run.sh": COMMAND.format(tp=tp, pp=pp, layers=layers, micro=micro, total=total, more=more)}, code)


def test_batch_counts_data_parallel_ranks_only() -> None:
    assert megatron("MEG001", tp="8", total="3") == []
    (finding,) = megatron("MEG001", tp="2", total="6")
    assert "4 data-parallel ranks = 4" in finding.message


def test_variable_sizes_decide_nothing() -> None:
    for code in ("MEG001", "MEG002", "MEG003", "MEG004"):
        assert megatron(code, tp="$TP", pp="${PP}", layers="$LAYERS", total="$GBS", micro="$MBS") == []


def test_uneven_pipelines_are_meant() -> None:
    assert len(megatron("MEG002", pp="4", tp="1", layers="30")) == 1
    assert megatron("MEG002", pp="4", tp="1", layers="30", more="--decoder-first-pipeline-num-layers 6") == []


def test_ramped_batches_are_left_alone() -> None:
    assert megatron("MEG001", total="6", more="--rampup-batch-size 2 2 100") == []


ODD = [None, True, -1, 0, 1.5, "x", "auto", [], [1], {}, {"a": 1}, "${X}", 10**30]
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 2,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "eos_token_id": 2, "dtype": "bfloat16",
    "max_position_embeddings": 8192, "layer_types": ["full_attention", "full_attention"], "temperature": 1.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    "quantization_config": {"quant_method": "gptq", "bits": 4},
}  # fmt: skip


@pytest.mark.parametrize("key", sorted(CONFIG))
def test_odd_values_in_a_model_config(key: str) -> None:
    for value in ODD:
        result = lint_files({"config.json": json.dumps({**CONFIG, key: value})}, select=("MDL",))
        assert not result.faults, (key, value, result.faults[0].detail)


def test_models_with_code_of_their_own_are_left_alone() -> None:
    broken = {**CONFIG, "num_key_value_heads": 5, "layer_types": ["full_attention"]}
    assert found({"config.json": json.dumps(broken)}, "MDL001")
    own = {**broken, "auto_map": {"AutoModel": "modeling.Own"}}
    assert lint_files({"config.json": json.dumps(own)}, select=("MDL001", "MDL005")).findings == []


def test_a_nested_text_model_is_looked_at() -> None:
    config = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {**CONFIG, "num_key_value_heads": 5}}  # fmt: skip
    (finding,) = found({"config.json": json.dumps(config)}, "MDL001")
    assert finding.primary is not None and "text_config" in finding.primary.route


def test_scripts_of_the_time_before_micro_batches() -> None:
    old = "python pretrain_gpt2.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --save out --warmup .01 --fp16\n"
    assert [(f.severity, f.message) for f in found({"run.sh": old}, "MEG004")] == [
        ("info", "Megatron-LM no longer takes --batch-size, and stops"),
        ("info", "Megatron-LM no longer takes --warmup, and stops"),
    ]
    (finding,) = megatron("MEG004", more="--save out")
    assert (finding.severity, finding.message) == ("error", "--save without a --save-interval")


VERL = """
python3 -m {module} data.train_batch_size=128 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.n=1 \\
  actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 {more}
"""


def test_verl_batches_over_a_default_number_of_gpus() -> None:
    def severities(module: str, more: str = "") -> list[str]:
        return [f.severity for f in found({"run.sh": VERL.format(module=module, more=more)}, "RLH013")]

    assert severities("verl.trainer.main_ppo", "trainer.n_gpus_per_node=8 trainer.nnodes=1") == ["error"]
    assert severities("verl.trainer.main_ppo") == ["warning"]
    assert severities("recipe.vla.main_ppo", "trainer.n_gpus_per_node=8 trainer.nnodes=1") == []
