"""PFT003."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from .adapter_facts import on

_PLACES: Final[tuple[Route, ...]] = ((), ("quantization_config",), ("model_init_kwargs", "quantization_config"))


class FourAndEightBit(Rule):
    """`load_in_4bit` and `load_in_8bit` are both on.

    ``BitsAndBytesConfig`` raises "load_in_4bit and load_in_8bit are both True, but only one can be used at the same time",
    TRL "You can't use 8 bit and 4 bit precision at the same time", Axolotl "Can't load qlora in 8bit".

    How sure: each of the named frameworks checks it before anything is loaded. A script with keys of these names may do
    otherwise, so for unknown scripts it is a warning.
    """

    code = "PFT003"
    name = "four-and-eight-bit"
    family = "peft"
    severity = "error"
    kinds = ("train", "serve")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/quantization_config.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/model_config.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/peft.py",
    )
    catalogue = ("quant.4bit-and-8bit",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            use_peft: true
            load_in_4bit: true
            load_in_8bit: false
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            use_peft: true
            load_in_4bit: true
            load_in_8bit: true
            """,
            at="load_in_8bit",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect not in ("trl", "axolotl", "hf-training-args", "hf-quant-config"):
            return
        if reading.dialect == "axolotl" and reading.value("adapter") == "qlora":
            return  # PFT005 says what qlora wants
        for place in _PLACES:
            if on(reading, *place, "load_in_4bit") and on(reading, *place, "load_in_8bit"):
                sure = reading.dialect in ("trl", "hf-quant-config") or bool(place)
                yield self.finding(
                    "load_in_4bit and load_in_8bit are both on: a model is loaded in one of them",
                    reading.origin(*place, "load_in_8bit"),
                    (reading.origin(*place, "load_in_4bit"), "also on"),
                    help="switch one of them off",
                    severity="error" if sure else "warning",
                )
