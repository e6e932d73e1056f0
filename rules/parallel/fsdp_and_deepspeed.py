"""PAR004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar, Sequence

from ..trainer import placeholder, trainer_readings


class FsdpAndDeepspeed(Rule):
    """FSDP and DeepSpeed are both switched on in the trainer's arguments.

    Both shard the same parameters. transformers stops with "Using --fsdp xxx together with --deepspeed is not possible,
    deactivate one of those flags", Axolotl with a ValueError of its own.

    How sure: the checks are in the sources (transformers 4.57 and 5.24, Axolotl). Empty and false values count as off.
    """

    code = "PAR004"
    name = "fsdp-and-deepspeed"
    family = "parallel"
    severity = "error"
    catalogue = ("par.fsdp-and-deepspeed",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: ""
            deepspeed: ds.json
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            fsdp: full_shard auto_wrap
            deepspeed: ds.json
            """,
            at="fsdp",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        fsdp, deepspeed = self._on(job, "fsdp"), self._on(job, "deepspeed")
        if fsdp is None or deepspeed is None:
            return
        yield self.finding(
            "fsdp and deepspeed are both set: the trainer stops with a ValueError",
            (fsdp, "FSDP"),
            (deepspeed, "DeepSpeed"),
            help="keep one of the two",
            job=job,
        )

    def _on(self, job: TrainingJob, key: str) -> Fact[object] | None:
        for reading in trainer_readings(job):
            node = reading.at(key)
            if node is None or placeholder(reading.value(key)):
                continue
            if isinstance(node, Sequence):
                return Fact(None, reading.origin(key)) if node.items else None
            if isinstance(node, Mapping):
                return Fact(None, reading.origin(key)) if key == "deepspeed" and node.keys() else None
            if isinstance(node, Scalar):
                text = "" if node.value is None or node.value is False else str(node.value).strip().lower()
                return (
                    Fact(node.value, reading.origin(key)) if text not in ("", "false", "none", "null", "no") else None
                )
        return None
