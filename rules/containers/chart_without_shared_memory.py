"""CTR015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, at

from ..serving.server import launch_of, number, wrapper


class ChartWithoutSharedMemory(Rule):
    """Tensor parallelism by ``extraArgs`` alone: the production stack's chart mounts no shared memory.

    The chart gives a pod a memory volume at /dev/shm where ``vllmConfig`` has the key ``tensorParallelSize``. With the
    argument in ``extraArgs`` the ranks get the 64 MiB of the container runtime, and NCCL ends with an error or the pod with a
    bus error.

    How sure: the template of chart 0.1.12 looks for the key alone. A volume of your own at /dev/shm (``extraVolumeMounts``)
    is respected.
    """

    code = "CTR015"
    name = "chart-without-shared-memory"
    family = "containers"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/production-stack/issues/276",
        "https://github.com/vllm-project/production-stack/blob/main/helm/templates/deployment-vllm-multi.yaml",
    )
    catalogue = ("prodstack-tp-extraargs", "k8s-shm-missing")
    _VALUES = """
            servingEngineSpec:
              modelSpec:
                - name: llm
                  repository: vllm/vllm-openai
                  tag: v0.11.0
                  modelURL: Qwen/Qwen2.5-32B-Instruct
                  requestGPU: 2
                  vllmConfig: {config}
            """
    good = (
        example("values.yaml", _VALUES.format(config="{tensorParallelSize: 2}")),
        example("values.yaml", _VALUES.format(config='{extraArgs: ["--max-model-len", "8192"]}')),
    )
    bad = (
        example("values.yaml", _VALUES.format(config='{extraArgs: ["--tensor-parallel-size", "2"]}'), count=1),
        example("values.yaml", _VALUES.format(config='{extraArgs: ["--tensor-parallel-size=2"]}')),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = number(job, "tensor_parallel_size")
        launch = launch_of(job)
        if wrapper(job) != "production-stack" or asked is None or asked.value < 2 or launch is None:
            return
        model = launch.context.get("values")
        config = at(model, "vllmConfig") if isinstance(model, Mapping) else None
        if (
            not isinstance(model, Mapping)
            or not isinstance(config, Mapping)
            or "tensorParallelSize" in config
            or "extraArgs" not in config
        ):
            return
        if "extraVolumeMounts" in model or "extraVolumes" in model:
            return
        yield self.finding(
            f"tensor_parallel_size {asked.value} stands in extraArgs alone: the chart mounts no shared memory",
            asked,
            help=f"vllmConfig.tensorParallelSize: {asked.value}",
            job=job,
        )
