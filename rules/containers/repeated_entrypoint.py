"""CTR008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import SHELLS, basename
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.shell import Word

from ..serving.server import docker_run, launch_of, runs_vllm

IMAGES = ("vllm-openai", "vllm-openai-rocm")
"""Images of the project whose entrypoint is the server (docker/Dockerfile, stage vllm-openai)."""
PROGRAMS = frozenset({"vllm", "serve", "python", "python3", "sh", "bash"})


class RepeatedEntrypoint(Rule):
    """The command of a vLLM image begins with ``vllm serve``, which its entrypoint already is.

    The words behind the image, compose's ``command``, a pod's ``args`` and a Dockerfile's ``CMD`` are appended to the
    image's entrypoint. It is ``vllm serve`` (in older releases the api_server module), so ``vllm serve vllm serve
    model`` ends with "unrecognized arguments: serve …".

    How sure: only the project's own server images, and only where nothing replaces the entrypoint (``--entrypoint``, compose
    ``entrypoint``, a pod's ``command``, a Dockerfile's ``ENTRYPOINT``).
    """

    code = "CTR008"
    name = "repeated-entrypoint"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/22072",
        "https://github.com/vllm-project/vllm/issues/37133",
        "https://docs.vllm.ai/en/latest/deployment/docker/",
    )
    catalogue = ("img-double-entrypoint",)
    good = (
        example(
            "serve.sh",
            "docker run --gpus all --entrypoint bash vllm/vllm-openai:v0.18.1 -c 'vllm serve org/model'",
        ),
        example(
            "serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --max-model-len 8192"
        ),
        example(
            "serve.sh",
            "docker run --gpus all --entrypoint vllm vllm/vllm-openai:v0.18.1 serve Qwen/Qwen2.5-7B-Instruct",
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
                  command: ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct"]
            """,
            note="command replaces the entrypoint",
        ),
        example(
            "Dockerfile", 'FROM vllm/vllm-openai:v0.18.1\nENTRYPOINT ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct"]'
        ),
    )
    bad = (
        example(
            "Dockerfile", 'FROM vllm/vllm-openai:v0.18.1\nCMD ["vllm", "serve", "Qwen/Qwen2.5-7B-Instruct"]', count=1
        ),
        example(
            "serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 vllm serve Qwen/Qwen2.5-7B-Instruct", count=1
        ),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.18.1 bash -c 'pip install librosa && vllm serve org/model'",
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
                  args: ["serve", "Qwen/Qwen2.5-7B-Instruct"]
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.image is None or not runs_vllm(job):
            return
        if basename(launch.image.text.split("@")[0]).split(":")[0] not in IMAGES:
            return
        words = _appended(launch)
        if not words or basename(words[0].text) not in PROGRAMS:
            return
        extra = [words[0]]
        if basename(words[0].text) == "vllm" and len(words) > 1 and words[1].text == "serve":
            extra.append(words[1])
        shown = " ".join(w.text for w in words[:2])
        yield self.finding(
            f"the image's entrypoint is the server already: {shown!r} is appended to it",
            FileOrigin(launch.document, ("command",), words[0].span, words[0].span),
            help=f"--entrypoint {words[0].text}, in front of the image"
            if basename(words[0].text) in SHELLS
            else f"leave {' '.join(w.text for w in extra)!r} out, or replace the entrypoint",
            job=job,
        )


def _appended(launch: Launch) -> list[Word]:
    """The words that the file appends to the image's entrypoint; empty where it replaces it."""
    run = docker_run(launch)
    if run is not None:
        return [] if "entrypoint" in run.options else run.arguments
    script = launch.document.script
    if launch.carrier == "dockerfile" and script is not None:
        return [] if any(i.name == "ENTRYPOINT" for i in script.instructions) else launch.words
    container = launch.container
    if container is None or "extends" in container:
        return []
    if launch.carrier == "compose":
        return [] if "entrypoint" in container else launch.words
    if launch.carrier == "kubernetes":
        return [] if "command" in container else launch.words
    return []
