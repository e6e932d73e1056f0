"""SRV006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import before, number, runs_vllm, served, since, stated, switch, version

V1 = "0.8"
"""The first release whose V1 engine, with chunked prefill, is the default."""
CHUNKED_ABOVE = 32768
"""Tokens above which the V0 engine turned chunked prefill on (vllm/engine/arg_utils.py of 0.6.6)."""


class BatchedTokensTooFew(Rule):
    """``max_num_batched_tokens`` is below ``max_num_seqs``, or below ``max_model_len`` without chunked prefill.

    One step must have room for one token of every sequence, and without chunked prefill for a whole prompt. vLLM's
    scheduler configuration refuses both with a ValueError at start.

    How sure: both checks stand in vllm/config/scheduler.py in every release read (0.6.6 to 0.33.0). The second is made
    where chunked prefill is switched off by name, or in a stated release before 0.8, whose V0 engine left it off for lengths
    up to 32,768. Without ``max_model_len`` the model's own length counts.
    """

    code = "SRV006"
    name = "batched-tokens-too-few"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/scheduler.py",
        "https://github.com/verl-project/verl/pull/7626",
    )
    catalogue = ("sched-mnbt-lt-seqs", "sched-mnbt-lt-maxlen")
    good = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-batched-tokens 2048 --max-model-len 32768",
            note="chunked prefill is on by default",
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-batched-tokens 512",
            note="max_num_seqs is lowered to it where it is not stated",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-batched-tokens 256 --max-num-seqs 512",
            at="max_num_batched_tokens",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --no-enable-chunked-prefill --max-num-batched-tokens 4096 --max-model-len 8192",
            count=1,
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --no-enable-chunked-prefill --max-num-batched-tokens 8192",
            note="the model's length is 32,768",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        tokens = number(job, "max_num_batched_tokens")
        if tokens is None or not runs_vllm(job):
            return
        sequences = number(job, "max_num_seqs")
        if sequences is not None and tokens.value < sequences.value:
            yield self.finding(
                f"max_num_batched_tokens {tokens.value} is below max_num_seqs {sequences.value}",
                tokens,
                (sequences, "each sequence needs a token of every step"),
                help=f"max_num_seqs: {tokens.value}, or at least {sequences.value} batched tokens",
                job=job,
            )
        asked = number(job, "max_model_len")
        length, certain = (asked.value, True) if asked is not None else self._own(job)
        if tokens.value >= length:
            return
        chunked = switch(job, "enable_chunked_prefill")
        by_default = not stated(job, "enable_chunked_prefill") and before(job, V1) and length <= CHUNKED_ABOVE
        if chunked is not False and not by_default:
            return
        bound = "max_model_len" if asked is not None else "the model's own length of"
        yield self.finding(
            f"max_num_batched_tokens {tokens.value} is below {bound} {length} while chunked prefill is off"
            + (f", as it is by default in vLLM {version(job)}" if by_default else ""),
            tokens,
            (asked or job.model_id, "a whole prompt must fit into one step"),
            help="leave enable_chunked_prefill at its default"
            if since(job, "0.10")
            else f"max_num_batched_tokens: {length}, or --enable-chunked-prefill",
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            job=job,
        )

    def _own(self, job: ServingJob) -> tuple[int, bool]:
        """The model's own length, where none is stated, and whether it is certain; 0 where it is not known."""
        arch, certain = served(job)
        if arch is None or stated(job, "max_model_len"):
            return 0, False
        return arch.max_position_embeddings or 0, certain
