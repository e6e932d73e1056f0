"""SRC001."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class DoesNotParse(ProblemRule):
    """The file does not parse.

    The reader of this format stops here, so the job does not start. Only files that look like the configuration of a
    known framework (two of its distinctive keys stand in the text) are reported: a broken file of another tool is not
    ours to judge, and a template that has still to be rendered is left alone.

    How sure: the same parser that the frameworks use (PyYAML, the JSON grammar, TOML) refuses the file.
    """

    code = "SRC001"
    name = "does-not-parse"
    evidence = (
        "https://yaml.org/spec/1.1/",
        "https://www.rfc-editor.org/rfc/rfc8259",
    )
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: data/train.jsonl
                type: alpaca
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: data/train.jsonl
               type: alpaca
            sample_packing: true
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 4,
              "gradient_accumulation_steps": 8,
              "zero_optimization": {"stage": 3
              "bf16": {"enabled": true}
            }
            """,
        ),
    )
