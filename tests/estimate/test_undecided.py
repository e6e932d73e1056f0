"""Verdicts that rest on the most favourable answer to what no file says."""

from __future__ import annotations

from cfglint.testing import lint_files

AXOLOTL = """\
base_model: meta-llama/Llama-3.1-70B
sequence_len: 2048
micro_batch_size: 1
num_epochs: 1
bf16: true
gradient_checkpointing: true
datasets: [{path: our/data, type: alpaca}]
learning_rate: 1.0e-5
"""

LLAMAFACTORY = """\
model_name_or_path: Qwen/Qwen3-8B
stage: sft
do_train: true
finetuning_type: full
template: qwen3
dataset: our
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
"""


def _verdict(files: dict[str, str], gpu: str = "A100-80GB", gpus: int | None = None) -> tuple[str, list[str]]:
    result = lint_files(files, gpu=gpu, gpus=gpus)
    (job,) = result.context.jobs.training
    memory = result.context.estimate(job).memory
    assert bool([f for f in result.findings if f.code == "MEM001"]) == (memory.verdict in ("oom", "likely-oom"))
    return memory.verdict, memory.missing


def test_sharded_over_a_number_of_gpus_that_no_file_states() -> None:
    assert _verdict({"sft.yaml": AXOLOTL + "fsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n"}) == (
        "unknown",
        ["gpus_per_node"],
    )


def test_no_number_of_gpus_holds_what_each_holds_whole() -> None:
    verdict, _ = _verdict({"sft.yaml": AXOLOTL.replace("70B", "405B")})
    assert verdict == "oom"


def test_a_launch_that_is_not_here_may_shard() -> None:
    assert _verdict({"sft.yaml": LLAMAFACTORY}) == ("unknown", ["gpus_per_node"])
    assert _verdict({"sft.yaml": LLAMAFACTORY}, gpus=8) == ("unknown", ["sharding"])
    assert _verdict({"sft.yaml": LLAMAFACTORY}, gpus=1)[0] == "oom"


def test_a_stage_that_a_variable_names_is_open() -> None:
    script = "deepspeed main.py --model_name_or_path facebook/opt-13b --per_device_train_batch_size 1 \\\n"
    script += "  --learning_rate 1e-4 --output_dir out --num_train_epochs 1 --max_seq_len 512 --zero_stage $STAGE --deepspeed\n"
    assert _verdict({"run.sh": script}, gpus=8)[0] == "unknown"


def test_a_deepspeed_file_that_is_not_here_may_shard() -> None:
    script = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-14B --max_seq_length 2048 \\\n"
    script += "  --per_device_train_batch_size 1 --bf16 True --output_dir out --num_train_epochs 1 --learning_rate 1e-5"
    assert _verdict({"run.sh": script + "\n"})[0] == "oom"
    assert _verdict({"run.sh": script + " --deepspeed zero3.json\n"}) == ("unknown", ["sharding"])


def test_what_a_script_of_its_own_trains_is_not_known() -> None:
    script = "torchrun --nproc_per_node 8 finetune.py --model_name_or_path Qwen/Qwen2.5-14B --max_seq_length 2048 \\\n"
    script += "  --per_device_train_batch_size 1 --bf16 True --output_dir out --num_train_epochs 1 --learning_rate 1e-5"
    assert _verdict({"run.sh": script + "\n"})[0] == "oom"
    assert _verdict({"run.sh": script + " --freeze_llm True --use_llm_lora 16\n"}) == ("unknown", ["method"])
    assert _verdict({"run.sh": script + " --freeze_llm False --use_llm_lora 0\n"})[0] == "oom"


def test_a_recipe_leaves_the_number_of_gpus_to_its_reader() -> None:
    recipe = (
        "model:\n  model_id: meta-llama/Llama-3.1-405B\n  base_args: []\n  min_vllm_version: 0.10.0\n"
        "variants:\n  default:\n    precision: bf16\n    vram_minimum_gb: 900\n"
    )
    result = lint_files({"recipe.yaml": recipe}, gpu="H200", gpus=8)
    (job,) = result.context.jobs.serving
    memory = result.context.estimate(job).memory
    assert (memory.verdict, memory.missing) == ("unknown", ["tensor_parallel_size"])
    assert not [f for f in result.findings if f.code.startswith("MEM1")]


MEGATRON = """\
torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size {} --pipeline-model-parallel-size 2 \\
    --num-layers 36 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 \\
    --micro-batch-size 1 --global-batch-size 64 --vocab-size 50257 --fp16 --train-iters 10 --lr 1e-4 --recompute-activations
"""


def test_parallel_sizes_that_a_variable_holds_give_no_verdict() -> None:
    """gpt3 of awsome-distributed-training sets TENSOR_PARALLEL in two branches: 7 B over 16 A100 was called out of memory."""
    assert _verdict({"run.sh": MEGATRON.format(1)})[0] == "likely-oom"
    assert _verdict({"run.sh": MEGATRON.format("$TP")}) == ("unknown", ["tensor_parallel_size"])
    assert _verdict({"run.sh": MEGATRON.format("$TP").replace("--num-layers 36", "--num-layers 2")})[0] == "fits"


