"""REP003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class DataSeed(Rule):
    """A seed is chosen, but not the one that orders the data: another seed gives another order of samples too.

    ``data_seed`` takes the value of ``seed`` unless stated. Runs that differ in ``seed`` then differ in initialization and in
    data order at once, and their spread cannot be told apart.

    How sure: transformers' sampler. It matters to those who compare runs, so it is for strict readers, and only where a seed
    other than the default 42 is stated.
    """

    code = "REP003"
    name = "data-seed"
    family = "reproducibility"
    severity = "info"
    persona = "strict"
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",)
    catalogue = ("repro.data-seed",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            seed: 7
            data_seed: 42
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            seed: 7
            """,
            at="seed",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect not in ("hf-training-args", "trl", "llamafactory") or reading.context.get("layout") == "v1":
            return
        seed = reading.value("seed")
        if not isinstance(seed, int) or isinstance(seed, bool) or seed == 42 or reading.entry("data_seed") is not None:
            return
        if reading.context.get("trains") is False:
            return
        yield self.finding(
            f"seed {seed} also orders the data: data_seed is not stated",
            reading.origin("seed"),
            help="state data_seed to keep the order while the seed changes",
        )
