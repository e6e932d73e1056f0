"""CTR014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.carriers.command import basename
from cfglint.dialects.carriers.shell import launches
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import SourceFile
from cfglint.source.shell import Word

from ..serving.server import docker_run, engine, launch_of, runs
from .gpus_not_passed import CUDA_IMAGES

ENGINE_OPTIONS = frozenset({
    "model", "model-id", "model-path", "served-model-name", "tensor-parallel-size", "tp", "tp-size", "num-shard", "max-model-len",
    "max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization", "mem-fraction-static", "dtype", "quantization",
    "quantize", "trust-remote-code", "enforce-eager", "enable-prefix-caching", "max-total-tokens", "max-input-tokens",
})  # fmt: skip
"""Options of engines that Docker has none of."""
DOCKER_OPTIONS = frozenset({
    "--gpus", "--ipc", "--shm-size", "-v", "--volume", "-p", "--publish", "-e", "--env", "--runtime", "--network", "--rm", "-d",
    "--restart", "--mount", "--ulimit", "--privileged",
})  # fmt: skip
"""Options of Docker that no engine has by that name, but for the next list. ``--device`` is one of SGLang, LMDeploy and others."""
BOTH = {"tgi": frozenset({"-p", "-e", "--env"}), "llama.cpp": frozenset({"-p", "-e", "-v"})}
"""Of these, what an engine has itself: TGI a port (launcher/src/main.rs), llama.cpp a prompt (common/arg.cpp)."""


class OptionsBesideImage(Rule):
    """An engine's option stands before the image's name in ``docker run``, or one of Docker's behind it.

    What stands before the image is Docker's ("unknown flag: --model"), what stands behind it goes to the server
    ("unrecognized arguments: --ipc=host").

    How sure: only names that the other side does not have at all.
    """

    code = "CTR014"
    name = "options-beside-image"
    family = "containers"
    severity = "error"
    kinds = ("serve", "file")
    evidence = (
        "https://docs.docker.com/reference/cli/docker/container/run/",
        "https://docs.vllm.ai/en/latest/deployment/docker/",
    )
    catalogue = ("docker-args-before-image",)
    good = (
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --dtype half",
        ),
        example(
            "serve.sh",
            "docker run --gpus all lmsysorg/sglang:v0.5.3 python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --device cuda",
            note="SGLang has an option of that name, too",
        ),
        example(
            "serve.sh",
            "docker run --gpus all ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id Qwen/Qwen2.5-7B-Instruct -p 8080",
            note="-p is the port of TGI's launcher",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all --model Qwen/Qwen2.5-7B-Instruct vllm/vllm-openai:v0.18.1 --max-model-len 8192",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.18.1 --model Qwen/Qwen2.5-7B-Instruct --ipc=host -p 8000:8000",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --model Qwen/Qwen2.5-7B-Instruct --gpus all vllm/vllm-openai:v0.18.1",
            count=1,
        ),
    )

    def check_file(self, file: SourceFile, context: Context) -> Iterator[Finding]:
        """With the model before the image there may be no server to read: the command is looked at as it stands."""
        if file.format != "shell" or "docker" not in file.text:
            return
        for document in file.documents:
            for launch in launches(document):
                run = docker_run(launch)
                if run is None or basename(run.image.text.split("@")[0]).split(":")[0] not in CUDA_IMAGES:
                    continue
                before = [(name, words[0]) for name, words in run.options.items() if name in ENGINE_OPTIONS and words]
                if before:
                    names = ", ".join(f"--{name}" for name, _ in before)
                    yield self.finding(
                        f"{names} before the image goes to Docker, which has no option of that name",
                        *(FileOrigin(document, (name,), word.span, word.span) for name, word in before),
                        help="put the server's options behind the image",
                    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        run = docker_run(launch)
        if launch is None or run is None or not runs(job):
            return
        if "entrypoint" in run.options:
            return
        behind = [word for word in run.arguments if _docker_option(word, engine(job))]
        if behind:
            yield self.finding(
                f"{', '.join(word.text for word in behind)} behind the image goes to the server, not to Docker",
                *(FileOrigin(launch.document, ("command",), word.span, word.span) for word in behind),
                help="put Docker's options before the image",
                job=job,
            )


def _docker_option(word: Word, engine: str) -> bool:
    return not word.quoted and word.text.partition("=")[0] in DOCKER_OPTIONS - BOTH.get(engine, frozenset())
