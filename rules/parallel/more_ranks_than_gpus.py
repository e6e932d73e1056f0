"""PAR102."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..serving.server import called, engine, launch_of, number, runs, size, stated, switch, text


class MoreRanksThanGpus(Rule):
    """``tensor_parallel_size`` × ``pipeline_parallel_size`` needs more GPUs than the server is given.

    From 0.11 on vLLM ends with "World size (4) is larger than the number of available GPUs (2) in this node"; before, it fell
    back to Ray and waited for a placement group that no cluster could give.

    How sure: GPUs come from the container's limit, compose devices, ``--gpus``, CUDA_VISIBLE_DEVICES, SLURM, or flags of
    cfglint. With Ray, ``nnodes`` or several nodes in play the rest may be elsewhere: then it is information. A batch script
    of several nodes runs on the first one; where nothing in it starts the others (``srun``, ``ray start --address``), their
    GPUs are not the server's: a warning.
    """

    code = "PAR102"
    name = "more-ranks-than-gpus"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/8908",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/parallel.py",
    )
    catalogue = ("par-tp-gt-gpus", "compose-gpu-count", "par-cvd-count", "slurm-gres-tp", "sky-accelerators-tp")
    good = (
        example(
            "task.yaml",
            """
            resources:
              accelerators: {L4: 4}
            run: |
              vllm serve Qwen/Qwen2.5-14B-Instruct --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE
            """,
        ),
        example(
            "serve.sh",
            "CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --tp 2 --dp 2 --enable-dp-attention",
            note="with DP attention the data-parallel groups share the ranks",
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 4", gpu="A100-80GB", gpus=4),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 8 --pipeline-parallel-size 2",
            gpu="A100-80GB",
            gpus=8,
            nodes=2,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-72B-Instruct --tp 4",
            at="tp_size",
            count=1,
        ),
        example(
            "task.yaml",
            """
            resources:
              accelerators: L4:2
            run: |
              vllm serve Qwen/Qwen2.5-14B-Instruct --tensor-parallel-size 4
            """,
            count=1,
        ),
        example(
            "serve.sh",
            "CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 4",
            at="tensor_parallel_size",
            count=1,
        ),
        example(
            "serve.sh",
            """
            #!/bin/bash
            #SBATCH --nodes=2
            #SBATCH --gres=gpu:a100:4
            ray start --head
            vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 8
            """,
            at="tensor_parallel_size",
            count=1,
            note="Ray runs on the first node alone",
        ),
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-72B-Instruct", "--tensor-parallel-size=4", "--pipeline-parallel-size=2"]
                  resources: {limits: {nvidia.com/gpu: 4}}
            """,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        gpus = job.hardware.world_size
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if gpus is None or tp is None or pp is None or not runs(job, *ENGINES):
            return
        copies = _replicas(job)
        if copies is None:
            return
        if _first_node_alone(job) and (job.hardware.gpus_per_node or gpus) < tp * pp * copies:
            yield self._batch_script(job, tp * pp * copies)
            return
        if tp * pp * copies <= gpus:
            return
        elsewhere = _more_nodes(job)
        severity: Severity = "info" if elsewhere else "error"
        asked = number(job, "tensor_parallel_size") or number(job, "pipeline_parallel_size")
        tensor, needed = called(job, "tensor_parallel_size"), tp * pp * copies
        parts = f"{tensor} {tp}" + (f" × {called(job, 'pipeline_parallel_size')} {pp}" if pp > 1 else "")
        parts += f" × {called(job, 'data_parallel_size')} {copies}" if copies > 1 else ""
        yield self.finding(
            f"{parts} needs {needed} GPUs, {gpus} {'is' if gpus == 1 else 'are'} given"
            + (f" here ({elsewhere} may bring the rest)" if elsewhere else ""),
            asked,
            (job.gpus_per_node, f"{job.hardware.gpus_per_node} per node"),
            help=f"{tensor}: {gpus // copies or 1}"
            if not elsewhere
            else f"the cluster must have {needed} GPUs before the server starts",
            severity=severity,
            confidence="low" if elsewhere else "high",
            data={"needed": needed, "given": gpus},
            job=job,
        )

    def _batch_script(self, job: ServingJob, needed: int) -> Finding:
        per_node, tensor = job.hardware.gpus_per_node, called(job, "tensor_parallel_size")
        return self.finding(
            f"{needed} GPUs are needed, and the batch script runs on the first node alone, with {per_node}: "
            "nothing in it starts the others",
            number(job, "tensor_parallel_size") or number(job, "pipeline_parallel_size"),
            (job.gpus_per_node, f"{per_node} per node"),
            (job.nodes, "nodes"),
            help=f"srun with ray start --address on the other nodes, or {tensor}: {per_node} on one node",
            severity="warning",
            confidence="medium",
            data={"needed": needed, "given": per_node},
            job=job,
        )


ENGINES = ("vllm", "sglang", "tgi", "trtllm", "lmdeploy")


def _replicas(job: ServingJob) -> int | None:
    """Copies of the whole model that one SGLang server starts; with DP attention the ranks are shared instead."""
    if engine(job) != "sglang" or switch(job, "enable_dp_attention") or stated(job, "attn_dp_size"):
        return 1
    return size(job, "data_parallel_size")


def _more_nodes(job: ServingJob) -> str:
    """What brings further nodes in, or nothing."""
    for name in ("distributed_executor_backend", "data_parallel_backend"):
        backend = text(job, name)
        if backend is not None and backend.value.lower() == "ray":
            return "Ray"
    if stated(job, "nnodes") or stated(job, "node_rank") or stated(job, "headless"):
        return "other nodes"
    launch = launch_of(job)
    if launch is None:
        return ""
    if any(name.startswith("RAY_") for name in launch.environment):
        return "Ray"
    container = launch.context.get("pod_spec")
    if container is not None and "workerSpec" in container:
        return "the worker pods"
    file = launch.document.file.text
    if engine(job) == "trtllm" and ("mpirun" in file or "srun" in file):
        return "MPI"
    return (
        "Ray"
        if (launch.carrier in ("shell", "slurm", "dockerfile") and "ray start" in file) or "ray_init" in file
        else ""
    )


STARTS_OTHERS = re.compile(
    r"\b(srun|mpirun|mpiexec|pdsh|clush|ssh|parallel-ssh|sbcast|scontrol|symmetric-run|nnodes|node-rank|headless)\b|--address"
)
"""Words of a batch script by which other nodes come in."""


def _first_node_alone(job: ServingJob) -> bool:
    """Whether a SLURM script of several nodes has nothing that starts more than its own, the first."""
    launch = launch_of(job)
    if launch is None or launch.carrier != "slurm" or not (job.hardware.nodes or 1) > 1:
        return False
    return STARTS_OTHERS.search(launch.document.file.text) is None
