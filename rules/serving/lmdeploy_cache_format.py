"""SRV106."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import runs, statement, text

TURBOMIND = frozenset({0, 4, 8, "0", "4", "8"})
"""Values of ``--quant-policy`` that TurboMind has: none, 4 and 8 bits."""


class LmdeployCacheFormat(Rule):
    """LMDeploy's TurboMind backend has no cache in that format.

    FP8 caches belong to the PyTorch backend; TurboMind asserts that ``quant_policy`` is 0, 4 or 8.

    How sure: the backend and the policy are stated, and the check is in lmdeploy/messages.py. Without a stated backend LMDeploy
    chooses one by the model, and nothing is said.
    """

    code = "SRV106"
    name = "lmdeploy-cache-format"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/InternLM/lmdeploy/blob/v0.10.2/lmdeploy/messages.py",)
    catalogue = ("quant-lmdeploy-tm-fp8-kv",)
    good = (
        example(
            "serve.sh", "lmdeploy serve api_server internlm/internlm3-8b-instruct --backend turbomind --quant-policy 8"
        ),
    )
    bad = (
        example(
            "serve.sh",
            "lmdeploy serve api_server internlm/internlm3-8b-instruct --backend turbomind --quant-policy fp8",
            at="quant_policy",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "lmdeploy"):
            return
        backend, policy = text(job, "backend"), statement(job, "quant_policy")
        if backend is None or backend.value.lower() != "turbomind" or policy is None:
            return
        if not isinstance(policy.value, (int, str)) or policy.value in TURBOMIND or "$" in str(policy.value):
            return
        yield self.finding(
            f"quant_policy {policy.value} with the TurboMind backend, which has 0, 4 and 8",
            policy,
            (backend, "turbomind"),
            help="--backend pytorch, or --quant-policy 8",
            job=job,
        )
