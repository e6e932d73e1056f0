"""vLLM: arguments by their own names, what carriers put in, adapters, image versions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cfglint.dialects.vllm import canonical, engine_version, tag_is_engine_version
from cfglint.jobs.job import ServingJob
from cfglint.testing import lint_files


def serving(files: Mapping[str, str], **hardware: object) -> list[ServingJob]:
    """The serving jobs of some files, seen through a rule's eyes."""
    from cfglint_rules.facts.unknown_model import UnknownModel

    from cfglint.lint.context import Context

    seen: list[ServingJob] = []
    original = UnknownModel.check_serving

    def look(self: UnknownModel, job: ServingJob, context: Context):  # type: ignore[no-untyped-def]
        seen.append(job)
        return iter(())

    UnknownModel.check_serving = look  # type: ignore[method-assign]
    try:
        lint_files(files, select=("FCT001",))
    finally:
        UnknownModel.check_serving = original  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(
    ("key", "name", "negated"),
    [
        ("tensor-parallel-size", "tensor_parallel_size", False),
        ("tp", "tensor_parallel_size", False),
        ("gpu_memory_util", "gpu_memory_utilization", False),
        ("no-enable-prefix-caching", "enable_prefix_caching", True),
        ("disable_prefix_caching", "enable_prefix_caching", True),
        ("disable-expert-parallel", "enable_expert_parallel", True),
        ("not_an_argument", "not_an_argument", False),
    ],
)
def test_keys_are_read_by_their_own_name(key: str, name: str, negated: bool) -> None:
    assert canonical(key) == (name, negated)


@pytest.mark.parametrize(
    ("image", "own"),
    [
        ("vllm/vllm-openai:v0.18.1", True),
        ("registry.example.com/mirror/vllm/vllm-openai:v0.18.1", True),
        ("lmcache/vllm-openai:v0.3.9", False),
        ("registry/team/vllm-openai-kvcache-nixl:v0.10.2-nixl-0.7.1", True),
        ("registry/team/vllm-openai-kvcache:v0.3", False),
        ("lmcache/vllm-openai-nightly:v0.3.9-x", False),
        ("our/vllm-fork:v1.2.0", False),
    ],
)
def test_only_the_projects_tags_are_vllm_versions(image: str, own: bool) -> None:
    assert tag_is_engine_version(image) is own


def test_a_beginning_of_a_name_is_the_argument() -> None:
    (job,) = serving({"serve.sh": "vllm serve our/model --gpu-memory-util 0.7 -tp 2 --no-enable-chunked-prefill\n"})
    assert job.value("gpu_memory_utilization") == 0.7
    assert job.value("tensor_parallel_size") == 2
    assert job.value("engine_args")["enable_chunked_prefill"] is False


def test_kubernetes_puts_environment_values_in() -> None:
    (job,) = serving(
        {
            "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: llm\n"
            "      image: vllm/vllm-openai:v0.18.1\n      args: ['--model=$(MODEL)', '--max-model-len=$(UNSET)']\n"
            "      env: [{name: MODEL, value: Qwen/Qwen2.5-7B-Instruct}]\n"
        }
    )
    assert job.value("model_id") == "Qwen/Qwen2.5-7B-Instruct"
    assert job.undecided("max_model_len")


def test_compose_command_that_starts_with_an_option() -> None:
    (job,) = serving(
        {
            "docker-compose.yml": "services:\n  llm:\n    image: vllm/vllm-openai:v0.18.1\n    mem_limit: 64g\n"
            "    command: >\n      --model our/model\n      --tensor-parallel-size 2\n"
        }
    )
    assert job.value("tensor_parallel_size") == 2
    assert job.versions["vllm"] == "0.18.1"
    assert job.value("host_memory_bytes") == 64 * 2**30


def test_compose_script_in_a_shell() -> None:
    (job,) = serving(
        {
            "docker-compose.yml": "services:\n  llm:\n    image: our/llm:1\n    entrypoint: [/bin/bash, -c]\n"
            "    command:\n      - |\n        pip install x\n        exec vllm serve our/model --max-model-len 4096\n"
        }
    )
    assert job.value("max_model_len") == 4096


def test_leader_worker_set_spans_its_pods() -> None:
    jobs = serving(
        {
            "lws.yaml": "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec:\n"
            "  leaderWorkerTemplate:\n    size: 2\n    leaderTemplate:\n      spec:\n        containers:\n"
            "          - name: llm\n            image: vllm/vllm-openai:v0.18.1\n"
            "            command: [vllm, serve, our/model, -tp, '8', -pp, '2']\n"
            "            resources: {limits: {nvidia.com/gpu: 8}}\n"
        }
    )
    assert jobs[0].hardware.world_size == 16


@pytest.mark.parametrize(
    "modules", ["sql=adapters/sql", """'{"name": "sql", "path": "adapters/sql"}'"""], ids=["pair", "json"]
)
def test_adapters_belong_to_the_job(modules: str) -> None:
    (job,) = serving(
        {
            "serve.sh": f"vllm serve our/model --enable-lora --lora-modules {modules}\n",
            "adapters/sql/adapter_config.json": '{"peft_type": "LORA", "r": 64}',
        }
    )
    assert [reading.dialect for reading in job.readings] == ["vllm", "peft-adapter"]


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("gpustack/runner:cuda12.8-vllm0.13.0", "0.13.0"),
        ("registry.example/ai/server:rocm6.4_vllm_0.9.1", "0.9.1"),
        ("example/vllm-server:1.2.3", None),
        ("example/server:vllm-latest", None),
        ("lmcache/vllm-openai:v0.3.6", None),
        ("vllm/vllm-openai:v0.11.0-cu128", "0.11.0"),
    ],
)
def test_a_tag_that_names_vllm_and_its_release(image: str, release: str | None) -> None:
    assert engine_version(image) == release
