"""SRV021."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.vllm import SIZES
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .server import arguments, readings

POWERS = frozenset({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})
"""Numbers of thousands that are hardly meant as thousands: 32k is 32,768 to most people."""
DECIMAL = re.compile(r"(\d{1,4})k")


class ThousandsSuffix(Rule):
    """``32k`` is 32,000 to vLLM; ``32K`` is 32,768.

    vLLM's sizes take a small letter for a power of ten and a capital for a power of two, so ``max-model-len: 32k`` cuts 768
    tokens off a 32,768 token context.

    How sure: read in ``human_readable_int`` of vllm/utils/argparse_utils.py. Information: 32,000 may be meant.
    """

    code = "SRV021"
    name = "thousands-suffix"
    family = "serving"
    severity = "info"
    kinds = ("serve",)
    evidence = ("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/utils/argparse_utils.py",)
    catalogue = ("maxlen-suffix-k",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 32K"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 20k"),
    )
    bad = (example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 32k", at="max_model_len", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        for reading in readings(job):
            for name, _, key, entry in arguments(reading):
                value = entry.value.value if isinstance(entry.value, Scalar) else None
                match = DECIMAL.fullmatch(value.strip()) if name in SIZES and isinstance(value, str) else None
                if match is None or int(match[1]) not in POWERS:
                    continue
                count = int(match[1])
                yield self.finding(
                    f"{count}k is {count * 1000:,} tokens to vLLM, not {count * 1024:,}",
                    reading.origin(key),
                    help=f"{count}K is {count * 1024:,}",
                    job=job,
                )
