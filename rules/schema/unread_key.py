"""SCH003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, route_text
from cfglint.lint.rule import Rule, example

from .standing import newest, title, unknown_keys


class UnreadKey(Rule):
    """A key that no release of the framework reads: it has no effect.

    Axolotl, DeepSpeed's top level and Accelerate's nested blocks drop what they do not know. Such a key is a setting of an
    old release, of a plugin, or of nothing.

    How sure: the key is in none of the releases read. A newer release, a plugin or a project's own code may read it, which
    is why it is shown to strict readers only.
    """

    code = "SCH003"
    name = "unread-key"
    family = "schema"
    severity = "info"
    confidence = "medium"
    persona = "strict"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
    )
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": "auto",
              "zero_optimization": {"stage": 2},
              "steps_per_print": 100,
              "_comment": "for the 8-GPU nodes"
            }
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
            sequence_len: 4096
            micro_batch_size: 2
            gptq_groupsize: 128
            """,
            at="gptq_groupsize",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for schema, found, _ in unknown_keys(reading, context):
            if found.effect in ("ignored", "warning") and not found.suggestions:
                yield self.finding(
                    f"{title(schema)} does not read {route_text(found.route)} (looked for up to {newest(schema)})",
                    reading.origin(*found.route),
                    help="remove it, or say which plugin or release reads it",
                )
