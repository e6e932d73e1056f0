"""SRV020."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Sequence, plain, value_at

from .server import arguments, launch_of, readings, runs

WHOLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$[A-Za-z_][A-Za-z0-9_]*")
SHELL_FORM = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


class VariableNotExpanded(Rule):
    """``$NAME`` where no shell expands it: a container's args, an image's exec-form command, vLLM's config file.

    Kubernetes puts values in for ``$(NAME)`` only, and Docker runs ``["vllm", "serve", "$MODEL"]`` without a shell: the text
    reaches the engine as it stands, and it looks for a model or a number of that name. vLLM expands nothing in its
    ``--config`` file either.

    How sure: in a pod said only where the container's own ``env`` has a variable of that name, so that a template engine's
    placeholder is not taken for one. A config file may be written by ``envsubst`` before vLLM reads it: information.
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
        example(
            "Dockerfile",
            """
            FROM vllm/vllm-openai:v0.18.1
            ENV MODEL=Qwen/Qwen2.5-7B-Instruct
            CMD ["--model", "$MODEL", "--max-model-len", "8192"]
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job):
            return
        yield from self._config(job)
        launch = launch_of(job)
        if launch is not None and launch.carrier == "dockerfile":
            yield from self._exec_form(job, launch)
        if launch is None or launch.carrier != "kubernetes" or launch.command is not None:
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

    def _exec_form(self, job: ServingJob, launch: Launch) -> Iterator[Finding]:
        script = launch.document.script
        instructions = script.instructions if script is not None else []
        given = {word.span for i in instructions if i.exec_form for word in i.words}
        found = [w for w in launch.words if w.span in given and SHELL_FORM.search(w.text)]
        if not found:
            return
        yield self.finding(
            f"{found[0].text} reaches the engine as it stands: the exec form runs without a shell",
            *(FileOrigin(launch.document, ("CMD",), word.span, word.span) for word in found),
            help='the shell form, or ["sh", "-c", "exec …"]',
            job=job,
        )

    def _config(self, job: ServingJob) -> Iterator[Finding]:
        for reading in readings(job):
            if reading.context.get("command_line") or reading.carrier or reading.dialect != "vllm":
                continue
            for _, _, key, entry in arguments(reading):
                value = plain(entry.value)
                if isinstance(value, str) and WHOLE.fullmatch(value):
                    yield self.finding(
                        f"{key} is {value}, and vLLM expands no variables in its config file",
                        reading.origin(key),
                        help="give the value on the command line, where a shell expands it",
                        severity="info",
                        confidence="medium",
                        job=job,
                    )
                    return
