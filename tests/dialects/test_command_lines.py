"""Commands inside commands: submitters, wrappers, interpreters and programs that only a variable names."""

from __future__ import annotations

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.shell import parse_shell

TRAINER = (
    "--model_name_or_path org/m --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 1e-5"
)
MEGATRON = "--tensor-model-parallel-size 2 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 4"


def readings_of(text: str) -> dict[str, Reading]:
    return {r.dialect: r for r in recognise_files([parse_shell("run.sh", text)])[0]}


def test_a_submitter_runs_what_stands_behind_its_dashes() -> None:
    text = (
        "uv run python mason.py --cluster c --num_nodes 2 --gpus 8 -- accelerate launch --mixed_precision bf16 "
        f"--num_processes 8 train.py {TRAINER}\n"
    )
    found = readings_of(text)
    launch, arguments = found["launch"].facts, found["hf-training-args"].facts
    assert (launch.value("gpus_per_node"), launch.value("nodes")) == (8, 2)
    assert (arguments.value("model_id"), arguments.value("micro_batch_size")) == ("org/m", 2)


def test_gantry_states_gpus_and_replicas() -> None:
    found = readings_of("gantry run --gpus 4 --replicas=3 -- torchrun train.py --x 1\n")
    assert {k: found["launch"].facts.value(k) for k in ("gpus_per_node", "nodes")} == {"gpus_per_node": 4, "nodes": 3}


def test_a_submitted_command_may_come_behind_another() -> None:
    found = readings_of(
        f"python mason.py --num_nodes 2 --gpus 8 -- source env.sh \\&\\& torchrun --nproc_per_node 8 t.py {TRAINER}\n"
    )
    assert found["launch"].facts.value("nodes") == 2
    assert "hf-training-args" in found


def test_an_option_that_ends_like_a_program_is_none() -> None:
    found = readings_of(f"coverage run --source=/workspace/nemo pretrain_gpt.py {MEGATRON}\n")
    assert found["megatron"].facts.value("micro_batch_size") == 4


def test_an_argument_that_a_branch_adds_to_leaves_what_stood_before() -> None:
    text = f'CMD="pretrain_gpt.py {MEGATRON} "\nif x; then CMD="$CMD --bf16"; fi\ntorchrun --nproc_per_node 8 $CMD\n'
    facts = readings_of(text)["megatron"].facts
    assert (facts.value("micro_batch_size"), facts.value("tensor_parallel_size")) == (4, 2)
    assert not facts.stated("weight_dtype")  # --bf16 may or may not be there


def test_dashes_of_a_launcher_are_its_own() -> None:
    found = readings_of(f"accelerate launch --num_processes 4 train.py {TRAINER} -- python other.py\n")
    assert found["launch"].facts.value("gpus_per_node") == 4


def test_a_command_option_holds_a_command() -> None:
    for option in ('--command "{}"', "--command='{}'", '--COMMAND="{}"'):
        inner = "torchrun --nproc_per_node 4 train.py " + TRAINER
        found = readings_of(f"xpk workload create --cluster c {option.format(inner)}\n")
        assert found["launch"].facts.value("gpus_per_node") == 4, option


def test_an_interpreter_only_a_variable_names() -> None:
    text = f"if x; then PY=python; else PY=python3.11; fi\n$PY pretrain_gpt.py {MEGATRON}\n"
    assert readings_of(text)["megatron"].facts.value("micro_batch_size") == 4
    assert (
        readings_of(f"$PYTHON -m megatron.pretrain {MEGATRON}\n")["megatron"].facts.value("tensor_parallel_size") == 2
    )


def test_a_program_only_a_variable_names() -> None:
    text = f"if x; then RUN='deepspeed a.py'; else RUN='deepspeed b.py'; fi\neval \"$RUN {MEGATRON}\"\n"
    assert readings_of(text)["megatron"].facts.value("sequence_length") == 2048


