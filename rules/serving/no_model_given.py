"""SRV036."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import basename, program
from cfglint.dialects.server import values_of
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.shell import Word

from .server import before, docker_run, launch_of, readings, runs_vllm, wrapper

MODULE = "vllm.entrypoints.openai.api_server"
IMAGE = "vllm-openai"
SERVE_IMAGE = "0.11"
"""Images before this release start the module; those of 0.17 and later ``vllm serve``. Between them nothing is said."""


class NoModelGiven(Rule):
    """The server is given no model where it looks for one, and serves its default or does not start.

    ``vllm serve`` takes the model as first word. ``python -m vllm.entrypoints.openai.api_server``, and with it the images up to
    0.10, reads ``--model`` alone: with a first word 0.8.5 ends with "unrecognized arguments", 0.10 and later pass over it and
    serve the default, a model of 0.6B. With no model at all the default is served, too.

    How sure: the parsers of 0.6.6 to 0.25.1. Of images only those of the project before 0.11 count, with their own entrypoint.
    No model at all is information, and only where every word of the command is known and no wrapper adds any.
    """

    code = "SRV036"
    name = "no-model-given"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/pull/32294",
        "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/entrypoints/openai/cli_args.py",
    )
    catalogue = ("cli-model-missing",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192"),
        example(
            "serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --max-model-len 8192"
        ),
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.8.5 --model Qwen/Qwen2.5-7B-Instruct"),
        example("serve.sh", 'vllm serve "$@" --max-model-len 8192', note="the caller's words may hold it"),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.8.5 Qwen/Qwen2.5-7B-Instruct --max-model-len 8192",
            count=1,
        ),
        example(
            "serve.sh",
            "python -m vllm.entrypoints.openai.api_server Qwen/Qwen2.5-7B-Instruct --max-model-len 8192",
            count=1,
        ),
        example("serve.sh", "vllm serve --max-model-len 8192 --dtype half --port 8001", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job) or wrapper(job):
            return
        reading = next((r for r in readings(job) if r.context.get("command_line")), None)
        if reading is None or reading.role == "part" or reading.entry("config") is not None:
            return
        named = reading.entry("model")
        positionals = values_of(reading.context.get("positionals") or [])
        by_option = named is not None and not any(w.span == named.key.span for w in positionals)
        if by_option:
            return
        started = program(launch.words)
        if started is not None and started.module and started.name == MODULE:
            starts = f"{MODULE} takes"
        elif _own_entrypoint(launch) and before(job, SERVE_IMAGE) and not _repeats(launch):
            starts = "this image starts the api_server module, which takes"
        else:
            starts = ""
        if starts and positionals and "/" in positionals[0].text:
            yield self.finding(
                f"{starts} the model from --model alone, not from the first word",
                FileOrigin(launch.document, ("command",), positionals[0].span, positionals[0].span),
                help=f"--model {positionals[0].text}",
                job=job,
            )
            return
        words: list[Word] = launch.words
        if positionals or named is not None or not words or launch.carrier == "dockerfile":
            return
        if not all(w.known and "$" not in w.text for w in words) or len(job.readings) > 1:
            return
        yield self.finding(
            "no model is given: vLLM serves its default, a model of 0.6B",
            FileOrigin(launch.document, ("command",), words[0].span, words[0].span),
            help="vllm serve <model> …",
            severity="info",
            confidence="medium",
            job=job,
        )


def _own_entrypoint(launch: Launch) -> bool:
    """Whether the file's words are appended to the entrypoint of an image of the project."""
    if launch.image is None or not launch.image.known:
        return False
    repository = launch.image.text.split("@")[0].rpartition(":")[0]
    if basename(repository) != IMAGE or "vllm/" not in repository:
        return False
    run, container = docker_run(launch), launch.container
    if run is not None:
        return "entrypoint" not in run.options
    if container is None or "extends" in container:
        return False
    return ("entrypoint" if launch.carrier == "compose" else "command") not in container


def _repeats(launch: Launch) -> bool:
    """Whether the words begin with a program, which is repeated-entrypoint's finding."""
    return bool(launch.words) and not launch.words[0].text.startswith("-") and "/" not in launch.words[0].text
