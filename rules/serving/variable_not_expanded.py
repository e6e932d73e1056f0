"""SRV020."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Sequence, value_at

from .server import launch_of, runs_vllm

SHELL_FORM = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


class VariableNotExpanded(Rule):
    """``$NAME`` in a container's args, which Kubernetes does not expand.

    Kubernetes puts values in for ``$(NAME)`` only; ``$NAME`` and ``${NAME}`` reach the engine as they stand, and it looks for
    a model or a number of that name.

    How sure: said only where no shell runs the words and the container's own ``env`` has a variable of that name, so that
    a template engine's placeholder is not taken for one.
    """

    code = "SRV020"
    name = "variable-not-expanded"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/",)
    catalogue = ("cfg-unresolved-variable",)
    good = (
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
                  args: ["--model=$(MODEL)", "--max-model-len=8192"]
                  env: [{name: MODEL, value: Qwen/Qwen2.5-7B-Instruct}]
            """,
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
                  command: ["sh", "-c", "vllm serve $MODEL --max-model-len 8192"]
                  env: [{name: MODEL, value: Qwen/Qwen2.5-7B-Instruct}]
            """,
            note="a shell expands it",
        ),
    )
    bad = (
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
                  args: ["--model=${MODEL}", "--max-model-len=8192"]
                  env: [{name: MODEL, value: Qwen/Qwen2.5-7B-Instruct}]
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.carrier != "kubernetes" or launch.command is not None or not runs_vllm(job):
            return
        container = launch.container
        variables = container.get("env") if container is not None else None
        names = {
            value_at(item, "name")
            for item in (variables.items if isinstance(variables, Sequence) else [])
            if isinstance(item, Mapping)
        }
        for word in launch.words:
            found = [name for name in SHELL_FORM.findall(word.text) if name in names]
            if found:
                yield self.finding(
                    f"{word.text} reaches the engine as it stands: Kubernetes expands $({found[0]}) only",
                    FileOrigin(launch.document, ("args",), word.span, word.span),
                    help=SHELL_FORM.sub(lambda m: f"$({m[1]})" if m[1] in names else m[0], word.text),
                    job=job,
                )
