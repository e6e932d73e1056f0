"""Engine laws by version: data with the range each holds for, and the reading of versions as people write them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Release = tuple[int, ...]

_DATED = re.compile(r"^20\d\d[-.]\d\d")
_TENS = re.compile(r"^v?(\d+)\.(\d)x\b")
_ANY_PATCH = re.compile(r"^v?(\d+)\.(\d+)\.[xX*]")
LAST_PATCH = 99
_EXACT = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_UPPER_ONLY = re.compile(r"^\s*<=?\s*\d")
_BUILD = re.compile(r"^(?:\S*-)?b(\d{3,6})$")
"""llama.cpp numbers its builds: ``b4719``, an image's tag ``server-cuda-b4719``."""


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """``release`` selects laws; ``text`` is what was written. ``exact`` is False where it is a range or a guess."""

    release: Release | None
    text: str
    exact: bool


def read_version(text: str | None) -> EngineVersion:
    """Read ``0.19.0``, ``0.6.x``, ``0.2x`` (0.20 to 0.29), ``>=0.17``, ``0.25-0.26``, ``0.26.1rc1.dev608``, ``b4719``.

    Dates and fork names select no release. A range selects its lower end; ``0.6.x`` the last patch of 0.6.
    """
    if not text or _DATED.match(text.strip()):
        return EngineVersion(None, text or "", False)
    text = text.strip()
    if build := _BUILD.match(text):
        return EngineVersion((int(build[1]),), text, True)
    if tens := _TENS.match(text):
        return EngineVersion((int(tens[1]), int(tens[2]) * 10), text, False)
    if patches := _ANY_PATCH.match(text):
        return EngineVersion((int(patches[1]), int(patches[2]), LAST_PATCH), text, False)
    found = _EXACT.search(text)
    if found is None or _UPPER_ONLY.match(text):
        return EngineVersion(None, text, False)
    release = tuple(int(part) for part in found.groups() if part is not None)
    exact = re.fullmatch(r"(==|v)?\s*\d+\.\d+(\.\d+)?([.-]?(post|rc|dev|a|b)\d*)*(\+\S+)?", text) is not None
    return EngineVersion(release, text, exact)


def _release(text: str) -> Release:
    return tuple(int(part) for part in text.split("."))


@dataclass(frozen=True, slots=True)
class Law:
    value: Any
    source: str


class EngineLaws:
    """The laws of one engine, from ``data/<engine>.json``."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.newest = raw["newest"]
        self._laws: dict[str, list[tuple[Release, Release | None, Law]]] = {
            name: [
                (
                    _release(row["since"]) if "since" in row else (),
                    _release(row["until"]) if "until" in row else None,
                    Law(row["value"], row["source"]),
                )
                for row in rows
            ]
            for name, rows in raw["laws"].items()
        }
        self._constants = raw.get("constants", {})

    def law(self, name: str, version: EngineVersion) -> Law:
        """The law in force; the newest where the version is not known."""
        rows = self._laws[name]
        if version.release is not None:
            for since, until, law in rows:
                if since <= version.release and (until is None or version.release < until):
                    return law
        return rows[-1][2]

    def value(self, name: str, version: EngineVersion) -> Any:
        return self.law(name, version).value

    def oldest_value(self, name: str) -> Any:
        return self._laws[name][0][2].value

    def newest_value(self, name: str) -> Any:
        return self._laws[name][-1][2].value

    def constant(self, name: str) -> Any:
        return self._constants[name]["value"]

    def newer_than_known(self, version: EngineVersion) -> bool:
        if version.release is None:
            return False
        newest = _release(self.newest)
        release = version.release[:-1] if version.release[-1] == LAST_PATCH else version.release
        return release[: len(newest)] > newest


@cache
def _data(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "data" / name).read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def engine_laws(engine: str) -> EngineLaws:
    """Laws of an engine by its name in the contract (``llama.cpp`` has its file without the point)."""
    return EngineLaws(_data(f"{engine.replace('.', '')}.json"))


def quantization_data() -> dict[str, Any]:
    """Bits per weight by scheme; see ``data/quantization.json``."""
    return _data("quantization.json")


def rotary_data() -> dict[str, Any]:
    """Share of a head that is rotated, by ``model_type``; see ``data/rotary.json``."""
    return _data("rotary.json")


def vision_data() -> dict[str, Any]:
    """Image tokens and encoder kinds by ``model_type``; see ``data/vision.json``."""
    return _data("vision.json")
