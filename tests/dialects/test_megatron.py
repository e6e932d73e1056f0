"""Megatron's command lines, functional tests and Primus experiments."""

from collections.abc import Callable

import pytest

from cfglint.catalog.architecture import architecture_from_config
from cfglint.dialects.megatron_core import lora_targets
from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]

SCRIPT = """
TP=2
MODEL=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq_length 2048
    --max-position-embeddings 2048
)
OPTIONS=" --micro-batch-size 4 --global-batch-size $((16 * 4)) --lr 1.0e-4 --lr-decay-style cosine \\
    --recompute-granularity selective --use-distributed-optimizer --clip-grad 1.0 --train-iters 100 --bf16 {more} "
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${MODEL[@]} --tensor-model-parallel-size $TP $OPTIONS
"""


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def test_flags_in_arrays_and_strings() -> None:
    found = readings_of(SCRIPT.replace("{more}", "--vocab-file v.json --merge-file m.txt"))
    reading = found["megatron"]
    expected = {
        "tensor_parallel_size": 2, "micro_batch_size": 4, "global_batch_size": 64, "sequence_length": 2048, "max_steps": 100,
        "weight_dtype": "bf16", "master_weights": True, "gradient_checkpointing": "selective", "zero_stage": 1,
        "learning_rate": 1e-4, "lr_scheduler": "cosine", "max_grad_norm": 1.0, "method": "pretrain", "framework": "megatron",
        "optimizer": "adamw_torch_fused",
    }  # fmt: skip
    assert {name: reading.facts.value(name) for name in expected} == expected
    launch = found["launch"]
    assert (launch.facts.value("gpus_per_node"), launch.facts.value("nodes")) == (8, 2)
    assert reading.context["launched_by"] is launch
    model = reading.context["model_config"]
    assert (model["model_type"], model["n_layer"], model["n_inner"]) == ("gpt2", 24, 8192)
    assert model["vocab_size"] == 50432  # GPT-2's 50,257 in steps of 128 × 2


@pytest.mark.parametrize(("more", "splits"), [("", 2), ("--expert-tensor-parallel-size 1", 1)])
def test_experts_are_split_like_the_other_layers_unless_told_otherwise(more: str, splits: int) -> None:
    reading = readings_of(SCRIPT.replace("{more}", f"--num-experts 8 --expert-model-parallel-size 4 {more}"))[
        "megatron"
    ]
    assert reading.facts.value("expert_tensor_parallel_size") == splits


def test_dtypes_of_gradient_buffers_and_moments() -> None:
    facts = readings_of(SCRIPT.replace("{more}", ""))["megatron"].facts
    assert facts.value("precision_aware_optimizer") is False
    assert facts.value("gradient_dtype") is None and facts.value("optimizer_state_dtype") is None
    more = "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --main-grads-dtype bf16"
    facts = readings_of(SCRIPT.replace("{more}", more))["megatron"].facts
    assert facts.value("precision_aware_optimizer") is True
    assert (facts.value("gradient_dtype"), facts.value("optimizer_state_dtype")) == ("bf16", "bf16")
    wider = readings_of(SCRIPT.replace("{more}", "--use-precision-aware-optimizer --exp-avg-dtype fp16"))["megatron"]
    assert wider.facts.value("optimizer_state_dtype") == "fp32"


def test_what_is_recomputed() -> None:
    facts = readings_of(SCRIPT.replace("{more}", "--recompute-modules moe_act layernorm"))["megatron"].facts
    assert facts.value("recompute_modules") == ["moe_act", "layernorm"]
    full = SCRIPT.replace("--recompute-granularity selective", "--recompute-granularity full {more}", 1)
    some = "--recompute-method block --recompute-num-layers 3"
    assert readings_of(full.replace("{more}", some))["megatron"].facts.value("recompute_layers") == 3
    uniform = "--recompute-method uniform --recompute-num-layers 1"
    assert readings_of(full.replace("{more}", uniform))["megatron"].facts.value("recompute_layers") is None


