"""REP005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar


class SeedNull(Rule):
    """torchtune's `seed: null` draws a new seed for every run.

    The order of the data and the initial adapters then differ from run to run; the seed that was drawn stands in the log.

    How sure: torchtune's `training.set_seed` (0.6). Recipes ship with null, so it is information for a strict reader. Axolotl
    and transformers take 42 where nothing is stated.
    """

    code = "REP005"
    name = "seed-null"
    family = "reproducibility"
    severity = "info"
    persona = "strict"
    catalogue = ("repro.no-seed",)
    evidence = ("https://github.com/pytorch/torchtune/blob/main/torchtune/training/seed.py",)
    good = (
        example(
            "full.yaml",
            """
            model:
              _component_: torchtune.models.llama3_1.llama3_1_8b
            seed: 42
            batch_size: 2
            epochs: 1
            dtype: bf16
            """,
        ),
    )
    bad = (
        example(
            "full.yaml",
            """
            model:
              _component_: torchtune.models.llama3_1.llama3_1_8b
            seed: null
            batch_size: 2
            epochs: 1
            dtype: bf16
            """,
            at="seed",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        node = reading.at("seed")
        if reading.dialect != "torchtune" or reading.role != "run" or not isinstance(node, Scalar):
            return
        if node.value is None:
            yield self.finding(
                "seed: null draws a new seed for every run",
                reading.origin("seed"),
                help="state a number where runs are to be compared",
            )
