"""SCH011."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .standing import table_of, values
from .wrong_type import complaint_of, is_switch_word


class SwitchForWord(Rule):
    """The word no, off, yes or on without quotes, which YAML reads as true or false.

    ``eval_strategy: no`` gives the trainer ``False``: "False is not a valid IntervalStrategy, please select one of ['no',
    'steps', 'epoch']". ``mixed_precision: no`` makes Accelerate call ``lower()`` on a boolean where it is not overridden.

    How sure: PyYAML's own reading. An error where transformers makes an enumeration of the value (the ``…_strategy`` keys);
    elsewhere a warning.
    """

    code = "SCH011"
    name = "switch-for-word"
    family = "schema"
    severity = "error"
    fixable = "safe"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://yaml.org/type/bool.html",
    )
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            eval_strategy: "no"
            """,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: 'NO'
            mixed_precision: 'no'
            num_processes: 1
            num_machines: 1
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            eval_strategy: no
            """,
            at="eval_strategy",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2e-5
            save_strategy: no
            """,
            at="save_strategy",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        schema = table_of(reading)
        if schema is None or reading.document.file.format != "yaml":
            return
        for route, node in values(reading, schema):
            if not isinstance(node, Scalar) or not isinstance(node.value, bool):
                continue
            complaint = complaint_of(reading, schema, route, node, context)
            if complaint is None or not is_switch_word(node, complaint):
                continue
            plainly = node.raw.strip().lower() in ("no", "off", "yes", "on")
            edit = replace_value(reading, route, f'"{node.raw.strip()}"') if plainly else None
            refused = str(route[-1]).endswith("_strategy") and reading.dialect in (
                "hf-training-args",
                "trl",
                "llamafactory",
            )
            read = "true" if node.value else "false"
            yield self.finding(
                f"{route_text(route)}: {node.raw.strip()} without quotes is the boolean {read}, not a word",
                reading.origin(*route),
                help=f'write "{node.raw.strip()}" in quotes' if plainly else "write the word in quotes",
                notes=(complaint,) if not plainly else (),
                fixes=(Fix("put it in quotes", (edit,)),) if edit else (),
                severity="error" if refused and reading.dialect != "hf-training-args" else "warning",
                confidence="high" if refused else "medium",
            )
