"""A Megatron-LM run's arguments, and which of them can be told."""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.dialects.values import boolean, integer, number
from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.jobs.job import TrainingJob

OTHER_TRAINERS = ("hf_checkpoint", "advantage_estimator", "actor_num_gpus_per_node", "megatron_to_hf_mode", "deepspeed")
"""Arguments of programs that take Megatron's arguments and check them by rules of their own (slime, Megatron-DeepSpeed)."""


@dataclass(frozen=True)
class Arguments:
    """``whole``: every argument is in sight, so that what is absent takes its default."""

    reading: Reading
    whole: bool

    def given(self, key: str) -> bool:
        return self.reading.at(key) is not None

    def on(self, key: str) -> bool:
        return boolean(self.reading.value(key)) is True

    def integer(self, key: str) -> int | None:
        return integer(self.reading.value(key))

    def number(self, key: str) -> float | None:
        return number(self.reading.value(key))

    def size(self, key: str) -> int | None:
        """A parallel size: 1 where it is not given; None where its value cannot be told."""
        if not self.given(key):
            return 1 if self.whole else None
        value = self.integer(key)
        return value if value is not None and value > 0 else None

    def origin(self, key: str) -> FileOrigin:
        return self.reading.origin(key)


def arguments(job: TrainingJob) -> Arguments | None:
    """The arguments of a job that Megatron-LM itself trains."""
    reading = job.reading("megatron")
    if reading is None or reading.role != "run" or reading.context.get("trains") is False:
        return None
    if reading.context.get("layout") == "primus" or any(reading.at(key) is not None for key in OTHER_TRAINERS):
        return None
    return Arguments(reading, not reading.context.get("open_ended"))


def option(key: str) -> str:
    return "--" + key.replace("_", "-")
