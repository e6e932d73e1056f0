"""SRV035."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import json_argument, runs_vllm

BACKENDS = {
    "disable_any_whitespace": ("xgrammar", "guidance"),
    "disable_additional_properties": ("guidance",),
}


class StructuredOutputs(Rule):
    """A setting of structured outputs that the chosen backend does not have.

    vLLM checks the pair at start: "disable_additional_properties is only supported for the guidance backend". ``auto`` counts as
    none of them.

    How sure: the check stands in vllm/config/structured_outputs.py of 0.33.0, and both settings are stated. A warning: no
    other release was read.
    """

    code = "SRV035"
    name = "structured-outputs"
    family = "serving"
    severity = "warning"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/structured_outputs.py",)
    catalogue = ("cli-structured-combos",)
    good = (
        example(
            "serve.sh",
            """vllm serve our/chat --structured-outputs-config '{"backend": "guidance", "disable_additional_properties": true}'""",
        ),
    )
    bad = (
        example(
            "serve.sh",
            """vllm serve our/chat --structured-outputs-config '{"backend": "xgrammar", "disable_additional_properties": true}'""",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve our/chat --structured-outputs-config.backend outlines --structured-outputs-config.disable_any_whitespace true",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        fact = json_argument(job, "structured_outputs_config")
        if fact is None or not runs_vllm(job):
            return
        backend = fact.value.get("backend", "auto")
        for name, allowed in BACKENDS.items():
            if fact.value.get(name) is True and isinstance(backend, str) and backend not in allowed:
                yield self.finding(
                    f"{name} needs the backend {' or '.join(allowed)}, here {backend}",
                    fact,
                    help=f"backend: {allowed[-1]}",
                    job=job,
                )
