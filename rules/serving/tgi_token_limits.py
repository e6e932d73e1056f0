"""SRV103."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from .server import before, number, runs, since, stated, version

CHUNKED_SINCE = "3.0"
"""From here on a long prompt is prefilled in pieces, and may be longer than one prefill."""


class TgiTokenLimits(Rule):
    """TGI's token limits contradict each other, and the launcher or the router refuses them.

    ``max_input_tokens`` must be below ``max_total_tokens``, and neither ``max_total_tokens`` nor ``max_batch_prefill_tokens``
    may exceed ``max_batch_total_tokens``: "Argument validation error: `max_total_tokens` must be <= `max_batch_total_tokens`".
    Before 3.0 a prefill must hold the longest input as well. ``max_input_length`` is the old name of ``max_input_tokens``:
    both together are refused.

    How sure: the checks are in launcher/src/main.rs and backends/v3/src/main.rs; the numbers are stated. Whether a prefill
    must hold the longest input depends on the release: without one it is a warning.
    """

    code = "SRV103"
    name = "tgi-token-limits"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/launcher/src/main.rs",
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/backends/v3/src/main.rs",
    )
    catalogue = ("tgi-batch-total", "tgi-input-total", "tgi-prefill", "tgi-duplicate-input")
    good = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --max-input-tokens 3072 --max-total-tokens 4096 --max-batch-prefill-tokens 4096 --max-batch-total-tokens 16384",
        ),
        example(
            "serve.sh",
            "docker run --gpus all ghcr.io/huggingface/text-generation-inference:3.0.1 --model-id Qwen/Qwen2.5-7B-Instruct --max-input-tokens 8000 --max-total-tokens 8192 --max-batch-prefill-tokens 2048",
            note="prefilled in pieces",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --max-total-tokens 4096 --max-batch-total-tokens 2048",
            at="max_total_tokens",
            count=1,
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: ghcr.io/huggingface/text-generation-inference:2.4.1
                environment: {MODEL_ID: Qwen/Qwen2.5-7B-Instruct, MAX_INPUT_LENGTH: 4096, MAX_TOTAL_TOKENS: 4096}
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "tgi"):
            return
        new, old = number(job, "max_input_tokens"), number(job, "max_input_length")
        total, batch = number(job, "max_total_tokens"), number(job, "max_batch_total_tokens")
        prefill = number(job, "max_batch_prefill_tokens")
        if stated(job, "max_input_tokens") and stated(job, "max_input_length"):
            yield self.finding(
                "max_input_tokens and max_input_length are both set, and are one setting",
                new or old,
                (old, "the old name"),
                help="keep max_input_tokens",
                job=job,
            )
        longest = new or old
        name = "max_input_tokens" if new is not None else "max_input_length"
        if longest is not None and total is not None and longest.value >= total.value:
            yield self._clash(job, name, longest, "max_total_tokens", total, "must be below")
        if batch is not None:
            for other, fact in (("max_total_tokens", total), ("max_batch_prefill_tokens", prefill)):
                if fact is not None and fact.value > batch.value:
                    yield self._clash(job, other, fact, "max_batch_total_tokens", batch, "may not exceed")
        if longest is not None and prefill is not None and longest.value > prefill.value:
            if since(job, CHUNKED_SINCE):
                return
            sure = version(job) is not None and before(job, CHUNKED_SINCE)
            yield self._clash(
                job, name, longest, "max_batch_prefill_tokens", prefill,
                "may not exceed" if sure else "may not exceed (before 3.0)", "error" if sure else "warning",
            )  # fmt: skip

    def _clash(
        self,
        job: ServingJob,
        name: str,
        fact: Fact[int],
        other: str,
        limit: Fact[int],
        verb: str,
        severity: Severity = "error",
    ) -> Finding:
        return self.finding(
            f"{name} {fact.value:,} {verb} {other} {limit.value:,}",
            fact,
            (limit, f"{other} {limit.value:,}"),
            help="leave max_batch_total_tokens out: TGI takes what the memory holds"
            if other == "max_batch_total_tokens"
            else f"a larger {other}",
            severity=severity,
            confidence="high" if severity == "error" else "medium",
            data={name: fact.value, other: limit.value},
            job=job,
        )
