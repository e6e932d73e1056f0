"""CTR011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.carriers.command import basename
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import at

from ..serving.server import docker_run, launch_of, runs, text
from .pod import image_origin

CUDA_IMAGES = frozenset({"vllm-openai", "sglang", "text-generation-inference", "lmdeploy"})
"""Images of the engines' projects that are made for CUDA unless their tag says otherwise."""
PASSING = ("gpus", "device", "runtime", "privileged", "cdi", "hooks-dir", "security-opt")
"""Options by which GPUs reach a container; ``security-opt`` stands for podman with CDI."""
PASSING_SERVICE = ("gpus", "runtime", "devices", "privileged", "extends", "device_cgroup_rules", "security_opt")
"""The same for a service of compose."""


class GpusNotPassed(Rule):
    """``docker run`` or a compose service of the CUDA server image passes no GPU into the container.

    Without ``--gpus`` (or a runtime or device that does the same; in compose ``gpus`` or a reservation of devices) the container sees none, and vLLM ends with "Failed to infer
    device type" or "No CUDA GPUs are available".

    How sure: the project's CUDA image, and none of the options. A daemon whose default runtime is NVIDIA's passes them all the
    same, so it is a warning.
    """

    code = "CTR011"
    name = "gpus-not-passed"
    family = "containers"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/deployment/docker/",
        "https://docs.docker.com/engine/containers/resource_constraints/",
    )
    catalogue = ("docker-gpus-flag-missing",)
    good = (
        example("serve.sh", "docker run --runtime nvidia vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
        example("serve.sh", "podman run --device nvidia.com/gpu=all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
    )
    bad = (
        example(
            "serve.sh", "docker run -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct", at="image", count=1
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: vllm/vllm-openai:v0.18.1
                command: ["Qwen/Qwen2.5-7B-Instruct"]
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        run = docker_run(launch)
        service = launch.container if launch is not None and launch.carrier == "compose" else None
        if launch is None or launch.image is None or not runs(job) or (run is None and service is None):
            return
        name, _, tag = basename(launch.image.text.split("@")[0]).partition(":")
        if name not in CUDA_IMAGES or (run is not None and any(o in run.options for o in PASSING)):
            return
        if any(word in tag for word in ("rocm", "xpu", "cpu", "intel", "gaudi", "npu", "neuron", "mi3")):
            return
        device = text(job, "device")
        if device is not None and device.value == "cpu":
            return
        if service is not None and (
            any(key in service for key in PASSING_SERVICE) or at(service, "deploy", "resources") is not None
        ):
            return
        if run is not None and any(
            "$" in word.text for words in run.options.values() for word in words if word.text.startswith("$")
        ):
            return
        yield self.finding(
            "no GPU is passed into the container",
            image_origin(launch),
            help="--gpus all" if run is not None else "gpus: all, or deploy.resources.reservations.devices",
            job=job,
        )
