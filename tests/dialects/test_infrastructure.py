"""What carriers say of hardware: node selectors, affinity, devices, SLURM headers, visible devices, counts left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN
from cfglint.jobs.job import Job
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source import parse_text

GIB = 2**30


def jobs_of(files: dict[str, str]) -> list[Job]:
    readings, _ = recognise_files([parse_text(path, text) for path, text in files.items()])
    return list(link(readings, HardwareOptions(), Surroundings(root=Path("."))))


def hardware(files: dict[str, str]) -> tuple[str, int | None, int | None]:
    (job,) = jobs_of(files)
    return job.hardware.name, job.hardware.gpus_per_node, job.hardware.nodes


POD = """
apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  SELECTOR
  containers:
    - name: v
      image: vllm/vllm-openai:v0.10.2
      args: [--model, org/m]
      resources: {limits: {LIMITS}}
"""
TERMS = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"


def term(key: str, *values: str) -> str:
    return f"{{matchExpressions: [{{key: {key}, operator: In, values: [{', '.join(values)}]}}]}}"


INSTANCE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("selector", "limits", "gpu", "count"),
    [
        ("nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}", "nvidia.com/gpu: 2", "L4", 2),
        ("nodeSelector: {node.kubernetes.io/instance-type: p4de.24xlarge}", "nvidia.com/gpu: 8", "A100-80GB", 8),
        (
            "nodeSelector: {node.kubernetes.io/instance-type: Standard_ND96isr_H100_v5}",
            "nvidia.com/gpu: 8",
            "H100-80GB",
            8,
        ),
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}", "nvidia.com/gpu: '1'", "L40S", 1),
        ("nodeSelector: {karpenter.k8s.aws/instance-family: g6e}", "nvidia.com/gpu: 1", "L40S", 1),
        (TERMS % term(INSTANCE, "g5.xlarge", "g5.2xlarge"), "nvidia.com/gpu: 1", "A10G", 1),
        (TERMS % f"{term(INSTANCE, 'g5.xlarge')}, {term(INSTANCE, 'g5.4xlarge')}", "nvidia.com/gpu: 1", "A10G", 1),
        (TERMS % term(INSTANCE, "g5.xlarge", "g6.xlarge"), "nvidia.com/gpu: 1", "", 1),
        (TERMS % f"{term(INSTANCE, 'g5.xlarge')}, {term('zone', 'a')}", "nvidia.com/gpu: 1", "", 1),
    ],
)
def test_kubernetes_labels(selector: str, limits: str, gpu: str, count: int) -> None:
    assert hardware({"pod.yaml": POD.replace("SELECTOR", selector).replace("LIMITS", limits)}) == (gpu, count, None)


SERVICE = """
services:
  llm:
    image: vllm/vllm-openai:v0.10.2
    command: --model org/m
    MORE
"""


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ['0', '3']}]}}}", 2),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4}]}}}", 4),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all}]}}}", None),
        ("gpus: [{driver: nvidia, count: 2}]", 2),
        ("gpus: all", None),
        ("environment: {NVIDIA_VISIBLE_DEVICES: '0,1'}", 2),
        ("environment: {NVIDIA_VISIBLE_DEVICES: all}", None),
        ("deploy: {resources: {reservations: {devices: [{count: 2}]}}}\n    environment: [CUDA_VISIBLE_DEVICES=1]", 1),
    ],
)
def test_compose_devices(more: str, count: int | None) -> None:
    assert hardware({"compose.yaml": SERVICE.replace("MORE", more)}) == ("", count, None)


TRAIN = "train.py --model_name_or_path org/m --per_device_train_batch_size 1 --learning_rate 1e-5 --output_dir o --bf16 True\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n#SBATCH --constraint=h100\n", ("h100", 4, 2)),
        ("#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH -C a100\n", ("a100", 4, 2)),
        ("#SBATCH --gres=gpu:4\n#SBATCH --constraint='a100|h100'\n", ("", 4, None)),
        ("#SBATCH --gres=gpu:4\n#SBATCH --constraint=infiniband\n", ("", 4, None)),
        ("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=a100:1\n", ("a100", 4, 1)),
        ("#SBATCH --nodes=2\n#SBATCH -G h200:16\n", ("h200", 8, 2)),
    ],
)
def test_slurm_headers(header: str, expected: tuple[str, int | None, int | None]) -> None:
    assert hardware({"job.slurm": f"#!/bin/bash\n{header}srun python {TRAIN}"}) == expected


def test_memory_of_a_slurm_job_by_its_cpus() -> None:
    header = "#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=16\n#SBATCH --mem-per-cpu=8G\n"
    (job,) = jobs_of({"job.slurm": f"#!/bin/bash\n{header}srun python {TRAIN}"})
    assert job.hardware.host_memory_bytes == 512 * GIB


@pytest.mark.parametrize(
    ("variable", "count"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2", 3), ("HIP_VISIBLE_DEVICES=0,1", 2), ("CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c", 1),
        ("CUDA_VISIBLE_DEVICES=''", None), ("CUDA_VISIBLE_DEVICES=$SOME", None),
    ],
)  # fmt: skip
def test_visible_devices(variable: str, count: int | None) -> None:
    assert hardware({"serve.sh": f"{variable} vllm serve org/m\n"})[1] == count


ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
mixed_precision: bf16
num_machines: 2
num_processes: 16
"""


