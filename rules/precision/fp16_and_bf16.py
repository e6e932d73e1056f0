"""PRC004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import TRAINERS, on

PAIRS = (("fp16", "bf16", ""), ("fp16_full_eval", "bf16_full_eval", " for evaluation"))


class Fp16AndBf16(Rule):
    """fp16 and bf16 are both switched on in trainer arguments.

    ``TrainingArguments`` raises "At most one of fp16 and bf16 can be True, but not both" when it is made.

    How sure: read in transformers 4.44, 4.57 and 5.24; TRL and LLaMA-Factory inherit the check. Axolotl turns fp16 off by
    itself where bf16 is on and is left out.
    """

    code = "PRC004"
    name = "fp16-and-bf16"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
    )
    catalogue = ("prec.fp16-bf16-both",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            fp16: false
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            fp16: true
            """,
            note="Axolotl lets bf16 win",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="fp16",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            bf16_full_eval: true
            fp16_full_eval: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="fp16_full_eval",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect not in TRAINERS or reading.context.get("layout") == "v1":
            return
        for half, brain, purpose in PAIRS:
            if on(reading, half) and on(reading, brain):
                yield self.finding(
                    f"{half} and {brain} are both on{purpose}: the trainer takes one of them",
                    reading.origin(half),
                    (reading.origin(brain), "also on"),
                    help=f"keep {brain} where the accelerator has bf16, else {half}",
                )
