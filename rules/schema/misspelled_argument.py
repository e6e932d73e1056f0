"""SCH004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import load_schema
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .standing import title, unknown_keys


class MisspelledArgument(Rule):
    """A key one slip away from a trainer argument.

    A script's ``HfArgumentParser`` stops at keys that none of its dataclasses has; the ``trl`` command hands them to
    ``accelerate launch``, which stops too. Scripts that take extra keys, TRL's own among them, run with the default instead.

    How sure: the name is one or two letters off a known argument, and no release knows it. A script may have an argument of
    just this name, so it is a warning, and information for the flags of a command.
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
            "run.sh",
            """
            torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out --do_train \\
              --per_device_train_batchsize 4
            """,
            at="per_device_train_batchsize",
            count=1,
        ),
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
        if reading.context.get("command_line"):
            yield from self._flags(reading)
            return
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

    def _flags(self, reading: Reading) -> Iterator[Finding]:
        """The flags of a command: its script's parser stops at those it does not have."""
        if reading.dialect not in ("hf-training-args", "trl") or not isinstance(reading.root, Mapping):
            return
        if reading.context.get("script"):
            return
        schema = load_schema(reading.dialect)
        for name in reading.root.index:
            meant = schema.typo_of(name)
            if meant is None or reading.entry(meant) is not None or len(name) < LONG_NAME:
                continue
            yield self.finding(
                f"--{name} is no argument of {title(schema)}; --{meant} is",
                reading.origin(name),
                help=f"write --{meant}, unless the script has an argument {name} of its own",
                severity="info",
            )


LONG_NAME = 12
"""Letters from which a flag that is a slip away from a known one is hardly another's."""
