"""Files that hold or stand for commands of servers: SkyPilot, KServe, Dynamo, Ray, KubeAI, Helm values, recipes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cfglint.dialects.carriers.embedded import offsets_of, shell_commands
from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import FileOrigin
from cfglint.source.node import Scalar
from cfglint.source.yaml import parse_yaml
from cfglint.testing import lint_files

_spec = importlib.util.spec_from_file_location("serving_engines", Path(__file__).with_name("test_serving_engines.py"))
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
serving = _module.serving


def claimed(text: str, path: str = "a.yaml") -> set[str]:
    readings, _ = recognise_files([parse_yaml(path, text)])
    return {reading.dialect for reading in readings}


SKY = """
envs:
  MODEL: Qwen/Qwen2.5-7B-Instruct
resources:
  accelerators: {L4: 4}
num_nodes: 1
setup: |
  pip install "vllm==0.6.1"
run: |
  echo starting
  vllm serve $MODEL \\
    --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE \\
    --max-model-len 4096
"""


def test_skypilot_run_is_shell_with_places_in_the_file() -> None:
    (job,) = serving({"task.yaml": SKY})
    assert job.value("model_id") == "Qwen/Qwen2.5-7B-Instruct"
    assert (job.value("tensor_parallel_size"), job.value("max_model_len")) == (4, 4096)
    assert (job.hardware.name, job.hardware.gpus_per_node) == ("L4", 4)
    assert job.versions["vllm"] == "0.6.1"
    length = job.fact("max_model_len")
    assert length is not None
    assert isinstance(length.origin, FileOrigin)
    lines = length.origin.document.file.text.splitlines()
    assert lines[length.origin.position.line - 1].strip() == "--max-model-len 4096"
    assert claimed(SKY) == {"skypilot", "vllm"}


@pytest.mark.parametrize(
    ("asked", "gpu", "count"),
    [
        ("A100:8", "A100-40GB", 8),
        ("{L4:8, A10g:8}", "", 8),
        ("{H100: 8}", "H100-80GB", 8),
        ("[L4:1, T4:1]", "", 1),
    ],
)
def test_skypilot_accelerators(asked: str, gpu: str, count: int) -> None:
    text = f"resources:\n  accelerators: {asked}\nrun: |\n  vllm serve our/m --max-model-len 4096\n"
    (job,) = serving({"task.yaml": text})
    assert job.hardware.gpus_per_node == count
    assert bool(job.hardware.name) == bool(gpu)


@pytest.mark.parametrize(
    "text",
    [
        "name: ci\non: push\njobs:\n  a:\n    runs-on: x\n    steps: []\n",
        "name: tool\nrun: make\nversion: 3\nother: 1\nmore: 2\n",
        "resources:\n  limits: {cpu: 1}\nrun: a\n",
    ],
)
def test_other_files_with_run_and_resources_are_no_tasks(text: str) -> None:
    assert "skypilot" not in claimed(text)


def test_kserve_stands_for_vllm_serve() -> None:
    text = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  predictor:
    nodeSelector: {node.kubernetes.io/instance-type: g5.12xlarge}
    model:
      modelFormat: {name: huggingface}
      storageUri: hf://meta-llama/Llama-3.1-8B-Instruct
      args: ["--model_name=llama", "--max-model-len=8192", "--tensor-parallel-size=4"]
      resources: {limits: {nvidia.com/gpu: "4", memory: 48Gi}}
"""
    (job,) = serving({"isvc.yaml": text})
    assert job.value("model_id") == "meta-llama/Llama-3.1-8B-Instruct"
    assert (job.value("max_model_len"), job.value("tensor_parallel_size")) == (8192, 4)
    assert "model_name" not in (job.value("engine_args") or {})
    assert (job.hardware.name, job.hardware.gpus_per_node) == ("A10G", 4)
    assert claimed(text) == {"kserve", "vllm"}


def test_llm_inference_service_takes_arguments_from_its_environment() -> None:
    text = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: q}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: q}
  parallelism: {tensor: 2}
  template:
    containers:
      - name: main
        env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192 --block-size 64"}]
        resources: {limits: {nvidia.com/gpu: "2"}}