def launched(flags: str) -> Job:
    (job,) = jobs_of({"run.sh": f"accelerate launch --config_file a.yaml {flags} {TRAIN}", "a.yaml": ACCELERATE})
    return job


def test_a_number_of_processes_that_is_not_known_is_not_the_file_s() -> None:
    job = launched("--num_processes $N")
    assert [fact.value for fact in job.statements("gpus_per_node")] == [UNKNOWN]
    assert (job.hardware.gpus_per_node, job.hardware.nodes, job.hardware.world_size) == (None, 2, None)


def test_a_number_of_machines_that_is_not_known_leaves_the_world_open() -> None:
    job = launched("--num_machines $SLURM_NNODES")
    assert job.hardware.nodes is None
    assert job.hardware.nodes_open
    assert job.hardware.world_size is None
    (plain,) = jobs_of({"run.sh": f"torchrun --nnodes $NNODES --nproc_per_node 8 {TRAIN}"})
    assert (plain.hardware.gpus_per_node, plain.hardware.world_size) == (8, None)


def test_processes_of_all_machines_are_shared_over_those_of_the_file() -> None:
    assert (
        launched("--num_processes 8").hardware.gpus_per_node,
        launched("--num_processes 8").hardware.world_size,
    ) == (4, 8)
    assert launched("").hardware.world_size == 16
    assert launched("--num_processes 4 --num_machines 1").hardware.world_size == 4
    slurm = f"#!/bin/bash\n#SBATCH --nodes=2\naccelerate launch --num_processes 16 --num_machines $SLURM_NNODES {TRAIN}"
    assert hardware({"job.slurm": slurm}) == ("", 8, 2)


def test_an_image_that_a_dockerfile_builds_on_says_engine_and_version() -> None:
    (job,) = jobs_of(
        {"Dockerfile": 'FROM vllm/vllm-openai:v0.10.2\nENV X=1\nCMD ["--model", "org/m", "--max-model-len", "4096"]\n'}
    )
    assert (job.value("framework"), job.value("framework_version"), job.value("max_model_len")) == (
        "vllm",
        "0.10.2",
        4096,
    )
    image = "FROM ghcr.io/huggingface/text-generation-inference:3.0.1\nENV MODEL_ID=org/m NUM_SHARD=2\n"
    (job,) = jobs_of({"Dockerfile": image})
    assert (job.value("framework"), job.value("model_id"), job.value("tensor_parallel_size")) == ("tgi", "org/m", 2)
    assert jobs_of({"Dockerfile": "FROM python:3.11\nENV MODEL_ID=org/m\n"}) == []


def test_ray_and_kubeflow_jobs_that_name_their_command_elsewhere() -> None:
    ray = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: rl}
spec:
  entrypoint: |
    export X=1
    python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=org/m trainer.n_gpus_per_node=8 trainer.nnodes=2
  rayClusterSpec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: x}]}}}}
