"""Reads a job's facts for a plan, remembering where each came from, what was assumed, and what cannot be."""

from __future__ import annotations

from typing import Any

from cfglint.estimate.result import Input
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob


class Reader:
    """One job's facts. ``loose`` names what was assumed and moves the result."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.inputs: dict[str, Input] = {}
        self.assumptions: list[str] = []
        self.missing: list[str] = []
        self.problems: list[str] = []
        self.loose: set[str] = set()

    def note(self, name: str, value: object, origin: str) -> None:
        self.inputs[name] = Input(name, _words(value), origin)

    def get(self, name: str, default: Any = None, why: str = "", loose: bool = False) -> Any:
        fact: Fact[Any] | None = self.job.fact(name)
        if fact is not None and fact.value is not None:
            self.note(name, fact.value, fact.describe())
            return fact.value
        if default is not None and why:
            self.note(name, default, why)
            known = "known" if self.job.undecided(name) else "stated"
            self.assumptions.append(f"{name} is not {known}: {_words(default)} ({why})")
        if loose:
            self.loose.add(name)
        return default

    def count(self, name: str, default: int | None, why: str = "", loose: bool = False) -> int | None:
        """A whole number of at least 1; anything else is a problem that is named."""
        value = self.get(name, default, why, loose)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or value < 1
            or value != int(value)
        ):
            self.problems.append(f"{name} is {value!r}: it must be a whole number of at least 1")
            self.missing.append(name)
            return None
        return int(value)

    def text(self, name: str, default: str | None = None, why: str = "", loose: bool = False) -> str | None:
        value = self.get(name, default, why, loose)
        return value.strip().lower() if isinstance(value, str) else (default if value is not None else None)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name)
        return value if isinstance(value, bool) else default


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
