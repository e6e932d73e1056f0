"""PAR108."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence, at, value_at
from cfglint.source.whole_number import whole_number

from ..serving.server import docker_run, launch_of, runs

IDS = re.compile(r"\d+(,\d+)*")


class VisibleDeviceBeyond(Rule):
    """CUDA_VISIBLE_DEVICES names a device that the container does not have.

    Inside a container devices are numbered from 0, whatever they are called on the host. With one GPU given and
    CUDA_VISIBLE_DEVICES=2 the server sees none: "No CUDA GPUs are available".

    How sure: the number of GPUs is stated for the same container (Kubernetes limit, compose count or ids, ``--gpus``), and
    an id is not below it. CUDA sees the devices before the first id that does not exist: where those are as many as the server
    uses (`0,1,2,3` for one GPU), nothing is said. With all GPUs given, or where the container is privileged or sets
    ``NVIDIA_VISIBLE_DEVICES``, the ids may be the host's, and nothing is said either.
    """

    code = "PAR108"
    name = "visible-device-beyond"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://docs.nvidia.com/deploy/topics/topic_5_2_1.html",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    )
    catalogue = ("par-cvd-in-container",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  env: [{{name: CUDA_VISIBLE_DEVICES, value: "{ids}"}}]
                  resources: {{limits: {{nvidia.com/gpu: 1}}}}
            """
    good = (
        example("pod.yaml", _POD.format(ids="0")),
        example("pod.yaml", _POD.format(ids="0,1,2,3"), note="CUDA sees device 0, which is all the server uses"),
        example(
            "serve.sh",
            "docker run --gpus all -e CUDA_VISIBLE_DEVICES=3 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct",
            note="all devices are given, so the ids are the host's",
        ),
        example(
            "serve.sh",
            "docker run --gpus 1 --privileged -e CUDA_VISIBLE_DEVICES=3 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct",
            note="a privileged container may see every device of the host",
        ),
    )
    bad = (example("pod.yaml", _POD.format(ids="2"), count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.image is None or not runs(job) or _may_see_others(launch):
            return
        word, count = launch.environment.get("CUDA_VISIBLE_DEVICES"), _given(launch)
        if word is None or count is None or not word.known or not IDS.fullmatch(word.text.strip()):
            return
        named = [int(one) for one in word.text.strip().split(",")]
        beyond = [one for one in named if one >= count]
        if not beyond or named.index(beyond[0]) >= _needed(job):
            return
        yield self.finding(
            f"CUDA_VISIBLE_DEVICES names device {beyond[0]}, and the container has {count}, numbered from 0",
            FileOrigin(launch.document, ("CUDA_VISIBLE_DEVICES",), word.span, word.span),
            help="leave it out: the container sees the devices it was given and no others",
            data={"given": count},
            job=job,
        )


def _needed(job: ServingJob) -> int:
    """GPUs of a node that the server takes: tensor × pipeline, one where nothing is stated."""
    sizes = [job.value(f"{kind}_parallel_size") for kind in ("tensor", "pipeline")]
    return math.prod(size for size in sizes if isinstance(size, int) and size > 0)


def _may_see_others(launch: Launch) -> bool:
    """Whether the container may see devices beyond those it is given: it is privileged, or asks the runtime itself."""
    run, container = docker_run(launch), launch.container
    privileged = (run is not None and "privileged" in run.options) or (
        container is not None
        and (at(container, "privileged") is not None or at(container, "securityContext", "privileged") is not None)
    )
    return privileged or "NVIDIA_VISIBLE_DEVICES" in launch.environment


def _given(launch: Launch) -> int | None:
    """GPUs that the container is given, whatever its environment leaves of them; None for all, or where it is not stated."""
    run = docker_run(launch)
    if run is not None:
        words = [word.text.strip("\"'") for word in run.options.get("gpus", ())]
        if not words or not words[-1].startswith("device="):
            return whole_number(words[-1]) if words else None
        return len(words[-1].removeprefix("device=").split(","))
    if launch.container is None:
        return None
    if launch.carrier == "kubernetes":
        count = value_at(launch.container, "resources", "limits", "nvidia.com/gpu")
        return whole_number(count)
    devices = at(launch.container, "deploy", "resources", "reservations", "devices")
    if not isinstance(devices, Sequence) or len(devices.items) != 1:
        return None
    ids, count = at(devices.items[0], "device_ids"), value_at(devices.items[0], "count")
    if isinstance(ids, Sequence):
        return None if any("$" in getattr(item, "raw", "") for item in ids.items) else len(ids.items)
    return whole_number(count)
