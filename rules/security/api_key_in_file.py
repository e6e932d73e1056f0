"""SEC001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin, Origin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, Sequence

from ..serving.server import arguments, engine, launch_of, readings, runs
from .secrets_in_files import is_placeholder, is_reference, shown

VARIABLES = {"vllm": "VLLM_API_KEY", "tgi": "API_KEY", "llama.cpp": "LLAMA_API_KEY"}
"""From which variable an engine takes its key; TGI's stands among its arguments."""


class ApiKeyInFile(Rule):
    """The server's API key stands in the file as plain text.

    Whoever reads the repository, the manifest or the process list has the key. vLLM reads ``VLLM_API_KEY`` from the
    environment as well, which a secret can fill.

    How sure: the value is a literal of at least eight characters. Short words and what looks like a placeholder are
    information, since they are often there to please a client.
    """

    code = "SEC001"
    name = "api-key-in-file"
    family = "security"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/usage/security/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/entrypoints/common/cli_args.py",
    )
    catalogue = ("sec-api-key-plain",)
    good = (
        example("serve.sh", 'vllm serve Qwen/Qwen2.5-7B-Instruct --api-key "$VLLM_KEY"'),
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
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  env: [{name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: llm, key: key}}}]
            """,
        ),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --api-key 9f8a7b6c5d4e3f2a1b0c",
            at="api_key",
            count=1,
        ),
        example(
            "serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --api-key 9f8a7b6c5d4e3f2a1b0c", at="api_key", count=1
        ),
        example("serve.sh", "VLLM_API_KEY=9f8a7b6c5d4e3f2a1b0c vllm serve Qwen/Qwen2.5-7B-Instruct"),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job):
            return
        for text, origin in _keys(job):
            if is_reference(text):
                continue
            weak = len(text) < 8 or is_placeholder(text)
            yield self.finding(
                "the API key is a placeholder word"
                if weak
                else f"the API key stands here in plain text ({shown(text)})",
                origin,
                help=f"{VARIABLES.get(engine(job), 'the key')} from a secret",
                severity="info" if weak else "warning",
                confidence="medium" if weak else "high",
                job=job,
            )


def _keys(job: ServingJob) -> Iterator[tuple[str, Origin]]:
    for reading in readings(job):
        for name, _, key, entry in arguments(reading):
            if name == "api_key":
                items = entry.value.items if isinstance(entry.value, Sequence) else [entry.value]
                for item in items:
                    if isinstance(item, Scalar) and item.value is not None and item.value is not True:
                        yield str(item.value), reading.origin(key)
    for reading in job.readings:
        if reading.dialect == engine(job) != "vllm" and isinstance(reading.root, Mapping):
            for key in ("api_key", "api_keys"):
                given = reading.root.get(key)
                for one in given.items if isinstance(given, Sequence) else [given]:
                    if isinstance(one, Scalar) and one.value not in (None, True):
                        yield str(one.value), reading.origin(key)
    launch, variable = launch_of(job), VARIABLES.get(engine(job), "")
    word = launch.environment.get(variable) if launch is not None and engine(job) == "vllm" else None
    if launch is not None and word is not None and word.known:
        yield word.text, FileOrigin(launch.document, (variable,), word.span, word.span)
