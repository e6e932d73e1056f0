"""SCH009."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.schema import Schema
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity, route_text
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Node, Route, Scalar, plain

from .standing import stated_version, surely_named, table_of, title, values

JOB_FILE: Final = "cfglint-job"
ELSEWHERE: Final = (("fp16", "min_loss_scale"),)
"""Values that a rule of their own judges."""


class WrongType(Rule):
    """A value of a type or a word that the key does not take.

    Axolotl's pydantic models and DeepSpeed's blocks stop with a validation error; the argument parser of TRL says "invalid
    int value". Plain dataclasses (``TrainingArguments`` from JSON or YAML) take anything, and fail or misbehave where the
    value is used: the text "false" is true.

    How sure: types and allowed words are read from the frameworks' releases, with each reader's own conversions. An error
    only where the reader itself validates; a word that a newer release may have brought is a warning.
    """

    code = "SCH009"
    name = "wrong-type"
    family = "schema"
    severity = "error"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/hf_argparser.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config_utils.py",
    )
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: "2"
            learning_rate: 2e-5
            """,
            note="pydantic turns text into numbers",
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": "auto",
              "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}
            }
            """,
        ),
    )
    bad = (
        example(
            "job.yaml",
            """
            cfglint: 1
            kind: train
            model: Qwen/Qwen2.5-7B
            micro_batch_size: four
            """,
            at="micro_batch_size",
            count=1,
        ),
        example(
            "job.yaml",
            """
            cfglint: 1
            kind: train
            model: Qwen/Qwen2.5-7B
            zero_stage: 7
            """,
            at="zero_stage",
            count=1,
            note="numbers of the job file have bounds",
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            warmup_steps: 0.1
            """,
            at="warmup_steps",
            count=1,
        ),
        example(
            "train.json",
            """
            {
              "model_name_or_path": "Qwen/Qwen2.5-0.5B",
              "per_device_train_batch_size": 4,
              "num_train_epochs": 1,
              "bf16": "false"
            }
            """,
            at="bf16",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 2,
              "gradient_clipping": 1.0,
              "zero_optimization": {"stage": "three"}
            }
            """,
            at="stage",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        schema = table_of(reading)
        if schema is None:
            return
        told: set[object] = set()
        for route, node in values(reading, schema):
            complaint = complaint_of(reading, schema, route, node, context)
            if complaint is None or is_exponent(node, complaint) or is_switch_word(node, complaint):
                continue
            if route[-2:] in ELSEWHERE:
                continue
            told.add(route[-1])
            level = _level(reading, schema, route, node, complaint, context)
            yield self.finding(
                f"{route_text(route)}: {complaint}",
                reading.origin(*route),
                help="give a value of that kind",
                severity=level,
                confidence="high" if level == "error" else "medium",
            )
        if schema.name == JOB_FILE:
            # what `cfglint estimate` refuses of its own file: numbers out of their bounds
            for key, complaint in reading.context.get("wrong_values", ()):
                if key not in told and key != "model":
                    yield self.finding(
                        f"{key}: {complaint}", reading.origin(key), help="give a value within the bounds"
                    )


def complaint_of(reading: Reading, schema: Schema, route: Route, node: Node, context: Context) -> str | None:
    """What the table says of a value in the stated release."""
    owner = schema.owner_of(*route) or schema
    stated = surely_named(stated_version(reading, owner, context))
    read_in = surely_named(stated_version(reading, schema, context))
    quoted = isinstance(node, Scalar) and node.quoted
    return schema.check_type(route, plain(node), stated, quoted=quoted, read_in=read_in)


def is_exponent(node: Node, complaint: str) -> bool:
    """A number with an exponent that the YAML reader takes for text (SCH010)."""
    return isinstance(node, Scalar) and isinstance(node.value, str) and complaint.endswith("is read as text")


def is_switch_word(node: Node, complaint: str) -> bool:
    """``no``, ``off`` … which YAML reads as a boolean where a word is meant (SCH011)."""
    return isinstance(node, Scalar) and isinstance(node.value, bool) and "without quotes YAML reads" in complaint


def _level(reading: Reading, schema: Schema, route: Route, node: Node, complaint: str, context: Context) -> Severity:
    """An error where the framework validates what it reads."""
    if schema.name == JOB_FILE:
        return "error"
    owner = schema.owner_of(*route) or schema
    known = surely_named(stated_version(reading, owner, context)) is not None
    if complaint.startswith("expected one of"):
        return "error" if known and schema.reader.conversion in ("pydantic", "argparse") else "warning"
    if schema.reader.conversion == "pydantic":
        # with no release stated, the file may be meant for one older than any that was read
        return "error" if known else "warning"
    if schema.name == "deepspeed" and len(route) > 1:
        return "error" if schema.unknown_effect(route[:-1], schema.versions[0]) == "error" else "warning"
    text = isinstance(node, Scalar) and isinstance(node.value, str)
    return "error" if schema.reader.conversion == "argparse" and text and title(schema) == "TRL" else "warning"
