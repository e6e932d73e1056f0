"""SCH004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .standing import title, unknown_keys


class MisspelledArgument(Rule):
    """A key one slip away from a trainer argument.

    A script's ``HfArgumentParser`` stops at keys that none of its dataclasses has; the ``trl`` command hands them to
    ``accelerate launch``, which stops too. Scripts that take extra keys, TRL's own among them, run with the default instead.

    How sure: the name is one or two letters off a known argument, and no release knows it. A script may have an argument of
    just this name, so it is a warning.
    """

    code = "SCH004"
    name = "misspelled-argument"
    family = "schema"
    severity = "warning"
    confidence = "medium"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/hf_argparser.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/scripts/utils.py",
    )
    catalogue = ("hf.unknown-key",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            learning_rate: 2.0e-5
            per_device_train_batch_size: 4
            our_own_switch: true
            """,
            note="a script's own argument",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            learning_rate: 2.0e-5
            per_device_train_batch_size: 4
            gradient_acumulation_steps: 8
            """,
            at="gradient_acumulation_steps",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for schema, found, _ in unknown_keys(reading, context):
            name = str(found.route[-1])
            if found.effect != "passed-on" or len(found.route) > 1:
                continue
            meant = schema.typo_of(name)
            if meant is None or reading.entry(meant) is not None:
                continue  # with both in the file, the other one is no slip
            edit = rename_key(reading, found.route, meant)
            yield self.finding(
                f"{name} is no argument of {title(schema)}; {meant} is",
                reading.origin(name),
                help=f"write {meant}, unless the script has an argument {name} of its own",
                fixes=(Fix(f"rename to {meant}", (edit,), safe=False),) if edit else (),
            )
