"""SRV026."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from .server import before, launch_of, runs_vllm, since

DEMO, OPENAI = "vllm.entrypoints.api_server", "vllm.entrypoints.openai.api_server"
DEMO_GONE = "0.25.1"
"""First sampled release without the demo server; 0.18.1 has it."""
OPENAI_DEPRECATED = "0.33.0"


class OldServerModule(Rule):
    """The server is started by a module that vLLM has removed, or is about to.

    `python -m vllm.entrypoints.api_server`, a demonstration without the OpenAI routes, is gone by 0.25.1: "No module named
    vllm.entrypoints.api_server". `vllm.entrypoints.openai.api_server` still runs in 0.33.0, with a DeprecationWarning.

    How sure: the modules of eight releases from 0.4.3 to 0.33.0. The demo is an error where the stated release lacks it and a
    warning without a stated release; the other is information from 0.33.0 on.
    """

    code = "SRV026"
    name = "old-server-module"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/entrypoints/openai/api_server.py",)
    catalogue = ("cli-api-server-module",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct"),
        example(
            {
                "serve.sh": "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-7B-Instruct",
                "requirements.txt": "vllm==0.10.2",
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "python -m vllm.entrypoints.api_server --model Qwen/Qwen2.5-7B-Instruct",
                "requirements.txt": "vllm==0.33.0",
            },
            count=1,
        ),
        example("serve.sh", "python -m vllm.entrypoints.api_server --model Qwen/Qwen2.5-7B-Instruct", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job):
            return
        word = next((w for w in launch.words if w.text in (DEMO, OPENAI)), None)
        if word is None:
            return
        where = FileOrigin(launch.document, ("command",), word.span, word.span)
        if word.text == DEMO and not before(job, DEMO_GONE):
            gone = since(job, DEMO_GONE)
            severity: Severity = "error" if gone else "warning"
            yield self.finding(
                f"{DEMO} is gone by vLLM {DEMO_GONE}",
                where,
                help="vllm serve <model>, which has the OpenAI routes",
                severity=severity,
                confidence="high" if gone else "medium",
                job=job,
            )
        elif word.text == OPENAI and since(job, OPENAI_DEPRECATED):
            yield self.finding(
                f"{OPENAI} is deprecated in vLLM {OPENAI_DEPRECATED}",
                where,
                help="vllm serve <model>",
                severity="info",
                job=job,
            )
