"""Numbers that no program can count with, where one is read: never a fault of cfglint's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.cli.main import main

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: {0}\nadapter: lora\nlora_r: {0}\n"
LLAMAFACTORY = (
    "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\nfinetuning_type: lora\nlora_rank: {0}\ncutoff_len: {0}\n"
)
DEEPSPEED = (
    '{{"train_batch_size": {0}, "train_micro_batch_size_per_gpu": {0}, "gradient_accumulation_steps": {0},'
    ' "zero_optimization": {{"stage": 2, "reduce_bucket_size": {0}}}}}'
)
MEGATRON = (
    "torchrun --nproc_per_node {0} pretrain_gpt.py --num-layers {0} --hidden-size {0} --num-attention-heads {0} --swiglu"
    " --micro-batch-size {0} --global-batch-size {0} --seq-length {0} --max-position-embeddings {0} --lr 1e-4\n"
)
VLLM = "model: meta-llama/Llama-3.1-8B\ntensor-parallel-size: {0}\nmax-model-len: {0}\ngpu-memory-utilization: {0}\n"
SGLANG = "model-path: meta-llama/Llama-3.1-8B\ntp-size: {0}\nmem-fraction-static: {0}\nmax-running-requests: {0}\n"
SCRIPT = (
    "#SBATCH --nodes={0}\n#SBATCH --gres=gpu:a100:{0}\n#SBATCH --mem={0}G\n#SBATCH --cpus-per-task={0}\n"
    "vllm serve meta-llama/Llama-3.1-8B --max-model-len {0}k --tensor-parallel-size {0}\n"
    "docker run --gpus {0} -p {0}:{0} vllm/vllm-openai:v0.11.0 --model a/b --port {0}\n"
)
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai:v0.11.0\n"
    "    args: [--model=a/b, '--port={0}', '--tensor-parallel-size={0}']\n    ports: [{{containerPort: {0}}}]\n"
    "    readinessProbe: {{httpGet: {{path: /health, port: {0}}}}}\n    resources: {{limits: {{nvidia.com/gpu: {0}}}}}\n"
)
COMPOSE = (
    "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model a/b --tensor-parallel-size {0}\n"
    "    ports: ['{0}:{0}']\n    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: {0}}}]}}}}}}\n"
)
MTP = (
    "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --tensor-parallel-size 4"
    ' --speculative-config \'{{"method": "mtp", "num_speculative_tokens": {0}}}\'\n'
)
ROLL = (
    "rollout_batch_size: 8\npretrain: Qwen/Qwen2.5-7B\nnum_gpus_per_node: 8\nactor_train:\n  device_mapping: list(range(0,{0}))\n"
    "  strategy_args: {{strategy_name: megatron_train, strategy_config: {{tensor_model_parallel_size: {0}}}}}\n"
    "actor_infer:\n  device_mapping: list(range(0,{0}))\n  strategy_args: {{strategy_name: vllm}}\n"
)
SKYPILOT = "resources: {{accelerators: 'A100:{0}'}}\nnum_nodes: {0}\nrun: vllm serve meta-llama/Llama-3.1-8B\n"
FILES = {
    "axolotl.yaml": AXOLOTL, "lf.yaml": LLAMAFACTORY, "ds.json": DEEPSPEED, "megatron.sh": MEGATRON, "vllm.yaml": VLLM,
    "sglang.yaml": SGLANG, "run.sh": SCRIPT, "pod.yaml": POD, "compose.yaml": COMPOSE, "sky.yaml": SKYPILOT, "mtp.sh": MTP, "roll.yaml": ROLL,
}  # fmt: skip


@pytest.mark.parametrize(
    "number", ["1" + "0" * 400, "1" + "0" * 4000, "9" * 5000, "-1" + "0" * 400, "1e400", "²", "８"]
)
@pytest.mark.parametrize("name", FILES)
def test_a_number_beyond_counting(
    name: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = FILES[name].format(number)
    (tmp_path / name).write_text(text)
    assert main(["check", name, "--strict", "--preview", "--gpu", "A100-80GB"]) in (0, 1)
    assert "INT001" not in capsys.readouterr().out
    assert main(["estimate", name, "--gpu", "A100-80GB"]) in (0, 2)


@pytest.mark.parametrize("name", FILES)
def test_the_same_file_with_a_plain_number_is_recognised(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(FILES[name].format(2))
    main(["check", name, "--show-files"])
    assert "not recognised" not in capsys.readouterr().out


def test_a_long_number_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2, "offload_optimizer": 1' + "0" * 4000 + "}}")
    assert main(["check", "ds.json", "--format", "concise"]) in (0, 1)
    assert "found a number of more than 40 digits" in capsys.readouterr().out
