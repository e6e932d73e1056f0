"""CKP006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact, Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence

from ..trainer import placeholder

PAIRS = (("save_steps", "saves_per_epoch"), ("eval_steps", "evals_per_epoch"))
STRATEGIES = (
    ("save_strategy", ("save_steps", "saves_per_epoch")),
    ("eval_strategy", ("eval_steps", "evals_per_epoch")),
    ("evaluation_strategy", ("eval_steps", "evals_per_epoch")),
)


class AxolotlIntervals(Rule):
    """Axolotl's settings of when to save or evaluate exclude each other.

    `save_steps` and `saves_per_epoch` are mutually exclusive, as are `eval_steps` and `evals_per_epoch`; both go with the
    strategy `steps` only; and an evaluation needs a `val_set_size` above 0 or `test_datasets`. Axolotl stops when it reads
    the file, with a ValueError for each.

    How sure: the checks are in Axolotl's schema (check_saves, check_evals, 0.4 to main). As there, 0 and null count as not
    given.
    """

    code = "CKP006"
    name = "axolotl-intervals"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.steps-vs-per-epoch",)
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",)
    good = (
        example(
            "lora.yml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            datasets:
              - path: our/data
                type: alpaca
            val_set_size: 0.05
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            saves_per_epoch: 1
            evals_per_epoch: 4
            eval_steps:
            """,
        ),
    )
    bad = (
        example(
            "lora.yml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            datasets:
              - path: our/data
                type: alpaca
            val_set_size: 0.05
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            saves_per_epoch: 1
            save_steps: 100
            """,
            at="save_steps",
            count=1,
        ),
        example(
            "lora.yml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            datasets:
              - path: our/data
                type: alpaca
            val_set_size: 0
            sequence_len: 2048
            micro_batch_size: 1
            num_epochs: 1
            eval_steps: 100
            """,
            at="eval_steps",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl" or reading.role not in ("run", "arguments"):
            return
        for one, other in PAIRS:
            if self._given(reading, one) and self._given(reading, other):
                yield self.finding(
                    f"{one} and {other} exclude each other: Axolotl stops with a ValueError",
                    self._fact(reading, one),
                    self._fact(reading, other),
                    help="keep one of the two",
                )
        for strategy, keys in STRATEGIES:
            name = reading.value(strategy)
            if not isinstance(name, str) or not name or name == "steps" or placeholder(name):
                continue
            for key in keys:
                if self._given(reading, key):
                    yield self.finding(
                        f"{key} goes with {strategy} steps, not {name}: Axolotl stops with a ValueError",
                        self._fact(reading, key),
                        self._fact(reading, strategy),
                        help=f"take {key} or {strategy} out",
                    )
        yield from self._without_data(reading)

    def _without_data(self, reading: Reading) -> Iterator[Finding]:
        size = reading.value("val_set_size")
        strategy = reading.value("eval_strategy")
        tests = reading.at("test_datasets")
        if size != 0 or isinstance(size, bool) or strategy in ("no", False):
            return
        if isinstance(tests, Sequence) and tests.items:
            return
        for key in ("eval_steps", "eval_strategy"):
            if self._given(reading, key):
                yield self.finding(
                    f"{key} needs data to evaluate on, val_set_size is 0: Axolotl stops with a ValueError",
                    self._fact(reading, key),
                    self._fact(reading, "val_set_size"),
                    help="give val_set_size or test_datasets, or take the evaluation out",
                )
                return

    def _given(self, reading: Reading, key: str) -> bool:
        value = reading.value(key)
        return bool(value) and not placeholder(value)

    def _fact(self, reading: Reading, key: str) -> Fact[object]:
        return Fact(reading.value(key), reading.origin(key))
