"""SRV024."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import before, number, runs_vllm, since, statement, switch

IGNORES_UNTIL = "0.12"
"""First release not read in which the V1 engine may obey ``--no-enable-chunked-prefill``; 0.11.0 sets it to True."""
OBEYS_SINCE = "0.15"
"""First release read that obeys it, with a warning."""


class SchedulerLimits(Rule):
    """vLLM scheduler limits that contradict each other, or chunked prefill switched off where it is not meant to be.

    `long_prefill_token_threshold` above `max_model_len` and `max_num_active_seqs` above `max_num_seqs` are refused. More
    `max_num_batched_tokens` than `max_num_seqs` × `max_model_len` can never be filled, but is profiled: activation memory is
    lost to the cache. The V1 engine of 0.8 to 0.11 always prefills in chunks, whatever the switch says; 0.15 and later obey it and
    warn that this "may cause the engine to crash or produce incorrect outputs".

    How sure: the checks of vLLM 0.33.0 (config/scheduler.py, engine/arg_utils.py). The first two are errors, the third is a
    warning; chunked prefill is a warning where the stated release obeys the switch and information else
    (read in 0.8.0, 0.9.2, 0.11.0, 0.15.0 and later). Models that vLLM itself runs without chunked prefill (pooling) are left out where `runner` or `task` says so.
    """

    code = "SRV024"
    name = "scheduler-limits"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/scheduler.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = ("sched-long-prefill", "sched-mnbt-excess", "sched-disable-chunked-prefill")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --long-prefill-token-threshold 2048 --max-num-seqs 64",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 4096 --long-prefill-token-threshold 8192",
            at="long_prefill_token_threshold",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 2048 --max-num-seqs 2 --max-num-batched-tokens 16384",
            at="max_num_batched_tokens",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --no-enable-chunked-prefill", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        length, seqs = number(job, "max_model_len"), number(job, "max_num_seqs")
        threshold, active = number(job, "long_prefill_token_threshold"), number(job, "max_num_active_seqs")
        if threshold is not None and length is not None and threshold.value > length.value:
            yield self.finding(
                f"long_prefill_token_threshold {threshold.value} is above max_model_len {length.value}",
                threshold,
                (length, f"{length.value:,} tokens"),
                help=f"{length.value} or less",
                job=job,
            )
        if active is not None and seqs is not None and active.value > seqs.value:
            yield self.finding(
                f"max_num_active_seqs {active.value} is above max_num_seqs {seqs.value}",
                active,
                (seqs, f"{seqs.value} sequences"),
                help=f"{seqs.value} or less",
                job=job,
            )
        tokens = number(job, "max_num_batched_tokens")
        if tokens is not None and seqs is not None and length is not None and tokens.value > seqs.value * length.value:
            most = seqs.value * length.value
            yield self.finding(
                f"max_num_batched_tokens {tokens.value:,} is more than {seqs.value} × {length.value:,} = {most:,} can fill",
                tokens,
                (seqs, f"{seqs.value} sequences"),
                (length, f"of {length.value:,} tokens"),
                help=f"max_num_batched_tokens: {most}",
                severity="warning",
                job=job,
            )
        if switch(job, "enable_chunked_prefill") is not False or before(job, "0.8"):
            return
        kinds = [statement(job, name) for name in ("runner", "task")]
        if any(fact is not None and fact.value not in ("generate", "auto") for fact in kinds):
            return
        ignored = since(job, "0.8") and before(job, IGNORES_UNTIL)
        yield self.finding(
            "chunked prefill is switched off, which the V1 engine of 0.8 to 0.11 passes over"
            if ignored
            else "chunked prefill is switched off, which vLLM's engine does not officially support for generating models",
            statement(job, "enable_chunked_prefill"),
            help="leave it on; --long-prefill-token-threshold bounds what long prompts take of a step",
            severity="warning" if since(job, OBEYS_SINCE) else "info",
            confidence="medium",
            job=job,
        )