TRAINER = """\
torchrun --nproc_per_node 1 train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size {} \\
    --bf16 True --learning_rate 1e-5 --num_train_epochs 1 --output_dir out --model_max_length 4096 --gradient_checkpointing {} {}
"""


def test_values_that_a_variable_holds_are_taken_at_their_least() -> None:
    plain = {"run.sh": TRAINER.format(64, "False", "--use_peft --lora_r 8")}
    assert _verdict(plain)[0] in ("oom", "likely-oom")
    hidden = {"run.sh": TRAINER.format("$BATCH", "$CHECKPOINT", "--use_peft --lora_r 8")}
    assert _verdict(hidden) == ("unknown", ["micro_batch_size", "gradient_checkpointing"])
    # a full optimizer of an 8 B model exceeds the device whatever the batch is
    assert _verdict({"run.sh": TRAINER.format("$BATCH", "True", "--torch_dtype float32")})[0] == "oom"


def test_arguments_in_a_variable_may_change_everything() -> None:
    command = TRAINER.format(8, "False", "--torch_dtype float32")
    assert _verdict({"run.sh": command})[0] == "oom"
    assert _verdict({"run.sh": command.rstrip() + " $EXTRA\n"}) == ("unknown", ["arguments"])
    assert _verdict({"run.sh": command.rstrip() + " --report_to $TRACKER $@\n"})[0] == "oom"


def test_arguments_of_a_server_may_hide_too() -> None:
    def verdict(more: str) -> str:
        result = lint_files({"serve.sh": f"vllm serve meta-llama/Llama-3.1-70B-Instruct {more}\n"}, gpu="A100-80GB")
        (job,) = result.context.jobs.serving
        found = result.context.estimate(job).memory.verdict
        assert (found == "oom") == bool([f for f in result.findings if f.code == "MEM101"])
        return found

    assert verdict("--port $PORT") == "oom"
    assert verdict("--port 80 $ARGS") == "unknown"
    assert verdict("--enforce-eager $EXTRA_ARGS") == "unknown"
    assert verdict('--enforce-eager "${ARGS[@]}"') == "unknown"


def test_a_deepspeed_file_that_is_not_at_hand_may_shard() -> None:
    command = MEGATRON.format(1).rstrip() + " --deepspeed --deepspeed_config {}\n"
    stage = '{"zero_optimization": {"stage": %d}, "fp16": {"enabled": true}, "train_batch_size": 64}'
    assert _verdict({"run.sh": command.format("ds.json")}) == ("unknown", ["sharding"])
    assert _verdict({"run.sh": command.format("$CONFIG")}) == ("unknown", ["sharding"])
    assert _verdict({"run.sh": command.format("ds.json"), "ds.json": stage % 3})[0] == "fits"
    assert _verdict({"run.sh": command.format("ds.json"), "ds.json": stage % 0})[0] in ("oom", "likely-oom")


EVALUATES = """\
cfglint: 1
kind: train
model: meta-llama/Llama-3.1-8B
framework: trl
micro_batch_size: 1
sequence_length: 2048
zero_stage: 3
"""


def test_a_batch_of_evaluation_that_is_filled_in_later_is_open() -> None:
    """Its default was taken for what the file says, and a verdict rested on it; a template was a wrong number."""
    for unknown in ("auto", "${EVAL}", '"{{ batch }}"'):
        text = EVALUATES + f"evaluates: true\neval_micro_batch_size: {unknown}\n"
        result = lint_files({"job.yaml": text}, gpu="H100-SXM", gpus=8)
        (job,) = result.context.jobs.training
        made = result.context.estimate(job)
        assert (made.memory.verdict, made.memory.missing) == ("unknown", ["eval_micro_batch_size"])
        assert "eval_micro_batch_size is not known: 8 (trl default)" in made.assumptions and not made.problems
        assert not [f for f in result.findings if f.code in ("MEM012", "SCH009")]
    assert _verdict({"job.yaml": EVALUATES + "evaluates: true\n"}, "H100-SXM", 8) == ("tight", [])
    assert _verdict({"job.yaml": EVALUATES + "eval_micro_batch_size: auto\n"}, "H100-SXM", 8)[1] == []


def test_a_template_in_a_job_file_is_not_known() -> None:
    text = EVALUATES.replace("micro_batch_size: 1", "micro_batch_size: ${BATCH}")
    assert _verdict({"job.yaml": text}, "H100-SXM", 8) == ("unknown", ["micro_batch_size"])
    result = lint_files({"job.yaml": EVALUATES.replace("meta-llama/Llama-3.1-8B", "${MODEL}")}, gpu="H100-SXM", gpus=8)
    assert not [f for f in result.findings if f.code == "FCT001"]
