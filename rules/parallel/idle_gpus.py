"""PAR103."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import called, docker_run, engine, launch_of, managed, runs, size, stated


class IdleGpus(Rule):
    """The container is given more GPUs than the server uses.

    vLLM takes one GPU unless ``tensor_parallel_size``, ``pipeline_parallel_size`` or ``data_parallel_size`` says more. The
    others stay empty, and reserved.

    How sure: the count is stated for this very container (Kubernetes limit, compose devices, ``docker run --gpus``), and
    no parallel size is unknown. A pod may reserve whole nodes on purpose, so it is a warning;
    for a command of a script (CUDA_VISIBLE_DEVICES, Slurm) that is the only server there, information.
    """

    code = "PAR103"
    name = "idle-gpus"
    family = "parallel"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/20305",
        "https://docs.vllm.ai/en/latest/serving/parallelism_scaling/",
    )
    catalogue = ("par-gpus-idle",)
    good = (
        example(
            "serve.sh",
            "docker run --gpus 4 --ipc=host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 2 --data-parallel-size 2",
        ),
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus '\"device=0,1,2,3\"' --shm-size 1g ghcr.io/huggingface/text-generation-inference:2.4.1 --model-id Qwen/Qwen2.5-14B-Instruct --num-shard 2",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus 4 --ipc=host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 2",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        reserved = next((f for f in job.statements("gpus_per_node") if isinstance(f.origin, FileOrigin)), None)
        gpus = reserved.value if reserved is not None else None
        origin = reserved.origin if reserved is not None else None
        if launch is None or not isinstance(gpus, int) or not isinstance(origin, FileOrigin):
            return
        if not runs(job, "vllm", "sglang", "tgi", "lmdeploy") or managed(job):
            return
        bare = launch.carrier not in ("kubernetes", "compose") and docker_run(launch) is None
        if bare and sum(any(r.document is launch.document for r in j.readings) for j in context.jobs) > 1:
            return
        if (job.hardware.nodes or 1) > 1 or any(
            stated(job, name) for name in ("nnodes", "headless", "data_parallel_size_local")
        ):
            return
        if "CUDA_VISIBLE_DEVICES" in launch.environment and not bare:
            return
        used = 1
        for name in (
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "prefill_context_parallel_size",
        ):
            part = size(job, name)
            if part is None:
                return
            if name == "data_parallel_size" and engine(job) == "sglang" and stated(job, "enable_dp_attention"):
                continue  # the groups share the ranks
            used *= part
        if used >= gpus:
            return
        others = [
            j
            for j in context.jobs.serving
            if j is not job
            and (other := launch_of(j)) is not None
            and other.container is launch.container
            and launch.container is not None
        ]
        if others:
            return
        yield self.finding(
            f"{gpus} GPUs are reserved, the server uses {used}",
            origin,
            (job.tensor_parallel_size, ""),
            help=f"{called(job, 'tensor_parallel_size')}: {gpus}, or reserve {used}",
            severity="info" if bare else "warning",
            confidence="medium" if bare else "high",
            data={"reserved": gpus, "used": used},
            job=job,
        )
