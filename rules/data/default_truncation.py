"""DAT002."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Rule, example

DEFAULT_LENGTH: Final = 1024
"""TRL's ``SFTConfig.max_length`` (``max_seq_length`` before 0.16), in tokens."""

_OTHER_LENGTHS: Final = (
    "model_max_length", "model_max_seq_length", "max_seq_len", "cutoff_len", "block_size", "max_model_len", "seq_length",
    "sequence_length", "context_length",
)  # fmt: skip


class DefaultTruncation(Rule):
    """TRL's SFT cuts samples at 1024 tokens, because `max_length` is not stated.

    Longer samples lose their end, often the answer, without a word. Where another key of the file names a longer length, the
    cut is surely not meant.

    How sure: the default of ``SFTConfig`` (0.9 to 1.16); before 0.16 it was the tokenizer's limit where that is smaller. How
    long the data is is not known: without a key that names a longer length it is information.
    """

    code = "DAT002"
    name = "default-truncation"
    family = "data"
    severity = "info"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/sft_config.py",
        "https://github.com/unslothai/unsloth/issues/2904",
        "https://github.com/huggingface/open-r1/pull/419",
    )
    catalogue = ("trl.max-length-default-truncation",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            max_length: 4096
            """,
        ),
        example(
            "dpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/ultrafeedback_binarized
            per_device_train_batch_size: 2
            learning_rate: 5.0e-7
            beta: 0.1
            """,
            note="another trainer",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            model_max_length: 8192
            """,
            at="model_max_length",
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
            """,
            at="packing",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "trl" or reading.context.get("trainer") != "sft" or reading.role != "run":
            return
        if reading.context.get("command_line"):
            return
        stated = context.version(reading, "trl")
        keys = ["max_length"] if not always_below(stated, "0.16") else []
        if any(reading.entry(key) is not None for key in (*keys, "max_seq_length")):
            return
        key = "max_seq_length" if always_below(stated, "0.16") else "max_length"
        longer = next((k for k in _OTHER_LENGTHS if (integer(reading.value(k)) or 0) > DEFAULT_LENGTH), None)
        packing = "packing" if reading.value("packing") is True else None
        place = longer or packing or "dataset_name"
        if reading.entry(place) is None:
            place = "model_name_or_path"
        wanted = integer(reading.value(longer)) if longer else None
        edit = insert_key(reading, (place,), key, str(wanted)) if wanted and reading.entry(place) else None
        yield self.finding(
            f"samples are cut at {DEFAULT_LENGTH} tokens, TRL's default, and {longer} says {wanted}"
            if longer
            else f"samples are {'packed to' if packing else 'cut at'} {DEFAULT_LENGTH} tokens, TRL's default",
            reading.origin(place),
            help=f"state {key}" + (f": {wanted}" if wanted else ", in tokens"),
            fixes=(Fix(f"add {key}: {wanted}", (edit,), safe=False),) if edit else (),
            severity="warning" if longer else "info",
        )
