"""CTR009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence, value_at

from ..serving.server import (
    HOST_ARGUMENTS,
    LOOPBACK_DEFAULT,
    docker_run,
    engine,
    engine_title,
    launch_of,
    managed,
    runs,
    stated,
    text,
)
from .pod import pod_spec

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class LoopbackHost(Rule):
    """The server listens on the container's own loopback address: nobody outside can reach it.

    With ``--host 127.0.0.1`` (SGLang's default) published ports, Services and probes meet a closed port: "connection refused", and the pod never
    becomes ready.

    How sure: the container publishes a port (``-p``, compose ``ports``) or is the only one of its pod. With the host's
    network, or a second container in the pod that may pass requests on, nothing is said.
    """

    code = "CTR009"
    name = "loopback-host"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/entrypoints/common/cli_args.py",
        "https://docs.docker.com/engine/network/",
    )
    catalogue = ("ctr-host-loopback-vllm", "ctr-host-loopback")
    good = (
        example(
            "serve.sh",
            "docker run --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.6 python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0",
        ),
        example(
            "serve.sh",
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0",
        ),
        example(
            "serve.sh",
            "docker run --gpus all --network host vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --host 127.0.0.1",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.6 python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct",
            count=1,
            note="SGLang's default",
        ),
        example(
            "serve.sh",
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --host 127.0.0.1",
            at="host",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        name = HOST_ARGUMENTS.get(engine(job), "host")
        host, launch = text(job, name), launch_of(job)
        if launch is None or not runs(job) or managed(job):
            return
        if any(word.text.startswith(f"--{name} ") for word in launch.words):
            return  # one word where two were meant: that is another rule's finding
        by_default = not stated(job, name) and engine(job) in LOOPBACK_DEFAULT
        if not by_default and (host is None or host.value.lower() not in LOOPBACK):
            return
        if by_default and (engine(job) != "sglang" or stated(job, "node_rank") or stated(job, "nnodes")):
            return  # other engines' images set the address themselves, and of several nodes one alone is asked
        run = docker_run(launch)
        if run is not None:
            networks = [w.text for name in ("network", "net") for w in run.options.get(name, ())]
            reached = bool(run.options.get("p") or run.options.get("publish")) and not networks
        elif launch.carrier == "compose" and launch.container is not None:
            reached = "ports" in launch.container and value_at(launch.container, "network_mode") is None
        elif launch.carrier == "kubernetes":
            spec = pod_spec(launch)
            containers = spec.get("containers") if spec is not None else None
            alone = isinstance(containers, Sequence) and len(containers.items) == 1
            inits = spec.get("initContainers") if spec is not None else None
            reached = alone and inits is None and spec is not None and value_at(spec, "hostNetwork") is not True
        else:
            reached = False
        if reached:
            if host is not None:
                message = f"the server listens on {host.value} inside its container: ports and probes cannot reach it"
                yield self.finding(message, host, help=f"{name}: 0.0.0.0", job=job)
            else:
                yield self.finding(
                    f"{engine_title(job)} listens on 127.0.0.1 unless told otherwise: ports and probes cannot reach it",
                    job.model_id,
                    help=f"add --{name} 0.0.0.0",
                    job=job,
                )