"""
    (job,) = jobs_of({"ray.yaml": ray})
    assert (job.dialects, job.value("model_id"), job.hardware.world_size) == (["verl", "launch"], "org/m", 16)
    train = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  trainer:
    numNodes: 2
    image: x
    command: [torchrun, train.py]
    args: [--model_name_or_path, org/m, --per_device_train_batch_size, "1", --learning_rate, "1e-5", --output_dir, o]
    resourcesPerNode: {limits: {nvidia.com/gpu: 4}}
"""
    (job,) = jobs_of({"train.yaml": train})
    assert (job.hardware.gpus_per_node, job.hardware.nodes, job.value("model_id")) == (4, 2, "org/m")


def test_files_that_gpt_neox_merges() -> None:
    model = (
        "{pipe_parallel_size: 1, model_parallel_size: 1, num_layers: 12, hidden_size: 768, num_attention_heads: 12, seq_length: 2048, "
        "max_position_embeddings: 2048, train_micro_batch_size_per_gpu: 4, zero_optimization: {stage: 1}, train_iters: 10}\n"
    )
    setup = "{data_path: x, vocab_file: v, merge_file: m, num_gpus: 8, launcher: slurm, save: ck}\n"
    files = {"run.sh": "python deepy.py train.py c/model.yml c/setup.yml\n", "c/model.yml": model, "c/setup.yml": setup}
    (job,) = jobs_of(files)
    assert (job.hardware.gpus_per_node, job.value("micro_batch_size")) == (8, 4)
    assert job.documents == ["c/model.yml", "run.sh", "c/setup.yml"]


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:${TAG:-v0.10.2}", "0.10.2"), ("vllm/vllm-openai:${TAG-v0.9.1}", "0.9.1"),
        ("vllm/vllm-openai:${TAG}", None), ("vllm/vllm-openai:${TAG:-v${MINOR}}", None),
    ],
)  # fmt: skip
def test_compose_variables_with_a_default(image: str, version: str | None) -> None:
    service = SERVICE.replace("vllm/vllm-openai:v0.10.2", f'"{image}"').replace(
        "command: --model org/m", 'command: ["--model", "${MODEL:-org/m}", "--max-model-len", "${LENGTH}"]'
    )
    (job,) = jobs_of({"compose.yaml": service.replace("MORE", "environment: {CUDA_VISIBLE_DEVICES: '${GPUS:-0,1}'}")})
    assert (job.value("model_id"), job.value("framework_version")) == ("org/m", version)
    assert job.hardware.gpus_per_node == 2
    assert job.undecided("max_model_len")


SERVE = "vllm serve Qwen/Qwen2.5-7B-Instruct\n"


@pytest.mark.parametrize(
    ("before", "versions"),
    [
        ("pip install vllm==0.6.3\n", {"vllm": "0.6.3"}),
        ('python3 -m pip install -U "vllm[audio]>=0.8.3" ray\n', {"vllm": ">=0.8.3"}),
        ("uv pip install vllm==0.18.1 transformers==4.57.1\n", {"vllm": "0.18.1", "transformers": "4.57.1"}),
        ("pip install vllm\n", {}),
        ("# pip install vllm==0.6.3\n", {}),
        ("pip download vllm==0.6.3\n", {}),
        ("if a; then pip install vllm==0.6.3; else pip install vllm==0.8.5; fi\n", {}),
        ("pip install vllm==$VERSION\n", {}),
    ],
)
def test_what_a_script_installs_is_the_release(before: str, versions: dict[str, str]) -> None:
    (job,) = jobs_of({"serve.sh": "#!/bin/sh\n" + before + SERVE})
    assert job.versions == versions


def test_what_is_installed_later_or_outside_a_container_is_not() -> None:
    (job,) = jobs_of({"serve.sh": "#!/bin/sh\n" + SERVE + "pip install vllm==0.6.3\n"})
    assert job.versions == {}
    (job,) = jobs_of(
        {"serve.sh": "#!/bin/sh\npip install vllm==0.6.3\ndocker run vllm/vllm-openai:latest --model org/m\n"}
    )
    assert job.versions == {}


def test_what_a_dockerfile_builds_in() -> None:
    text = 'FROM ubuntu\nRUN apt-get update && \\\n    pip install \\\n    "vllm==0.18.1" ray\nCMD ["vllm", "serve", "org/m"]\n'
    (job,) = jobs_of({"Dockerfile": text})
    assert job.versions == {"vllm": "0.18.1"}
