"""SRV034."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import launch_of, runs


class NewlineInArgument(Rule):
    """An item of a container's arguments ends with a line break.

    ``- |`` keeps the break at the end: the engine gets ``auto`` and a line break, which is no choice it knows ("invalid choice:
    'auto\\n'"), or a path that does not exist.

    How sure: the item is one word that no shell reads, and ends with a break. JSON and templates bear one, and are left alone.
    """

    code = "SRV034"
    name = "newline-in-argument"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://github.com/wangshuai09/vllm/issues/7",
        "https://yaml.org/spec/1.2.2/",
    )
    catalogue = ("cli-value-trailing-newline",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args:
                    - Qwen/Qwen2.5-7B-Instruct
                    - --kv-cache-dtype
                    - {style}
                      auto
            """
    good = (example("pod.yaml", _POD.format(style="|-")),)
    bad = (example("pod.yaml", _POD.format(style="|"), count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.carrier not in ("kubernetes", "compose") or launch.command is not None:
            return
        if not runs(job):
            return
        found = [
            word
            for word in launch.words
            if word.text.endswith("\n") and " " not in word.text.strip() and word.text.strip()[:1] not in ("", "{", "[")
        ]
        if not found:
            return
        yield self.finding(
            f"the argument {found[0].text!r} ends with a line break",
            *(FileOrigin(launch.document, ("args",), word.span, word.span) for word in found),
            help="|- instead of |, or a plain item",
            job=job,
        )
