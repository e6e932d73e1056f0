"""MDL008."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import number
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

NEUTRAL: Final = {"temperature": 1.0, "top_p": 1.0, "top_k": 50.0, "min_p": None, "typical_p": 1.0}
"""Values at which a setting has no effect of its own (transformers' GenerationConfig)."""


class SamplingWithoutSampling(Rule):
    """Sampling settings in a generation config that has `do_sample` off or does not state it.

    transformers decodes greedily then and passes over them, and refuses to save the config ("GenerationConfig is invalid").
    vLLM from 0.8 on reads the same file and does sample with them. So one model answers in two ways.

    How sure: the checks of transformers (4.57, 5.24) and vLLM's get_diff_sampling_param. `do_sample: false` in so many words
    is a warning, a missing `do_sample` information: some models were published so.
    """

    code = "MDL008"
    name = "sampling-without-do-sample"
    family = "model"
    severity = "warning"
    kinds = ("train", "serve")
    catalogue = ("mc-gen-dosample",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/generation/configuration_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/pull/15281",
    )
    good = (
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "do_sample": true, "temperature": 0.6, "top_p": 0.9}
            """,
        ),
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "do_sample": false, "temperature": 1.0}
            """,
            note="the neutral value",
        ),
    )
    bad = (
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "do_sample": false, "temperature": 0.6, "top_p": 0.9}
            """,
            at="do_sample",
            count=1,
        ),
        example(
            "generation_config.json",
            """
            {"bos_token_id": 1, "eos_token_id": 2, "temperature": 0.6, "top_p": 0.9}
            """,
            at="temperature",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "hf-generation-config" or reading.value("do_sample") is True:
            return
        found = [
            key
            for key, neutral in NEUTRAL.items()
            if (value := number(reading.value(key))) is not None and value != neutral
        ]
        if not found:
            return
        off = reading.value("do_sample") is False
        words = ", ".join(f"{key} {reading.value(key)}" for key in found)
        yield self.finding(
            f"{words}: transformers passes over {'it' if len(found) == 1 else 'them'} while do_sample is "
            f"{'false' if off else 'not true'}, vLLM samples with {'it' if len(found) == 1 else 'them'}",
            reading.origin("do_sample") if off else reading.origin(found[0]),
            *((reading.origin(key), "only with do_sample") for key in found if off or key != found[0]),
            help="do_sample: true, or leave the sampling settings out",
            severity="warning" if off else "info",
        )
