"""SCH010."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .standing import stated_version, table_of, values
from .wrong_type import complaint_of, is_exponent

_NUMBER: Final = re.compile(r"([-+]?)(\d+)(\.\d*)?[eE]([-+]?)(\d+)")

FACTORY_READS_NUMBERS: Final = "0.9.4"
"""First LLaMA-Factory that reads its YAML with OmegaConf."""

FACTORY_TAKES_TEXT: Final = "0.9.3"
"""The last that reads it with PyYAML."""


class ExponentAsText(Rule):
    """A number such as 1e-5 that the YAML reader takes for text.

    YAML 1.1, which PyYAML reads, wants a point and a signed exponent: ``1.0e-5``. ``1e-5`` is the text "1e-5". A dataclass
    takes it as it is, and the optimizer fails after the model is loaded: "'<=' not supported between instances of 'float'
    and 'str'".

    How sure: only where the reader leaves the value as YAML gives it: ``HfArgumentParser.parse_yaml_file``, plain
    ``safe_load``, LLaMA-Factory before 0.9.4. TRL's parser, Axolotl's models and OmegaConf make a number of it and are left
    out. What a script does with its YAML is not seen, so it is a warning unless the release decides; where LLaMA-Factory's
    release is not stated it is information.
    """

    code = "SCH010"
    name = "exponent-as-text"
    family = "schema"
    severity = "warning"
    fixable = "safe"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/hf_argparser.py",
        "https://github.com/yaml/pyyaml/issues/173",
    )
    catalogue = ("yaml.sci-notation-string",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            learning_rate: 2.0e-5
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2e-5
            """,
            note="TRL's argument parser reads the text as a number",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B-Instruct
                stage: sft
                finetuning_type: lora
                template: qwen
                dataset: identity
                output_dir: out
                learning_rate: 2e-5
                """,
                "requirements.txt": """
                llamafactory==0.9.1
                transformers==4.46.1
                """,
            },
            at="learning_rate",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            learning_rate: 2e-5
            """,
            at="learning_rate",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        schema = table_of(reading)
        if schema is None or reading.document.file.format != "yaml":
            return
        for route, node in values(reading, schema):
            if not isinstance(node, Scalar) or not isinstance(node.value, str):
                continue
            complaint = complaint_of(reading, schema, route, node, context)
            stated = stated_version(reading, schema, context) if reading.dialect == "llamafactory" else None
            old = always_below(stated, FACTORY_READS_NUMBERS) is True
            # with no release stated the newest is meant, which makes a number of it
            perhaps = complaint is None and reading.dialect == "llamafactory" and stated is None
            if perhaps:
                complaint = schema.check_type(route, node.value, quoted=node.quoted, read_in=FACTORY_TAKES_TEXT)
            if complaint is None or not is_exponent(node, complaint):
                continue
            number = _as_number(node.value)
            edit = replace_value(reading, route, number) if number else None
            reader = f"LLaMA-Factory before {FACTORY_READS_NUMBERS}" if perhaps else "the YAML reader"
            yield self.finding(
                f"{route_text(route)}: {node.value} is text to {reader}, not a number",
                reading.origin(*route),
                help=f"write {number}" if number else "write it as a number with a point and a signed exponent",
                fixes=(Fix(f"write {number}", (edit,)),) if edit and number else (),
                severity="error" if old else "info" if perhaps else "warning",
                confidence="high" if old else "low" if perhaps else "medium",
            )


def _as_number(text: str) -> str | None:
    """The number as YAML 1.1 wants it: a point, and a sign in the exponent."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    sign, whole, part, direction, exponent = found.groups()
    decimals = part if part and len(part) > 1 else ".0"
    return f"{sign}{whole}{decimals}e{direction or '+'}{exponent}"
