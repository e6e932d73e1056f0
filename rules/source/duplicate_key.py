"""SRC002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Place
from cfglint.lint.rule import example
from cfglint.source.node import Document, Problem, SourceFile

from .problem import ProblemRule, dialects_of

REFUSING = {
    "deepspeed": "DeepSpeed refuses duplicate keys",
    "llamafactory": "OmegaConf, which reads this file, refuses duplicate keys",
    "torchtune": "OmegaConf, which reads this file, refuses duplicate keys",
}
"""Dialects whose own reader stops at a duplicate key."""


class DuplicateKey(ProblemRule):
    """A key stands twice in one mapping.

    Most readers keep the last value and drop the first without a word, so the setting a person sees first is not the one
    in force. DeepSpeed (its JSON reader raises on duplicates) and OmegaConf (LLaMA-Factory) stop instead, and so does every TOML
    reader. The same value twice does no harm elsewhere: that is information only.

    How sure: the key is in the file twice; which readers refuse it is read from their source.
    """

    code = "SRC002"
    name = "duplicate-key"
    severity = "warning"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.0/deepspeed/runtime/config_utils.py",
        "https://github.com/omry/omegaconf/blob/v2.3.0/omegaconf/_utils.py",
    )
    catalogue = ("ds.duplicate-keys",)
    good = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}}
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
            datasets: []
            learning_rate: 0.0002
            micro_batch_size: 4
            """,
        ),
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "zero_optimization": {"stage": 3}}
            """,
        ),
    )

    def check_file(self, file: SourceFile, context: Context) -> Iterator[Finding]:
        if file.format in ("shell", "dockerfile"):
            return
        yield from super().check_file(file, context)

    def report(self, problem: Problem, document: Document, context: Context) -> Finding:
        refused = next((why for name, why in REFUSING.items() if name in dialects_of(document.file, context)), None)
        if document.file.format == "toml":
            refused = "TOML readers stop at a duplicate key"
        same = "same value" in problem.message
        severity = (
            self.severity if self.severity != "warning" else ("error" if refused else "info" if same else "warning")
        )
        related = tuple((Place(document, span), label) for span, label in problem.related)
        return self.finding(
            problem.message,
            Place(document, problem.span),
            *related,
            severity=severity,  # type: ignore[arg-type]
            help="keep one of the two",
            notes=(refused,) if refused else (),
        )
