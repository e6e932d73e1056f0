"""SCH013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping


class AxolotlExclusiveKeys(Rule):
    """Axolotl keys that say the same thing twice, or that exclude each other.

    ``batch_size`` beside ``gradient_accumulation_steps`` raises "please set only one of gradient_accumulation_steps or
    batch_size"; ``qat`` with ``load_in_4bit`` or ``load_in_8bit`` raises "QAT and load_in_… cannot be used together".

    How sure: checks of Axolotl's schema: the batch keys in every release from 0.5 to 0.19, qat since it came.
    """

    code = "SCH013"
    name = "axolotl-exclusive-keys"
    family = "schema"
    severity = "error"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",
    )
    catalogue = ("axolotl.batch-size-deprecated", "quant.qat-peft")
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            gradient_accumulation_steps: 8
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            gradient_accumulation_steps: 8
            batch_size: 16
            """,
            at="batch_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl":
            return
        if integer(reading.value("batch_size")) and integer(reading.value("gradient_accumulation_steps")):
            yield self.finding(
                "batch_size and gradient_accumulation_steps are both set: Axolotl takes one of them",
                reading.origin("batch_size"),
                (reading.origin("gradient_accumulation_steps"), "also set"),
                help="keep micro_batch_size and gradient_accumulation_steps",
            )
        quantized_training = reading.at("qat")
        if isinstance(quantized_training, Mapping) and len(quantized_training):
            for key in ("load_in_4bit", "load_in_8bit"):
                if reading.value(key) is True:
                    yield self.finding(
                        f"qat trains weights that {key} would quantize",
                        reading.origin(key),
                        (reading.origin("qat"), "quantization-aware training"),
                        help=f"switch {key} off, or remove qat",
                    )
