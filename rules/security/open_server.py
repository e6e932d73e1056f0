"""SEC003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar, Sequence, value_at

from ..containers.pod import image_origin, services_of, variable_names
from ..serving.server import HOST_ARGUMENTS, docker_run, engine, launch_of, managed, runs, stated, text

LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
OPEN_TYPES = ("LoadBalancer", "NodePort")


class OpenServer(Rule):
    """The server is reachable from outside and asks for no key.

    Whoever reaches the port can generate at will, read the metrics, and on some settings load adapters or fetch addresses of
    the inner network. vLLM's own key protects /v1 only; a proxy in front is the usual answer.

    How sure: reachable means published on all addresses (``-p``, compose ``ports``, a LoadBalancer or NodePort), or ``host:
    0.0.0.0`` asked for by name. Authentication at a gateway cannot be seen here: for careful readers only.
    """

    code = "SEC003"
    name = "open-server"
    family = "security"
    severity = "info"
    confidence = "medium"
    persona = "strict"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/usage/security/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
    )
    catalogue = ("sec-no-api-key",)
    good = (
        example(
            "serve.sh", "docker run --gpus all -p 127.0.0.1:8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"
        ),
        example("serve.sh", 'vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0 --api-key "$KEY"'),
    )
    bad = (
        example(
            "serve.sh", "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct", count=1
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0", at="host"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if (
            not runs(job, "vllm", "sglang", "tgi", "lmdeploy")
            or managed(job)
            or stated(job, "api_key")
            or stated(job, "middleware")
            or stated(job, "root_path")
            or stated(job, "api_keys")
        ):
            return
        launch = launch_of(job)
        if launch is not None:
            names = variable_names(launch)
            if names is None or names & {"VLLM_API_KEY", "API_KEY"}:
                return
        found = exposed(job, context)
        if found is None:
            return
        how, where = found
        yield self.finding(
            f"the server is {how} and asks for no API key",
            where,
            help="a key from a secret, a proxy that authenticates, or a private address",
            job=job,
        )


def exposed(job: ServingJob, context: Context) -> tuple[str, Where] | None:
    """How the server is reachable from outside, in words, and where that stands; None where it is not, as far as is seen."""
    launch = launch_of(job)
    host = text(job, HOST_ARGUMENTS.get(engine(job), "host"))
    if host is not None and host.value in LOCAL:
        return None
    run = docker_run(launch)
    if launch is not None and run is not None:
        published = [*run.options.get("p", ()), *run.options.get("publish", ())]
        if any(not word.text.startswith(LOCAL) for word in published):
            return "published on every address", image_origin(launch)
        return None
    if launch is not None and launch.carrier == "compose" and launch.container is not None:
        ports = launch.container.get("ports")
        for item in ports.items if isinstance(ports, Sequence) else []:
            if isinstance(item, Scalar) and ":" in str(item.value) and not str(item.value).startswith((*LOCAL, "$")):
                return "published on every address", image_origin(launch)
        return None
    if launch is not None and launch.carrier == "kubernetes":
        for _, service in services_of(launch, context):
            kind = value_at(service, "spec", "type")
            if kind in OPEN_TYPES:
                return f"behind a Service of type {kind!s}", image_origin(launch)
        return None
    return ("listening on every address", host) if host is not None and host.value in ("0.0.0.0", "::") else None
