"""SRV003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .added_in import ADDED
from .server import arguments, exact_version, readings

EARLIER = frozenset({"config", "model", "model_tag", "headless", "port", "host"})
"""Arguments of the command line's own parser, which the samples of older releases do not list."""


class ArgumentOfLaterRelease(Rule):
    """An argument that only later vLLM releases have.

    The stated release ends with "unrecognized arguments" at start.

    How sure: read from eight releases between 0.4.3 and 0.33.0, and for most arguments from 35 more between them; said only
    where the stated version lies on or between releases none of which has the argument.
    """

    code = "SRV003"
    name = "argument-of-later-release"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/22072",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = ("cli-unknown-flag",)
    good = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.12.0 --model Qwen/Qwen2.5-7B-Instruct --runner pooling",
        ),
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.6.4 --model BAAI/bge-m3 --task embedding"),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.8.5 --model Qwen/Qwen2.5-7B-Instruct --structured-outputs-config.backend xgrammar",
            count=1,
        ),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai:v0.6.3 --model BAAI/bge-m3 --task embedding --enforce-eager",
            at="task",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        from cfglint.catalog.engines import engine_argument, known_at, version_key

        release = exact_version(job)
        if release is None:
            return
        for reading in readings(job):
            for name, _, key, _entry in arguments(reading):
                argument = engine_argument("vllm", f"--{name.split('.', 1)[0]}")
                if argument is None or argument.name.lstrip("-") in EARLIER:
                    continue
                lacking, since = ADDED.get(name.split(".", 1)[0], (None, argument.since))
                nearer = lacking is not None and version_key(release) <= version_key(lacking)
                earlier = version_key(release) < version_key(argument.present_in[0])
                if not (nearer or (earlier and known_at("vllm", argument.name, release) is False)):
                    continue
                yield self.finding(
                    f"vLLM {release} has no {argument.name} yet: first seen in {since}",
                    reading.origin(key),
                    help=f"use {since} or later, or leave it out",
                    data={"argument": argument.name, "since": since, "version": release},
                    job=job,
                )