LLAMA = (
    "--swiglu --disable-bias-linear --normalization RMSNorm --use-rotary-position-embeddings --group-query-attention "
    "--num-query-groups 4 --untie-embeddings-and-output-weights --tokenizer-type NullTokenizer --vocab-size 32000 "
)


@pytest.mark.parametrize(
    ("more", "kind", "parameters"),
    [
        # 2 × 32000 × 2048 + 24 × (2048² × 2.5 + 3 × 2048 × 5440 + 4096) + 2048, with the head untied
        (LLAMA, "llama", 2 * 32000 * 2048 + 24 * (2048 * 2048 * 5 // 2 + 3 * 2048 * 5440 + 4096) + 2048),
        (LLAMA + "--num-experts 4 --moe-router-topk 2", "mixtral", None),
        (LLAMA + "--qk-layernorm --kv-channels 128", "qwen3", None),
        ("--position-embedding-type rope --vocab-size 32000 --tokenizer-type NullTokenizer", "starcoder2", None),
    ],
)
def test_the_model_of_the_dimensions(more: str, kind: str, parameters: int | None) -> None:
    model = readings_of(SCRIPT.replace("{more}", more))["megatron"].context["model_config"]
    assert model["model_type"] == kind
    made = architecture_from_config(model)
    assert made.num_hidden_layers == 24
    if parameters is not None:
        assert sum(tensor.parameters for tensor in made.tensors) == parameters


def test_an_unknown_vocabulary_makes_no_model() -> None:
    reading = readings_of(SCRIPT.replace("{more}", "--tokenizer-type Llama2Tokenizer --tokenizer-model x.model"))[
        "megatron"
    ]
    assert "model_config" not in reading.context
    assert reading.facts.fact("model_id") is None


def test_what_is_not_known_after_a_switch_is_no_value_of_it() -> None:
    facts = readings_of("torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --micro-batch-size 1 --bf16 $MORE\n")
    assert facts["megatron"].facts.value("weight_dtype") == "bf16"


def test_conversions_share_the_flags_but_make_no_run() -> None:
    text = "torchrun hf2mcore_convert.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 --micro-batch-size 1\n"
    assert readings_of(text)["megatron"].role == "part"


def test_other_commands_are_left_alone() -> None:
    text = "python3 train.py --hidden-size 64 --seq-length 128 --data-path x --split 9,1\ntorchrun eval.py --model x\n"
    assert "megatron" not in readings_of(text), "one own flag is not enough"


def test_ray_submits_the_command_behind_the_dashes() -> None:
    text = (
        "ray job submit --address=http://127.0.0.1:8265 --runtime-env-json='{}' -- python3 train.py --actor-num-nodes 2 "
        "--actor-num-gpus-per-node 8 --hf-checkpoint /m --advantage-estimator grpo --global-batch-size 256 "
        "--tensor-model-parallel-size 2\n"
    )
    facts = readings_of(text)["megatron"].facts
    assert (facts.value("nodes"), facts.value("gpus_per_node"), facts.value("method")) == (2, 8, "grpo")


def test_functional_tests(read: Read) -> None:
    reading = read(
        "ENV_VARS: {A: 1}\nTEST_TYPE: ckpt-resume\nMODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n"
        "  --num-attention-heads: 8\n  --micro-batch-size: 4\n  --seq-length: 1024\n  --max-position-embeddings: 1024\n"
        "  --fp16: true\n  --lr: 0.00015\n  --vocab-file: v\n  --merge-file: m\n"
    )
    assert (reading.dialect, reading.role) == ("megatron", "run")
    fact = reading.facts.fact("micro_batch_size")
    assert fact is not None
    assert (fact.value, fact.describe()) == (4, "config.yaml:7")
    assert (reading.facts.value("weight_dtype"), reading.facts.value("zero_stage")) == ("fp16", 0)
    assert reading.context["model_config"]["n_embd"] == 512


PRIMUS = """
work_group: ${TEAM:amd}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: ${PRIMUS_MODEL:llama3.1_8B}.yaml
    overrides:
      micro_batch_size: 4
      global_batch_size: 128
      seq_length: ${SEQ_LENGTH:8192}
      tensor_model_parallel_size: ${TP:2}
      recompute_granularity: full
      fp8: hybrid
"""


def test_primus_reads_through_its_variables(read: Read) -> None:
    facts = read(PRIMUS).facts
    expected = {
        "model_id": "meta-llama/Llama-3.1-8B", "sequence_length": 8192, "tensor_parallel_size": 2, "method": "pretrain",
        "gradient_checkpointing": "full", "fp8_linear": True, "weight_dtype": "bf16", "micro_batch_size": 4, "zero_stage": 1,
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected


def test_a_preset_cut_down_is_not_the_published_model(read: Read) -> None:
    assert read(PRIMUS.replace("fp8: hybrid", "num_layers: 4")).facts.fact("model_id") is None


def test_lora_targets_in_the_words_of_transformers() -> None:
    assert lora_targets(["linear_qkv", "linear_proj"]) == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert lora_targets(["all"]) == ["all-linear"]
    assert lora_targets(["linear_qkv", "router"]) is None


def test_a_list_of_arguments_that_others_source() -> None:
    text = (
        "if [ -z $N ]; then N=1; fi\nMODEL_ARGS=(\n  --num-layers 36\n  --hidden-size 4096\n  --num-attention-heads 32\n"
        '  --swiglu --seq-length 4096 --bf16\n)\nOTHER_OPTS="--verbose"\n'
    )
    reading = readings_of(text)["megatron"]
    fact = reading.facts.fact("sequence_length")
    assert fact is not None
    assert (reading.role, fact.value, fact.describe()) == ("part", 4096, "run.sh:6")
    assert readings_of(text + "python train.py ${MODEL_ARGS[@]}\n")["megatron"].role == "run"


def test_arguments_that_branches_change_leave_the_defaults_open() -> None:
    text = (
        'O="--num-layers 2 --hidden-size 64 --micro-batch-size 4"\nif [ $A = 1 ]; then O="$O --bf16"; fi\n'
        "deepspeed pretrain_gpt.py ${O} --vocab-file v ${D}\npython prepare.py ${O}\n"
    )
    facts = readings_of(text)["megatron"].facts
    assert facts.fact("weight_dtype") is None
    assert facts.fact("zero_stage") is None
    closed = readings_of("torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --micro-batch-size 4 $@\n")[
        "megatron"
    ].facts
    assert (closed.value("weight_dtype"), closed.value("zero_stage")) == ("fp32", 0)


def test_fully_sharded_parameters_are_not_counted_whole() -> None:
    from cfglint.testing import lint_files

    overrides = "      use_torch_fsdp2: true\n      use_distributed_optimizer: false\n      micro_batch_size: 1\n"
    primus = (
        "work_group: a\nexp_name: b\nmodules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
        "    model: llama3.1_8B.yaml\n    overrides:\n"
    )
    (job,) = lint_files({"p.yaml": primus + overrides}, gpu="MI300X", gpus=8).context.jobs.training
    assert job.value("fsdp") == "full_shard"
    assert not job.value("zero_stage")


def test_states_in_bf16_under_deepspeed_are_sharded_at_stage_0() -> None:
    from cfglint.testing import lint_files

    script = (
        "python pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
        "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 8 --train-iters 10 --lr 1e-4 "
        "--vocab-file v.json --merge-file m.txt --deepspeed --zero-stage 0"
    )
    (job,) = lint_files({"run.sh": script + " --bf16\n"}).context.jobs.training
    assert job.value("zero_stage") == 1
    (job,) = lint_files({"run.sh": script + " --fp16\n"}).context.jobs.training
    assert job.value("zero_stage") == 0


def test_a_frozen_language_model_is_not_full_training() -> None:
    from cfglint.testing import lint_files

    script = (
        "torchrun --nproc_per_node 8 pretrain_vlm.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 256 "
        "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --train-iters 10 --lr 1e-4 --bf16 "
        "--tensor-model-parallel-size 8 --freeze-LM\n"
    )
    (job,) = lint_files({"run.sh": script}).context.jobs.training
    assert job.undecided("method")


def test_another_projects_finetune_script_is_not_megatrons() -> None:
    from cfglint.testing import lint_files

    script = "deepspeed --num_gpus=1 finetune_zero3.py --model_name $MODEL --lr $LR --batch_size 4 --max_length 4096 $FLAGS\n"
    result = lint_files({"run.sh": script})
    assert "megatron" not in [r.dialect for r in result.context.readings]


def test_slime_trains_a_checkpoint_of_hugging_face() -> None:
    from cfglint.jobs.facts import UNKNOWN

    text = (
        "source models/qwen3-4B.sh\nCKPT_ARGS=(--hf-checkpoint org/m --ref-load /root/m_torch_dist)\n"
        "ROLLOUT_ARGS=(--rollout-batch-size 32 --n-samples-per-prompt 8 --rollout-max-prompt-len 1024 "
        "--rollout-max-response-len 8192 --global-batch-size 256)\n"
        "PERF_ARGS=(--tensor-model-parallel-size 2 --recompute-granularity full --use-dynamic-batch-size --max-tokens-per-gpu 9216)\n"
        'ray job submit --address="http://127.0.0.1:8265" -- python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 '
        "--advantage-estimator grpo ${MODEL_ARGS[@]} ${CKPT_ARGS[@]} ${ROLLOUT_ARGS[@]} ${PERF_ARGS[@]}\n"
    )
    found, _ = recognise_files([parse_shell("run.sh", text)])
    reading = next(r for r in found if r.dialect == "megatron")
    expected = {
        "model_id": "org/m", "weight_dtype": "bf16", "master_weights": True, "zero_stage": 1, "sequence_length": 9216,
        "global_batch_size": 256, "tensor_parallel_size": 2, "method": "grpo", "gpus_per_node": 8, "nodes": 1,
    }  # fmt: skip
    assert {name: reading.facts.value(name) for name in expected} == expected
    assert [fact.value for fact in reading.facts.statements("micro_batch_size")] == [UNKNOWN]
    assert reading.context["tokens_per_micro_batch"] == 9216


def test_arguments_in_yaml() -> None:
    from pathlib import Path

    from cfglint.jobs.linker import HardwareOptions, Surroundings, link
    from cfglint.source.yaml import parse_yaml

    text = """
language_model:
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  ffn_hidden_size: null
  add_bias_linear: False
  activation_func: swiglu
  recompute_granularity: selective
model_parallel:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  sequence_parallel: True
  bf16: True
micro_batch_size: 2
global_batch_size: 128
seq_length: 4096
train_iters: 100
optimizer: adam
lr: 3.0e-4
use_distributed_optimizer: True
vocab_size: 32000
"""
    command = "torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg c.yaml\n"
    readings, _ = recognise_files([parse_shell("a.sh", command), parse_yaml("c.yaml", text)])
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    expected = {
        "tensor_parallel_size": 2, "micro_batch_size": 2, "global_batch_size": 128, "sequence_length": 4096,
        "weight_dtype": "bf16", "gradient_checkpointing": "selective", "zero_stage": 1, "gpus_per_node": 8,
        "sequence_parallel": True, "learning_rate": 3e-4, "method": "pretrain", "model_id": "24 layers of 1024",
    }  # fmt: skip
    assert {name: job.value(name) for name in expected} == expected
    assert (job.dialects, job.documents) == (["megatron", "launch"], ["c.yaml", "a.sh"])