def test_wrappers_that_name_hosts_and_environments() -> None:
    assert "megatron" in readings_of(f"ssh -q $node python -m torch.distributed.launch pretrain_gpt.py {MEGATRON}\n")
    assert "megatron" in readings_of(f"coverage run -a --source=/x pretrain_gpt.py {MEGATRON}\n")
    served = readings_of(
        "conda run --no-capture-output -n vllm python -m vllm.entrypoints.openai.api_server --model=o/m\n"
    )
    assert served["vllm"].facts.value("model_id") == "o/m"


def test_primus_names_its_experiment_behind_dashes_or_in_a_variable() -> None:
    text = "bash runner/primus-cli direct -- train pretrain --config examples/a.yaml --lr 1e-4\n"
    (reference,) = readings_of(text)["launch"].references
    assert (reference.role, reference.target) == ("config", "examples/a.yaml")
    text = "export EXP=${EXP:-examples/b.yaml}\nbash examples/run_pretrain.sh $@\n"
    (reference,) = readings_of(text)["launch"].references
    assert (reference.role, reference.target) == ("config", "examples/b.yaml")
    assert readings_of("bash examples/run_pretrain.sh\n") == {}
    assert readings_of("primus-cli direct -- projection performance --config a.yaml\n") == {}


def test_a_recipe_of_which_the_name_is_not_known() -> None:
    found = readings_of("python scripts/training/run_recipe.py --recipe $RECIPE model.tensor_model_parallel_size=2\n")
    assert found["nemo"].facts.value("tensor_parallel_size") == 2
    assert found["nemo"].facts.value("model_id") is None


def test_ft_launcher_takes_torchruns_options() -> None:
    found = readings_of("ft_launcher --nproc-per-node=4 --nnodes=2 train.py\n")
    assert (found["launch"].facts.value("gpus_per_node"), found["launch"].facts.value("nodes")) == (4, 2)


def test_a_value_of_a_scripts_option_is_no_program() -> None:
    assert readings_of("bash ./run.sh --backend deepspeed --passes prefetch\n") == {}
    assert "megatron" in readings_of(f"./bind.sh --cpu=ccx.sh --mem=ccx.sh python -u pretrain_gpt.py {MEGATRON}\n")


def test_a_script_that_mpirun_starts_with_a_deepspeed_file() -> None:
    found = readings_of(
        "mpirun -n 8 -npernode 4 python train.py --deepspeed --deepspeed_mpi --deepspeed_config ds.json\n"
    )
    assert [(r.role, r.target) for r in found["launch"].references] == [("deepspeed", "ds.json")]


def test_a_recipes_distributed_optimizer_and_precision() -> None:
    text = "python scripts/training/run_recipe.py --recipe llama3_8b_pretrain_config {} mixed_precision=bf16_mixed\n"
    for key in ("optimizer.use_distributed_optimizer=true", "ddp.use_distributed_optimizer=true"):
        facts = readings_of(text.format(key))["nemo"].facts
        assert (facts.value("zero_stage"), facts.value("weight_dtype")) == (1, "bf16")
    assert readings_of(text.format("ddp.use_distributed_optimizer=false"))["nemo"].facts.value("zero_stage") == 0


def test_deepy_names_configs_in_a_folder_with_or_without_their_ending() -> None:
    def named(text: str) -> list[str]:
        return [reference.target for reference in readings_of(text)["launch"].references]

    assert named("python ./deepy.py train.py -d configs 125M.yml local_setup\n") == [
        "configs/125M.yml",
        "configs/local_setup.yml",
    ]
    assert named("python deepy.py train.py configs/a.yml\n") == ["configs/a.yml"]
    assert readings_of("python deepy.py train.py\n") == {}


MANIFEST = """#!/bin/bash
MODEL=meta-llama/Llama-3.1-8B
cat <<EOF | kubectl apply -f -
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.10.1
          args: ["--model", "$MODEL", "--max-model-len", "8192", "--tensor-parallel-size", "${TP:-4}"]
          resources: {limits: {nvidia.com/gpu: 1}}
EOF
kubectl get pods
"""


