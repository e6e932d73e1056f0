"""Framework versions: from requirements, project and lock files beside a config, image tags, settings."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from cfglint.source.whole_number import whole_number

DISTRIBUTIONS = {
    "transformers": "transformers",
    "trl": "trl",
    "peft": "peft",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "axolotl": "axolotl",
    "llamafactory": "llamafactory",
    "vllm": "vllm",
    "sglang": "sglang",
    "torch": "torch",
    "bitsandbytes": "bitsandbytes",
    "flash-attn": "flash-attn",
    "liger-kernel": "liger-kernel",
    "torchtune": "torchtune",
}
"""Distribution name to the framework's name here."""

_CLAUSE = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*v?(\d[\w.+-]*?)(\.\*)?\s*")
_REQUIREMENT = re.compile(
    r"^\s*[\"']?([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*((?:===|==|~=|!=|<=|>=|<|>)[^;#\"'\n]+)", re.MULTILINE
)
_LOCKED = re.compile(r'^name = "([^"]+)"\s*\nversion = "([^"]+)"', re.MULTILINE)
_TOO_MANY_DIGITS = re.compile(r"[0-9]{20}")
"""Dates (``20240115``) and commit numbers have fewer."""
REQUIREMENT_FILES = ("requirements.txt", "requirements-train.txt", "requirements-serve.txt", "constraints.txt")
PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
"""Files that list requirements one a line among other things; those of ``setup.py`` in quotes."""
LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock")
LOCK_LIMIT = 8_000_000
"""Bytes up to which lock and requirements files are read."""


def is_version(text: str) -> bool:
    """False for text that cannot be a version or a range of them: a number in it has more digits than any release, or it is
    what YAML's ``.nan`` and ``.inf`` come to."""
    return _TOO_MANY_DIGITS.search(text) is None and text.strip().lower().lstrip("+-") not in ("nan", "inf")


def is_range(text: str) -> bool:
    """Whether text is a version (``4.57.1``) or a range of them as requirements write it (``>=5,<6``)."""
    return is_version(text) and (
        exact(text) is not None or all(_CLAUSE.fullmatch(clause) for clause in text.rstrip(", ").split(","))
    )


def parse_requirements(text: str) -> dict[str, str]:
    """Framework to specifier (``==4.57.1``, ``>=5,<6``) for the frameworks that matter here."""
    found: dict[str, str] = {}
    for name, specifier in _REQUIREMENT.findall(text):
        framework = DISTRIBUTIONS.get(re.sub(r"[-_.]+", "-", name).lower())
        if framework is not None:
            found.setdefault(framework, specifier.strip().rstrip(","))
    return found


def parse_project(text: str) -> dict[str, str]:
    """The same from a ``pyproject.toml``: project and optional dependencies, dependency groups, Poetry's tables."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    lines: list[str] = []

    def gather(value: Any) -> None:
        if isinstance(value, str):
            lines.append(value)
        elif isinstance(value, list):
            for item in value:
                gather(item)
        elif isinstance(value, dict):
            for item in value.values():
                gather(item)

    project = table.get("project")
    if isinstance(project, dict):
        gather(project.get("dependencies"))
        gather(project.get("optional-dependencies"))
    gather(table.get("dependency-groups"))
    tool = table.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    declared = poetry.get("dependencies") if isinstance(poetry, dict) else None
    for name, constraint in declared.items() if isinstance(declared, dict) else ():
        if isinstance(constraint, str) and constraint[:1].isdigit():
            lines.append(f"{name}=={constraint}")
        elif isinstance(constraint, str) and constraint[:1] in "<>=~!":
            lines.append(f"{name}{constraint}")
    return parse_requirements("\n".join(lines))


@lru_cache(maxsize=4096)
def versions_beside(folder: Path, root: Path) -> tuple[tuple[str, str], ...]:
    """Versions that files in ``folder`` or the folders above it up to ``root`` state; the nearest file wins."""
    found: dict[str, str] = {}
    here = folder
    while True:
        for name in LOCK_FILES:
            text = _read(here / name)
            if text:
                for package, version in _LOCKED.findall(text):
                    framework = DISTRIBUTIONS.get(package.lower())
                    if framework is not None:
                        found.setdefault(framework, f"=={version}")
        for name in (*REQUIREMENT_FILES, *PROJECT_FILES):
            text = _read(here / name)
            if text:
                stated = parse_project(text) if name.endswith(".toml") else parse_requirements(text)
                for framework, specifier in stated.items():
                    found.setdefault(framework, specifier)
        if here == root or root not in here.parents:
            return tuple(found.items())
        here = here.parent


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8") if path.is_file() and path.stat().st_size <= LOCK_LIMIT else None
    except (OSError, UnicodeDecodeError):
        return None


def always_at_least(stated: str | None, version: str) -> bool | None:
    """Whether every version that ``stated`` allows is at least ``version``; None where that is not decided."""
    low, _ = _bounds(stated)
    if low is None:
        return False if always_below(stated, version) else None
    if _key(low) >= _key(version):
        return True
    return False if always_below(stated, version) else None


def always_below(stated: str | None, version: str) -> bool:
    """True where ``stated`` allows only versions below ``version``."""
    _, high = _bounds(stated)
    if high is None:
        return False
    limit, included = high
    return _key(limit) < _key(version) or (_key(limit) == _key(version) and not included)


def exact(stated: str | None) -> str | None:
    """The single version stated (``4.57.1`` or ``==4.57.1``), or None for a range."""
    if not stated:
        return None
    text = stated.strip()
    match = re.fullmatch(r"(?:===?\s*)?v?(\d[\w.+-]*)", text)
    return match.group(1) if match and "*" not in text else None


def in_words(stated: str | None) -> str:
    """A stated version for a message: ``4.57.1`` for ``==4.57.1``, a range as it is written."""
    return exact(stated) or (stated or "").strip()


def _bounds(stated: str | None) -> tuple[str | None, tuple[str, bool] | None]:
    """Lowest version allowed, and the highest with whether it is included."""
    single = exact(stated)
    if single is not None:
        return single, (single, True)
    low: str | None = None
    high: tuple[str, bool] | None = None
    for clause in (stated or "").split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None or match[1] == "!=":
            continue
        operator, version, star = match.groups()
        if operator in (">=", ">", "~=") or (operator == "==" and star):
            low = version if low is None or _key(version) > _key(low) else low
        if operator in ("<", "<="):
            candidate = (version, operator == "<=")
            high = candidate if high is None or _key(version) < _key(high[0]) else high
        if operator == "~=" or (operator == "==" and star):
            parts = version.split(".")
            if star:
                parts.append("0")
            last = whole_number(parts[-2]) if len(parts) >= 2 else None
            if last is not None:
                ceiling = ".".join([*parts[:-2], str(last + 1)])
                high = (ceiling, False) if high is None or _key(ceiling) < _key(high[0]) else high
    return low, high


def _key(version: str) -> tuple[int, ...]:
    """Release numbers for comparing; a local or pre-release part is left out."""
    numbers = [int(n) for n in re.findall(r"\d+", re.split(r"(?:rc|dev|a|b|\+|post|-)", version)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
