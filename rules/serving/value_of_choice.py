"""SRV023."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.catalog.engines import engine_argument
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import NEWEST_SAMPLED, before, called, runs_vllm, since, text

CHECKED: Final = ("kv_cache_dtype", "tokenizer_mode", "lora_dtype", "model_impl", "runner", "uvicorn_log_level")
"""Arguments whose values argparse holds to a list."""
OLDER: Final = {"tokenizer_mode": {"slow": "0.33", "custom": "0.33"}, "runner": {"draft": "1000"}}
"""Values of earlier releases, with the first sampled release that no longer has them."""


class ValueOfChoice(Rule):
    """A value that a vLLM argument does not take: argparse knows the list and stops.

    "argument --kv-cache-dtype: invalid choice: 'fp16'". The list grows with each release, and now and then a value goes
    (`--tokenizer-mode slow`).

    How sure: the lists of vLLM 0.33.0, with the values known to have gone since. An error where the stated release is 0.33.0
    or later, else a warning: another release may have a value of its own.
    """

    code = "SRV023"
    name = "value-of-choice"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/cache.py",
    )
    catalogue = ("kv-dtype-unknown", "cli-tokenizer-mode-slow")
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --kv-cache-dtype fp8_e4m3"),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --tokenizer-mode slow",
                "requirements.txt": "vllm==0.10.2",
            },
            note="this release has it",
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen2.5-7B-Instruct --kv-cache-dtype fp16",
                "requirements.txt": "vllm==0.33.0",
            },
            at="kv_cache_dtype",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --tokenizer-mode slow", at="tokenizer_mode", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        for name in CHECKED:
            fact, argument = text(job, name), engine_argument("vllm", f"--{name}")
            if fact is None or argument is None or not argument.choices or "$" in fact.value or "{" in fact.value:
                continue
            choices = [str(choice) for choice in argument.choices]
            gone = OLDER.get(name, {}).get(fact.value)
            if fact.value in choices or (gone is not None and before(job, gone)):
                continue
            from difflib import get_close_matches  # only where something is wrong

            near = get_close_matches(fact.value, choices, n=1)
            shown = ", ".join(choices[:6]) + (", …" if len(choices) > 6 else "")
            sure = since(job, NEWEST_SAMPLED)
            yield self.finding(
                f"--{called(job, name).replace('_', '-')} does not take {fact.value}"
                + (f" since vLLM {gone}" if gone else f": vLLM {NEWEST_SAMPLED} knows {shown}"),
                fact,
                help=f"did you mean {near[0]}?" if near else "take one of the list, or leave it out",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
                job=job,
            )