"""
    (job,) = serving({"svc.yaml": text})
    assert (job.value("max_model_len"), job.value("block_size"), job.value("tensor_parallel_size")) == (8192, 64, 2)


def test_resources_for_other_models_are_left_alone() -> None:
    text = (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\nspec:\n  predictor:\n"
        "    model: {modelFormat: {name: sklearn}, storageUri: 's3://a/b'}  # not vllm\n"
    )
    assert claimed(text) == set()
    bert = text.replace("sklearn", "pytorch").replace("a/b", "a/bert")
    assert serving({"isvc.yaml": bert}) == []
    assert claimed(bert) == {"kserve"}


def test_dynamo_graph_and_service_file() -> None:
    graph = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  services:
    Frontend: {componentType: frontend, extraPodSpec: {mainContainer: {image: "a/b:1"}}}
    Worker:
      resources: {limits: {gpu: "2"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.4.1
          command: [/bin/sh, -c]
          args: ["python3 -m dynamo.sglang --model-path Qwen/Qwen3-8B --tp 2 --page-size 16"]
"""
    (job,) = serving({"g.yaml": graph})
    assert (job.value("framework"), job.value("tensor_parallel_size")) == ("sglang", 2)
    assert job.hardware.gpus_per_node == 2
    services = """
Common: {model: Qwen/Qwen3-8B, max-model-len: 8192}
Frontend: {port: 8000}
VllmWorker:
  tensor-parallel-size: 1
  common-configs: [model, max-model-len]
  ServiceArgs: {workers: 1, resources: {gpu: '1'}}
"""
    (job,) = serving({"agg.yaml": services})
    assert (job.value("model_id"), job.value("max_model_len")) == ("Qwen/Qwen3-8B", 8192)
    assert claimed(services) == {"dynamo", "vllm"}


RAY = """
    applications:
      - name: llms
        import_path: ray.serve.llm:build_openai_app
        args:
          llm_configs:
            - model_loading_config: {model_id: q, model_source: Qwen/Qwen2.5-7B-Instruct}
              accelerator_type: L4
              engine_kwargs: {tensor_parallel_size: 2, max_model_len: 8192, enforce_eager: true, enable_prefix_caching: false}
"""


def test_ray_engine_arguments_are_python_values() -> None:
    import textwrap

    (job,) = serving({"serve.yaml": textwrap.dedent(RAY)})
    assert (job.value("model_id"), job.value("tensor_parallel_size")) == ("Qwen/Qwen2.5-7B-Instruct", 2)
    assert (job.value("enforce_eager"), job.value("enable_prefix_caching")) == (True, False)
    assert job.hardware.name == "L4"


def test_a_ray_service_holds_its_config_as_text() -> None:
    text = "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: a}\nspec:\n  serveConfigV2: |" + RAY
    (job,) = serving({"service.yaml": text})
    length = job.fact("max_model_len")
    assert length is not None
    assert isinstance(length.origin, FileOrigin)
    assert length.value == 8192
    start = length.origin.key_span.start
    assert length.origin.document.file.text[start:].startswith("max_model_len: 8192")


def test_ray_llm_model_file() -> None:
    text = """
deployment_config: {max_concurrent_queries: 64}
engine_config:
  model_id: TheBloke/Llama-2-7B-chat-AWQ
  type: VLLMEngine
  engine_kwargs: {quantization: awq, max_num_seqs: 64}
  max_total_tokens: 4096
scaling_config:
  num_workers: 2
  num_gpus_per_worker: 1
  resources_per_worker: {accelerator_type_a10: 0.01}
"""
    (job,) = serving({"model.yaml": text})
    assert (job.value("quantization"), job.value("max_model_len"), job.value("tensor_parallel_size")) == (
        "awq",
        4096,
        2,
    )
    assert (job.hardware.name, job.hardware.gpus_per_node) == ("A10G", 2)


