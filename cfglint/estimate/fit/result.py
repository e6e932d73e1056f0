"""What a search for what fits finds: changes of settings, largest sizes, accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cfglint.estimate.result import Estimate, Interval

FITTING: Final = ("fits", "tight")
"""Verdicts of a job that runs as expected; ``fits`` alone holds with the high end of the estimate too."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key to set in the user's own files. ``key`` is dotted and as the dialect writes it; flags keep their dashes.

    ``path`` is the file that holds the key now, or whose dialect has it; empty for a file still to be written.
    """

    dialect: str
    key: str
    value: Any
    path: str = ""

    def words(self) -> str:
        """``key: value`` as YAML writes it, ``--key value`` for flags."""
        value = shown(self.value)
        if self.key.startswith("-"):
            return self.key if self.value is True else f"{self.key} {value}"
        return f"{self.key}: {value}"


def settings_words(settings: Sequence[Setting], primary: str = "") -> str:
    """Settings on one line: those of files that are there, with their file where it is not ``primary``; then what the
    files still to be written hold."""
    new = ", ".join(setting.words() for setting in settings if not setting.path)
    words = []
    for setting in settings:
        if not setting.path:
            continue
        text = setting.words()
        if new and setting.key.lstrip("-") == setting_of_new_file(settings):
            text, new = f"{text} ({new})", ""
        words.append(text + (f" ({setting.path})" if primary and setting.path != primary else ""))
    return ", ".join([*words, *([new] if new else [])])


def setting_of_new_file(settings: Sequence[Setting]) -> str:
    """The key that names a file still to be written: it is called like that file's dialect."""
    return next((setting.dialect for setting in settings if not setting.path), "")


def shown(value: Any) -> str:
    """A value as YAML writes it on one line."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


@dataclass(frozen=True)
class Change:
    """Settings that differ from the job's own, and what the job needs with them."""

    words: str
    facts: Mapping[str, Any]
    settings: tuple[Setting, ...]
    estimate: Estimate
    changes_training_result: bool = False
    cost: str = ""
    rank: float = 0.0
    """The lower, the cheaper: the order of changes of one kind."""
    parts: tuple[Change, ...] = ()
    """The single changes it is stacked from; empty for a single change."""
    freed: float | None = None
    """Serving: bytes that the KV cache gains, or that one request needs less."""

    @property
    def verdict(self) -> str:
        return self.estimate.memory.verdict

    @property
    def used(self) -> Interval | None:
        return self.estimate.memory.used

    @property
    def host(self) -> Interval | None:
        return self.estimate.memory.host

    def settings_words(self, primary: str = "") -> str:
        """The keys to set, or the change in words where no key is known."""
        return settings_words(self.settings, primary) or self.words


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest size that fits with the high end of the estimate, and as expected; 0 where not even 1 does.

    ``bounded``: the search stopped at its own bound, so that more may fit.
    """

    fits: int
    expected: int
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """The largest micro-batch that keeps the effective batch exactly, with its accumulation steps.

    ``sequences``: per data-parallel rank and optimizer step. ``remainder`` tells, where the largest micro-batch that
    fits does not divide them, what the nearest whole number of steps would make of them.
    """

    micro_batch_size: int
    gradient_accumulation_steps: int
    sequences: int
    remainder: int | None = None
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class OnAccelerator:
    """The fewest accelerators of one kind that carry the job. ``with_changes``: settings it then needs besides the count."""

    gpu: str
    usable: int
    """Bytes of one device."""
    gpus_per_node: int
    nodes: int
    estimate: Estimate
    change: Change | None = None
    stated: bool = False
    """The accelerator that the job states."""
    gradient_accumulation_steps: int | None = None
    """Where it must differ to keep the effective batch."""
    sequences: int | None = None
    """Sequences per optimizer step on that many."""
    lacks: str = ""
    """What the job's settings ask for and the accelerator does not have (``bf16``)."""

    @property
    def gpus(self) -> int:
        return self.gpus_per_node * self.nodes

    @property
    def verdict(self) -> str:
        return self.estimate.memory.verdict


@dataclass
class Fit:
    """Everything found for one job."""

    base: Estimate
    missing: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Facts that the largest sizes below rest on, where they are not the job's own."""
    micro_batch: Largest | None = None
    sequence_length: Largest | None = None
    model_limit: int | None = None
    """Tokens the model was made for (``max_position_embeddings``)."""
    kept_batch: KeptBatch | None = None
    changes: list[Change] = field(default_factory=list)
    """Single changes, the cheapest first, those that do not suffice at the end."""
    stacked: list[Change] = field(default_factory=list)
    """Changes that fit together where none does alone."""
    accelerators: list[OnAccelerator] = field(default_factory=list)
    too_small: list[str] = field(default_factory=list)
    """Accelerators on which no number tried carries the job."""
    spare: list[Change] = field(default_factory=list)
    """Where the job fits with room: settings that use it."""
    max_model_len: Largest | None = None
    tensor_parallel: Change | None = None
    """Serving: the smallest ``tensor_parallel_size`` that fits on the stated accelerator."""

    @property
    def fits(self) -> bool:
        return self.base.memory.verdict in FITTING
