"""Rules that the engine applies itself: they have a page and a code like any other, and check nothing on their own."""

from __future__ import annotations

from typing import Final

from cfglint.jobs.pragma import PRAGMA_PROBLEM
from cfglint.lint.rule import Rule, example


class UnusedIgnore(Rule):
    """An ignore silences nothing.

    The fault it was written for is gone, or it names another rule than the one that reports. It is only reported where
    the rules it names did run on the file.
    """

    code = "SUP001"
    name = "unused-ignore"
    family = "silencing"
    severity = "warning"
    kinds = ("file",)
    fixable = "safe"
    bad = (
        example(
            "train.yaml",
            """
            base_model: meta-llama/Llama-3.1-8B  # cfglint: ignore[MEM001] fits since we use LoRA
            sequence_len: 2048
            micro_batch_size: 1
            """,
            count=1,
        ),
    )
    good = (
        example(
            "train.yaml",
            """
            base_model: meta-llama/Llama-3.1-8B
            sequence_len: 2048
            micro_batch_size: 1
            """,
        ),
    )


class UnreadableComment(Rule):
    """A cfglint comment cannot be read.

    A comment that begins with ``cfglint:`` but is neither a fact (``gpu=…``, ``gpus=…``, ``nodes=…``, ``dialect=…``) nor
    ``ignore[…]`` or ``ignore-file[…]``, names a rule that does not exist, or stands where it has no effect. Nothing is
    silenced or stated by it.
    """

    code = PRAGMA_PROBLEM
    name = "unreadable-comment"
    family = "silencing"
    severity = "warning"
    kinds = ("file",)
    bad = (
        example(
            "train.yaml",
            """
            # cfglint: gpus=eight
            base_model: meta-llama/Llama-3.1-8B
            """,
            count=1,
        ),
    )
    good = (
        example(
            "train.yaml",
            """
            # cfglint: gpu=A100-80GB gpus=8
            base_model: meta-llama/Llama-3.1-8B
            """,
        ),
    )


class RuleFailed(Rule):
    """A rule failed on this file.

    The rule raised an exception. That is a fault of the rule, not of the file: the other rules ran, and the exit code
    is 3. `CFGLINT_TRACEBACK=1` shows where it failed; please report it with the file, or with the part of it that is
    enough to see the fault. `--ignore CODE` runs without the rule.
    """

    code = "INT001"
    name = "rule-failed"
    family = "internal"
    severity = "error"
    kinds = ("file",)


ENGINE_RULES: Final[dict[str, type[Rule]]] = {rule.code: rule for rule in (RuleFailed, UnusedIgnore, UnreadableComment)}
