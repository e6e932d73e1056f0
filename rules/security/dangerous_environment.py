"""SEC005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import value_at

from ..containers.pod import image_origin
from ..serving.server import docker_run, launch_of, runs_vllm, statement

VARIABLES = {
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "messages between processes are unpickled: whoever sends one runs code",
    "VLLM_SERVER_DEV_MODE": "endpoints for development answer everybody: reset caches, sleep, run methods of the workers",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "every client can make the server load an adapter from a path or the Hub",
}
ASKED_FOR = frozenset({"VLLM_ALLOW_RUNTIME_LORA_UPDATING"})
"""Gateways that route adapters need it: information."""
ON = ("1", "true", "yes")
BROAD = ("/", "/etc", "/home", "/root", "/var", "/mnt", "/data")


class DangerousEnvironment(Rule):
    """Settings that open the server to code or files of strangers.

    Development endpoints, unpickled messages, adapters loaded on request, local media from a broad folder, a privileged
    container: each is documented as not for servers that others reach.

    How sure: the setting is stated. Trainers that drive vLLM need some of them on a closed network, so it is a warning.
    """

    code = "SEC005"
    name = "dangerous-environment"
    family = "security"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/usage/security/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
        "https://docs.vllm.ai/en/latest/features/lora/",
    )
    catalogue = (
        "sec-insecure-serialization",
        "sec-dev-mode",
        "sec-runtime-lora",
        "sec-local-media-path",
        "sec-privileged",
    )
    good = (
        example(
            "serve.sh",
            "VLLM_SERVER_DEV_MODE=0 vllm serve Qwen/Qwen2.5-7B-Instruct --allowed-local-media-path /srv/images",
        ),
    )
    bad = (
        example("serve.sh", "VLLM_ALLOW_INSECURE_SERIALIZATION=1 vllm serve Qwen/Qwen2.5-7B-Instruct", count=1),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-VL-7B-Instruct --allowed-local-media-path /",
            at="allowed_local_media_path",
        ),
        example("serve.sh", "docker run --privileged --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        launch = launch_of(job)
        if launch is not None:
            for name, effect in VARIABLES.items():
                word = launch.environment.get(name)
                if word is not None and word.text.strip().lower() in ON:
                    yield self.finding(
                        f"{name} is on: {effect}",
                        FileOrigin(launch.document, (name,), word.span, word.span),
                        help="leave it out where others reach the server",
                        severity="info" if name in ASKED_FOR else "warning",
                        job=job,
                    )
            run = docker_run(launch)
            container = launch.container
            privileged = (run is not None and "privileged" in run.options) or (
                container is not None
                and (
                    value_at(container, "privileged") is True
                    or value_at(container, "securityContext", "privileged") is True
                )
            )
            if privileged:
                yield self.finding(
                    "the server's container is privileged: whoever breaks into it has the host",
                    image_origin(launch),
                    help="GPUs need no privilege: --gpus, or resource limits; shared memory by --shm-size or an emptyDir",
                    job=job,
                )
        folder = statement(job, "allowed_local_media_path")
        if folder is not None and isinstance(folder.value, str) and (folder.value.rstrip("/") or "/") in BROAD:
            yield self.finding(
                f"clients may have the server read any image or video below {folder.value}",
                folder,
                help="a folder that holds nothing but media",
                job=job,
            )
