"""CTR001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.shell import memory_bytes
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Parameter, Rule, example
from cfglint.source.node import Mapping, Sequence, at, value_at

from ..serving.server import docker_run, launch_of, managed, number, runs, size
from .pod import image_origin, mounts, pod_spec

MIB = 2**20


class SharedMemory(Rule):
    """Several GPU ranks in a container with the default 64 MiB of shared memory.

    Ranks of tensor parallelism talk through /dev/shm: NCCL's shared-memory transport and vLLM's message queue lie there. With
    the container runtime's default of 64 MiB they end in "Error while creating shared memory segment", in a bus error, or hang.

    How sure: the container states how it runs, and nothing of it enlarges /dev/shm. It is an error on cards that are known
    to have no NVLink, where NCCL has no other way, and a warning otherwise: with NVLink or PCIe peer access it may work.
    """

    code = "CTR001"
    name = "shared-memory-missing"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/deployment/docker/",
        "https://github.com/vllm-project/production-stack/pull/994",
    )
    catalogue = ("k8s-shm-missing", "compose-shm", "docker-shm-run")
    parameters = {"mib": Parameter(256, "vLLM's message queue alone takes a good 160 MiB")}
    good = (
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 4",
        ),
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct", note="one GPU"),
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
                  args: ["Qwen/Qwen2.5-72B-Instruct", "--tensor-parallel-size=4"]
                  resources: {limits: {nvidia.com/gpu: 4}}
                  volumeMounts: [{name: shm, mountPath: /dev/shm}]
              volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
            """,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 4",
            count=1,
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
                  args: ["Qwen/Qwen2.5-72B-Instruct", "--tensor-parallel-size=4"]
                  resources: {limits: {nvidia.com/gpu: 4}}
            """,
            gpu="L40S",
            count=1,
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: vllm/vllm-openai:v0.18.1
                command: --model Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 4
            """,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs(job, "vllm", "sglang", "tgi") or managed(job):
            return
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if tp is None or pp is None or tp * pp < 2 or launch.environment.get("NCCL_SHM_DISABLE") is not None:
            return
        if (job.hardware.nodes or 1) >= tp * pp:
            return  # one rank a pod
        help = self._missing(launch)
        if help is None:
            return
        cards = job.hardware.candidates
        alone = bool(cards) and all(
            c.vendor == "NVIDIA" and not c.nvlink_gb_s and c.interconnect == "PCIe" for c in cards
        )
        severity: Severity = "error" if alone else "warning"
        asked = number(job, "tensor_parallel_size") or number(job, "pipeline_parallel_size")
        yield self.finding(
            f"{tp * pp} GPU ranks share a /dev/shm of 64 MiB, the container runtime's default",
            image_origin(launch),
            (asked, f"{tp * pp} ranks"),
            help=help,
            severity=severity,
            confidence="high" if alone else "medium",
            job=job,
        )

    def _missing(self, launch: Launch) -> str | None:
        """What to add, or None where shared memory is provided or not known."""
        least = self.options["mib"] * MIB
        if any(path.rstrip("/") in ("/dev/shm", "/dev") for path, _ in mounts(launch)):
            return None
        run = docker_run(launch)
        if run is not None:
            ipc = run.options.get("ipc", [])
            if any(w.text == "host" or w.text.startswith(("container:", "shareable")) for w in ipc):
                return None
            given = [memory_bytes(w.text) for w in run.options.get("shm-size", [])]
            if given and (given[-1] is None or given[-1] >= least):
                return None
            if any("/dev/shm" in w.text for w in run.options.get("tmpfs", [])):
                return None
            return "--ipc=host, or --shm-size=16g"
        if launch.carrier == "compose" and launch.container is not None:
            service = launch.container
            if "ipc" in service or "extends" in service or "<<" in service:
                return None
            stated = service.get("shm_size")
            if stated is not None:
                given_size = memory_bytes(str(value_at(service, "shm_size")))
                if given_size is None or given_size >= least:
                    return None
            tmpfs = service.get("tmpfs")
            if tmpfs is not None:
                return None
            return "ipc: host, or shm_size: 16g"
        if launch.carrier == "kubernetes":
            spec = pod_spec(launch)
            if spec is None or value_at(spec, "hostIPC") is True:
                return None
            volumes = spec.get("volumes")
            for volume in volumes.items if isinstance(volumes, Sequence) else []:
                if isinstance(volume, Mapping) and value_at(volume, "hostPath", "path") == "/dev/shm":
                    return None
            if at(spec, "workerSpec") is not None:
                return None
            return "an emptyDir volume of medium Memory, mounted at /dev/shm"
        return None
