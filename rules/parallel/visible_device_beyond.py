"""PAR108."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import launch_of, runs

IDS = re.compile(r"\d+(,\d+)*")


class VisibleDeviceBeyond(Rule):
    """CUDA_VISIBLE_DEVICES names a device that the container does not have.

    Inside a container devices are numbered from 0, whatever they are called on the host. With one GPU given and
    CUDA_VISIBLE_DEVICES=2 the server sees none: "No CUDA GPUs are available".

    How sure: the number of GPUs is stated for the same container (Kubernetes limit, compose count or ids, ``--gpus``), and
    an id is not below it. With all GPUs given the ids are the host's, and nothing is said.
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
        example(
            "serve.sh",
            "docker run --gpus all -e CUDA_VISIBLE_DEVICES=3 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct",
            note="all devices are given, so the ids are the host's",
        ),
    )
    bad = (example("pod.yaml", _POD.format(ids="2"), count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.gpus is None or not runs(job):
            return
        if launch.image is None or launch.carrier not in ("kubernetes", "compose", "shell", "slurm"):
            return
        word = launch.environment.get("CUDA_VISIBLE_DEVICES")
        if word is None or not word.known or not IDS.fullmatch(word.text.strip()):
            return
        count, ids = launch.gpus[0], [int(part) for part in word.text.strip().split(",")]
        beyond = [one for one in ids if one >= count]
        if not beyond:
            return
        yield self.finding(
            f"CUDA_VISIBLE_DEVICES names device {beyond[0]}, and the container has {count}, numbered from 0",
            FileOrigin(launch.document, ("CUDA_VISIBLE_DEVICES",), word.span, word.span),
            (job.gpus_per_node, f"{count} given"),
            help="leave it out: the container sees the devices it was given and no others",
            job=job,
        )