def test_a_manifest_in_a_heredoc_is_read_at_its_place() -> None:
    file = parse_shell("run.sh", MANIFEST)
    readings, reports = recognise_files([file])
    (served,) = [reading for reading in readings if reading.dialect == "vllm"]
    assert reports["run.sh"].dialects == ["vllm"]
    assert (served.facts.value("max_model_len"), served.facts.value("gpus_per_node")) == (8192, 1)
    assert served.facts.undecided("model_id")
    assert served.facts.undecided("tensor_parallel_size")  # the script's TP, whatever the default says
    place = served.origin("max_model_len")
    assert MANIFEST[place.value_span.start : place.value_span.end] == '"8192"'
    assert place.position.line == 13


def test_megatron_bridges_tools_are_its_own_and_train_nothing() -> None:
    for text in (
        "python examples/conversion/hf_to_megatron_generate_text.py --hf_model_path o/m --tp 2 --ep 8\n",
        "torchrun --nproc_per_node 8 hf_megatron_roundtrip_multi_gpu.py --hf-model-id o/m --tp 2\n",
        '"$ROOT/scripts/conversion/convert.sh" roundtrip --hf-model o/m --tp 2 --pp 2\n',
    ):
        found = readings_of(text)["nemo"]
        assert (found.role, found.context["trains"], found.facts.value("tensor_parallel_size")) == ("part", False, 2)
    assert readings_of("./convert.sh --input a --output b\n") == {}


def test_nemo_aligners_sections_say_the_method() -> None:
    shared = "trainer.devices=8 trainer.num_nodes=1 model.micro_batch_size=1 model.tensor_model_parallel_size=2"
    for more, method in (
        ("model.dpo.ref_policy_kl_penalty=0.2 pretrained_checkpoint.restore_from_path=a.nemo", "dpo"),
        ("trainer.ppo.max_epochs=1 pretrained_checkpoint.restore_from_path=a.nemo", "ppo"),
        ("trainer.rm.max_epochs=1 model.data.data_prefix=[a]", "reward"),
        ("model.data.data_prefix=[a]", "pretrain"),
    ):
        found = readings_of(f"python train_gpt.py --config-path=conf --config-name=c {shared} {more}\n")["nemo"]
        assert found.facts.value("method") == method, more


def test_scripts_that_train_a_part_of_a_model_say_so_in_their_own_words() -> None:
    for flag in (
        "--pre_seq_len 128",
        "--mm_tunable_parts mm_mlp_adapter",
        "--tune_mm_mlp_adapter True",
        "--unfreeze_layers 2",
    ):
        facts = readings_of(f"torchrun --nproc_per_node 1 main.py {TRAINER} {flag}\n")["hf-training-args"].facts
        assert facts.undecided("method"), flag
    facts = readings_of(f"torchrun --nproc_per_node 1 main.py {TRAINER}\n")["hf-training-args"].facts
    assert facts.value("method") == "full"


def test_a_function_of_the_script_starts_what_it_is_given() -> None:
    text = f'step() {{ echo "$1"; shift; "$@"; }}\nstep \'a label\' uv run torchrun --nproc_per_node 4 pretrain_gpt.py {MEGATRON}\n'
    found = readings_of(text)
    assert found["launch"].facts.value("gpus_per_node") == 4
    assert found["megatron"].facts.value("micro_batch_size") == 4


def test_a_command_in_a_terminal_or_a_running_container() -> None:
    server = "vllm serve org/m --max-model-len 4096"
    for before in (
        "screen -dmS vllm",
        "tmux new-session -d -s sglang",
        "docker exec -e A=b -it vllm",
        "docker compose -f serve.yml exec -T vllm",
        "pixi run",
        "micromamba run -n env",
        "flock /var/lock/gpu",
    ):
        found = readings_of(f"{before} {server}\n")
        assert list(found) == ["vllm"], before
        assert found["vllm"].facts.value("model_id") == "org/m", before
    for nothing in ("tmux attach -t vllm", "screen -r axolotl", "docker exec -it vllm bash", "docker exec vllm"):
        assert readings_of(f"{nothing}\n") == {}, nothing


