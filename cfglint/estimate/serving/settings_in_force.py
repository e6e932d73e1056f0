"""A serving job's settings in force: the facts stated, or the engine's default, each remembered with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cfglint.estimate.result import Input
from cfglint.jobs.job import ServingJob

_SUFFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""vLLM's argument parser: small letters are decimal, capital ones binary."""
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


class SettingsInForce:
    """Reads facts by their name, then the engine's other arguments, then a default; keeps what was read."""

    def __init__(self, job: ServingJob, engine: str, *, format_in_name: str | None = None) -> None:
        self.job = job
        self.engine = engine
        self.format_in_name = format_in_name
        """Quantization that the checkpoint's name states, where nothing else does."""
        self.assumptions: list[str] = []
        self.unreadable: dict[str, str] = {}
        """Settings whose value is not of the kind that the engine reads."""
        self._inputs: dict[str, Input] = {}
        raw = job.value("engine_args")
        self.arguments: dict[str, Any] = (
            {str(k).lstrip("-").replace("-", "_"): v for k, v in raw.items()} if isinstance(raw, Mapping) else {}
        )

    def _found(self, names: tuple[str, ...]) -> tuple[str, Any, str] | None:
        for name in names:
            fact = self.job.fact(name)
            if fact is not None:
                return name, fact.value, fact.describe()
        for name in names:
            if self.arguments.get(name) is not None:
                fact = self.job.fact("engine_args")
                return name, self.arguments[name], fact.describe() if fact else ""
        return None

    def raw(self, *names: str) -> Any:
        found = self._found(names)
        if found is None:
            return None
        name, value, origin = found
        self._inputs[names[0]] = Input(name, str(value), origin)
        return value

    def note_default(self, name: str, value: Any, note: str = "") -> None:
        """Remember that the engine's default is used."""
        self._inputs[name] = Input(name, str(value), f"{self.engine}{' ' + note if note else ''} default")

    def integer(self, *names: str) -> int | None:
        """A whole number, also as ``32k`` (32,000) or ``32K`` (32,768); what cannot be read is remembered."""
        value = self.number(*names)
        return None if value is None else int(value)

    def positive(self, *names: str) -> int | None:
        value = self.integer(*names)
        if value is not None and value <= 0:
            self.unreadable[names[0]] = str(value)
            return None
        return value

    def number(self, *names: str) -> float | None:
        value = self.raw(*names)
        if value is None:
            return None
        number = read_number(value)
        if number is None:
            self.unreadable[names[0]] = str(value)
        return number

    def boolean(self, *names: str, default: bool = False) -> bool:
        value = self.raw(*names)
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        return True if text in _TRUE else False if text in _FALSE else default

    def text(self, *names: str) -> str | None:
        value = self.raw(*names)
        return None if value is None else str(value)

    def inputs(self, *names: str) -> tuple[Input, ...]:
        """What was read under these names, for a component's inputs."""
        return tuple(self._inputs[name] for name in names if name in self._inputs)

    def assume(self, text: str) -> None:
        if text not in self.assumptions:
            self.assumptions.append(text)


def read_number(value: Any) -> float | None:
    """A finite number from a number or a text such as ``8192``, ``1e3``, ``32k``; None from anything else."""
    if isinstance(value, bool):
        return None
    factor = 1.0
    if isinstance(value, str):
        value = value.strip()
        if value[-1:] in _SUFFIXES and value[:-1]:
            factor, value = _SUFFIXES[value[-1]], value[:-1]
    if not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value) * factor
    except (ValueError, OverflowError):
        return None
    return number if number == number and abs(number) != float("inf") else None
