"""PFT005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Rule, example

from .adapter_facts import on


class QloraNeeds4bit(Rule):
    """Axolotl's adapter qlora without `load_in_4bit`, or with `load_in_8bit` or gptq.

    Its schema raises "Require cfg.load_in_4bit to be True for qlora", "Can't load qlora in 8bit" or "Can't load qlora if
    gptq".

    How sure: a check of Axolotl's schema in every release from 0.5 to 0.19.
    """

    code = "PFT005"
    name = "qlora-needs-4bit"
    family = "peft"
    severity = "error"
    fixable = "unsafe"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/peft.py",)
    catalogue = ("quant.axolotl-qlora-needs-4bit",)
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
            adapter: qlora
            load_in_4bit: true
            load_in_8bit: false
            """,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            load_in_8bit: true
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
            adapter: qlora
            """,
            at="adapter",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: qlora
            load_in_4bit: true
            load_in_8bit: true
            """,
            at="load_in_8bit",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl" or reading.value("adapter") != "qlora" or reading.role != "run":
            return
        for key in ("load_in_8bit", "gptq"):
            if on(reading, key):
                yield self.finding(
                    f"adapter qlora does not go with {key}",
                    reading.origin(key),
                    (reading.origin("adapter"), "qlora is 4-bit"),
                    help=f"switch {key} off and load_in_4bit on, or use adapter: lora",
                )
                return
        if not on(reading, "load_in_4bit") and not is_unknown(reading.value("load_in_4bit")):
            edit = insert_key(reading, ("adapter",), "load_in_4bit", "true")
            yield self.finding(
                "adapter qlora needs load_in_4bit: true",
                reading.origin("adapter"),
                *(((reading.origin("load_in_4bit"), "off here"),) if reading.entry("load_in_4bit") else ()),
                help="add load_in_4bit: true, or use adapter: lora",
                fixes=(Fix("add load_in_4bit: true", (edit,), safe=False),) if edit else (),
            )
