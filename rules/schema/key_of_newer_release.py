"""SCH008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below, exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, route_text
from cfglint.lint.rule import Rule, example

from .standing import stated_keys, table_of, title

TRL_CONFIGS_SINCE = "0.8"
"""First TRL release with a command that reads config files."""


class KeyOfNewerRelease(Rule):
    """A key that came with a later release than the one the project states.

    The stated release does not know it: a strict reader stops, a lenient one drops the setting without a word.

    How sure: the tables say with which minor release a key came. An error only where the reader refuses unknown keys; a
    script's own dataclass may bring an argument before transformers does, so trainer arguments are a warning.
    """

    code = "SCH008"
    name = "key-of-newer-release"
    family = "schema"
    severity = "warning"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/hf_argparser.py",
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/commands/config/config_args.py",
    )
    catalogue = ("hf.unknown-key",)
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                eval_strategy: epoch
                """,
                "requirements.txt": """
                transformers>=4.40
                """,
            },
            note="the range holds releases that have it",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                eval_strategy: epoch
                """,
                "requirements.txt": """
                transformers==4.38.2
                """,
            },
            at="eval_strategy",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        schema = table_of(reading)
        if reading.dialect == "trl" and always_below(context.version(reading, "trl"), TRL_CONFIGS_SINCE):
            return  # scripts of those days read arguments of their own
        for key in stated_keys(reading, context):
            if schema is None or key.standing != "not-yet":
                continue
            effect = schema.unknown_effect(key.route[:-1], exact(key.stated))
            what = {"error": "which stops at it", "passed-on": "whose argument parser stops at it"}
            yield self.finding(
                f"{route_text(key.route)} came with {title(key.owner)} {key.info.since}; the stated release is "
                f"{(key.stated or '').strip()}, {what.get(effect, 'which passes over it without a word')}",
                reading.origin(*key.route),
                help=f"raise the release to {key.info.since}, or remove the key",
                severity="error" if effect == "error" else "warning",
            )