def test_kubeai_model() -> None:
    text = """
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: m}
spec:
  url: hf://Qwen/Qwen2.5-7B-Instruct
  engine: VLLM
  args: [--max-model-len=8192, --kv-cache-dtype=fp8]
  resourceProfile: nvidia-gpu-l4:2
"""
    (job,) = serving({"m.yaml": text})
    assert (job.value("max_model_len"), job.value("kv_cache_dtype")) == (8192, "fp8")
    assert (job.hardware.name, job.hardware.gpus_per_node) == ("L4", 2)
    assert claimed(text.replace("VLLM", "OLlama")) == {"kubeai"}


def test_production_stack_values() -> None:
    text = """
servingEngineSpec:
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.10.2
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      requestGPU: 2
      vllmConfig:
        maxModelLen: 8192
        tensorParallelSize: 2
        enablePrefixCaching: false
        extraArgs: ["--gpu-memory-utilization", "0.8"]
"""
    (job,) = serving({"values.yaml": text})
    assert (job.value("max_model_len"), job.value("tensor_parallel_size")) == (8192, 2)
    assert (job.value("gpu_memory_utilization"), job.value("enable_prefix_caching")) == (0.8, False)
    assert job.versions["vllm"] == "0.10.2"
    assert job.hardware.gpus_per_node == 2
    assert claimed(text) == {"vllm"}
    assert claimed("suite: a\ntests: []\nservingEngineSpec: {}\n") == set()


def test_llm_d_values() -> None:
    text = """
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  parallelism: {tensor: 2}
  containers:
    - name: vllm
      image: ghcr.io/llm-d/llm-d-cuda:v0.3.1
      modelCommand: vllmServe
      args: ["--max-model-len=16000"]
      resources: {limits: {nvidia.com/gpu: "2"}}
prefill: {create: false}
"""
    (job,) = serving({"values.yaml": text})
    assert (job.value("model_id"), job.value("tensor_parallel_size")) == ("Qwen/Qwen3-32B", 2)
    assert job.value("max_model_len") == 16000


def test_a_recipe_is_a_command_for_each_variant() -> None:
    text = """
meta: {title: t}
model: {model_id: our/m, min_vllm_version: "0.11.0", base_args: [--trust-remote-code]}
variants:
  default: {precision: bf16, extra_args: [--tensor-parallel-size, "8"]}
  fp8: {model_id: our/m-FP8, extra_args: [--tensor-parallel-size, "4"]}
"""
    jobs = serving({"m.yaml": text})
    assert [(j.value("model_id"), j.value("tensor_parallel_size")) for j in jobs] == [("our/m", 8), ("our/m-FP8", 4)]


def test_a_chart_that_manages_the_pod_is_not_told_about_probes_and_tokens() -> None:
    text = """
apiVersion: kubeai.org/v1
kind: Model
metadata: {name: m}
spec:
  url: hf://meta-llama/Llama-3.1-8B-Instruct
  engine: VLLM
  args: [--max-model-len=8192, --disable-log-requests, --enable-chunked-prefill=false]
  resourceProfile: nvidia-gpu-l4:1
"""
    assert lint_files({"m.yaml": text}, select=("CTR005", "SRV001", "SRV011")).findings == []


def test_a_jobset_and_an_init_container_are_read() -> None:
    text = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  replicatedJobs:
    - name: w
      template:
        spec:
          template:
            spec:
              initContainers:
                - name: server
                  restartPolicy: Always
                  image: vllm/vllm-openai:v0.18.1
                  args: [--model=our/m, --max-model-len=4096]
              containers:
                - {name: client, image: busybox, command: [sleep, "1"]}
"""
    (job,) = serving({"jobset.yaml": text})
    assert job.value("max_model_len") == 4096


@pytest.mark.parametrize("style", ["|", ">-", "|-"])
def test_places_of_text_in_a_value(style: str) -> None:
    text = f"run: {style}\n  a --b 1\n  c\nnext: 1\n"
    document = parse_yaml("a.yaml", text).documents[0]
    node = document.at("run")
    assert isinstance(node, Scalar)
    offsets = offsets_of(document, node, str(node.value))
    value = str(node.value)
    assert [text[o] for o, c in zip(offsets, value, strict=True) if not c.isspace()] == [
        c for c in value if not c.isspace()
    ]
    words = [w for command in shell_commands(document, node) for w in command.words]
    assert text[words[1].span.start : words[1].span.end] == "--b"
