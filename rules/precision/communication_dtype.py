"""PRC013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import dtype, scalar
from cfglint.jobs.facts import Reading
from cfglint.lint import fixes
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.rule import Rule, example

from .stated_precision import deepspeed_sections

TAKEN = ("fp32", "fp16", "bf16")
KEYS = ("communication_data_type", "seq_parallel_communication_data_type")


class CommunicationDtype(Rule):
    """DeepSpeed's communication type is not spelled fp32, fp16 or bf16.

    DeepSpeed takes these three words (in any case) and raises "Invalid communication_data_type" for every other, torch's
    own ``bfloat16`` and ``float32`` included.

    How sure: get_communication_data_type in every release read (0.8 to 0.19); up to 0.13 bf16 itself was spelled ``bfp16``,
    so that spelling is left alone.
    """

    code = "PRC013"
    name = "communication-dtype"
    family = "precision"
    severity = "error"
    fixable = "safe"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.9/deepspeed/runtime/config.py",
    )
    catalogue = ("ds.comm-dtype-invalid",)
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "communication_data_type": "FP32"
            }
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "bf16": {"enabled": true},
              "communication_data_type": "bfloat16"
            }
            """,
            at="communication_data_type",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for section in deepspeed_sections(reading):
            for key in KEYS:
                value = scalar(reading.at(*section, key))
                if not isinstance(value, str) or value.lower() in (*TAKEN, "bfp16") or is_unknown(value):
                    continue
                meant = dtype(value)
                edit = (
                    fixes.replace_value(reading, (*section, key), fixes.value_text(reading.document.file.format, meant))
                    if meant in TAKEN
                    else None
                )
                yield self.finding(
                    f"{key} is {value!r}, DeepSpeed takes {', '.join(TAKEN)}",
                    reading.origin(*section, key),
                    help=f"write {meant}" if meant in TAKEN else "",
                    fixes=(Fix(f"write {meant}", (edit,)),) if edit else (),
                )