def test_a_shell_as_the_entry_point_of_an_image() -> None:
    for entry in ("--entrypoint bash", "--entrypoint=/bin/sh"):
        text = f"docker run --gpus all {entry} vllm/vllm-openai:v0.10.0 -lc 'cd /w && vllm serve org/m --dtype half'\n"
        assert readings_of(text)["vllm"].facts.value("model_id") == "org/m", entry


def test_the_script_of_a_shell_in_a_container_has_its_image_and_devices() -> None:
    run = "docker run --gpus '\"device=0,1\"' -m 8g -e VLLM_USE_V1=0"
    server = "vllm serve org/m --dtype half"
    for command in (
        f"{run} --entrypoint bash vllm/vllm-openai:v0.10.0 -c 'pip install librosa && {server}'\n",
        f"{run} vllm/vllm-openai:v0.10.0 bash -lc 'cd /w && {server}'\n",
    ):
        reading = readings_of(command)["vllm"]
        facts = [reading.facts.value(k) for k in ("framework_version", "gpus_per_node", "host_memory_bytes")]
        assert facts == ["0.10.0", 2, 8 * 2**30], command
        assert reading.context["environment"]["VLLM_USE_V1"].text == "0"
    for other in ("pip install -U vllm", "cd /w && pip3 install -e ."):
        reading = readings_of(f"{run} vllm/vllm-openai:v0.10.0 bash -c '{other} && {server}'\n")["vllm"]
        assert not reading.facts.stated("framework_version"), other
    assert readings_of(f"{run} vllm/vllm-openai:v0.10.0 bash -c './setup --model a --dtype half'\n") == {}


def test_three_trainer_arguments_are_enough_with_the_trainers_own_name_among_them() -> None:
    line = "deepspeed --num_gpus=8 train.py --deepspeed ds.json --bf16 True {} 4 --lr 1e-5\n"
    found = readings_of(line.format("--per-device-train-batch-size"))["hf-training-args"].facts
    assert (found.value("micro_batch_size"), found.value("compute_dtype")) == (4, "bf16")
    assert "hf-training-args" not in readings_of(line.format("--batch_size"))


def test_switches_of_pefts_example_script() -> None:
    line = "accelerate launch train.py --model_name_or_path org/m --per_device_train_batch_size 2 --bf16 True --lora_r 8 {}\n"

    def said(switches: str) -> tuple[object, object]:
        facts = readings_of(line.format(switches))["hf-training-args"].facts
        return facts.value("quantization"), facts.value("method")

    assert said("--use_peft_lora True --use_8bit_quantization True") == ("int8", "lora")
    assert said("--use_peft_lora True --use_4bit_quantization True --use_nested_quant True") == ("nf4-double", "qlora")
    assert said("--use_peft_lora False --use_8bit_quantization False") == (None, "full")


def test_sharding_by_flags_of_accelerate_launch() -> None:
    def said(flags: str) -> dict[str, object]:
        facts = readings_of(f"accelerate launch --num_processes 8 {flags} train.py {TRAINER}\n")["launch"].facts
        return {n: facts.value(n) for n in ("fsdp", "fsdp_version", "offload_parameters") if facts.stated(n)}

    fsdp1 = {"fsdp": "full_shard", "fsdp_version": 1}
    assert said("--use_fsdp") == fsdp1
    assert said("--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP") == {**fsdp1, "fsdp": "shard_grad_op"}
    assert said("--use_fsdp --fsdp_version 2 --fsdp_offload_params true") == {
        "fsdp": "full_shard", "fsdp_version": 2, "offload_parameters": "cpu",
    }  # fmt: skip
    assert said("--fsdp_sharding_strategy FULL_SHARD") == {}
    assert said("--use_deepspeed --zero_stage 3 --offload_param_device cpu") == {"offload_parameters": "cpu"}
