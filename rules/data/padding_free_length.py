"""DAT006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from ..peft.adapter_facts import on


class PaddingFreeLength(Rule):
    """TRL's `padding_free` with a `max_length` it does not enforce, or packing without one.

    Without packing, ``padding_free: true`` raises "When `padding_free=True` without packing, `max_length` is not enforced"
    unless ``max_length`` is null; its default is 1024. Packing raises "When packing is enabled, `max_length` can't be `None`".

    How sure: the second check is in every release from 0.17 to 1.16; the first one in 1.0 and later, so it is an error only
    where the stated release has it.
    """

    code = "DAT006"
    name = "padding-free-length"
    family = "data"
    severity = "error"
    evidence = ("https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/sft_trainer.py",)
    catalogue = ("data.padding-free-maxlen",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            padding_free: true
            max_length: null
            """,
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/Capybara
                per_device_train_batch_size: 4
                learning_rate: 2.0e-5
                padding_free: true
                max_length: 4096
                """,
                "requirements.txt": """
                trl==1.16.0
                """,
            },
            at="padding_free",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            packing: true
            max_length: null
            """,
            at="packing",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "trl" or reading.context.get("trainer") != "sft" or reading.context.get("command_line"):
            return
        node = reading.at("max_length")
        unbounded = isinstance(node, Scalar) and node.value is None
        if on(reading, "packing"):
            if unbounded:
                yield self.finding(
                    "packing needs a max_length to pack to, and it is null",
                    reading.origin("packing"),
                    (reading.origin("max_length"), "null here"),
                    help="state max_length in tokens",
                )
            return
        if on(reading, "padding_free") and not unbounded:
            sure = always_at_least(context.version(reading, "trl"), "1.0") is True
            where = ((reading.origin("max_length"), "stated here"),) if node is not None else ()
            yield self.finding(
                "padding_free without packing does not enforce max_length"
                + ("" if node is not None else ", which is 1024 by default"),
                reading.origin("padding_free"),
                *where,
                help="packing: true, or max_length: null with samples that are short enough",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
            )
