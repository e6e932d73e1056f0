"""An index of a package's rules: what choosing rules needs to know of each, so that only those that run are imported.

``rules/index.json`` is written by ``docs/build_rules.py``. It lists every module of the package with its size; where a
module was added, removed or has another size since, the index is passed over and all modules are imported: a rule that
is being written is seen at once, only later. Other packages have no index, their modules are all imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cfglint.lint.finding import Persona
from cfglint.lint.rule import Rule

INDEX_FILE: Final = "index.json"
VERSION: Final = 1

CHECKS: Final = ("check_file", "check_reading", "check_training", "check_serving")
"""The methods that a rule may override; each is called with one kind of subject."""


@dataclass(slots=True, eq=False)
class RuleHead:
    """What is known of a rule without its module. ``checks``: the methods it overrides; ``parameters``: their names."""

    code: str
    name: str
    persona: Persona
    preview: bool
    checks: tuple[str, ...]
    parameters: tuple[str, ...]
    module: str
    class_name: str


def head_of(rule: type[Rule]) -> RuleHead:
    """The head of a rule that is imported."""
    return RuleHead(
        rule.code,
        rule.name,
        rule.persona,
        rule.preview,
        tuple(check for check in CHECKS if getattr(rule, check) is not getattr(Rule, check)),
        tuple(rule.parameters),
        rule.__module__,
        rule.__qualname__,
    )


def index_text(package: str, folder: str, rules: Iterable[type[Rule]]) -> str:
    """The index of a package as it is written. ``folder`` is the package's."""
    rows = [
        {
            "code": head.code,
            "name": head.name,
            "persona": head.persona,
            "preview": head.preview,
            "checks": head.checks,
            "parameters": head.parameters,
            "module": head.module.removeprefix(f"{package}."),
            "class": head.class_name,
        }
        for head in sorted(map(head_of, rules), key=lambda head: head.code)
    ]
    sizes = ",\n".join(f"  {json.dumps(name)}: {size}" for name, size in sorted(module_sizes(folder).items()))
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f'{{"version": {VERSION},\n "modules": {{\n{sizes}\n }},\n "rules": [\n{lines}\n ]}}\n'


def read_index(package: str, folder: str) -> list[RuleHead] | None:
    """The heads of a package's rules, or None where there is no index, or one of other modules than are there."""
    try:
        with open(os.path.join(folder, INDEX_FILE), encoding="utf-8") as stream:
            content: Any = json.load(stream)
        if content["version"] != VERSION or content["modules"] != module_sizes(folder):
            return None
        return [_head(package, row) for row in content["rules"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def module_sizes(folder: str) -> dict[str, int]:
    """Bytes of every module below a package's folder, by path from it. Raises OSError (a package inside an archive)."""
    sizes: dict[str, int] = {}
    open_folders = [("", folder)]
    while open_folders:
        prefix, here = open_folders.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(".py"):
                    sizes[prefix + name] = entry.stat().st_size
                elif "." not in name and name != "__pycache__" and entry.is_dir():
                    open_folders.append((f"{prefix}{name}/", entry.path))
    return sizes


def _head(package: str, row: Mapping[str, Any]) -> RuleHead:
    return RuleHead(
        row["code"],
        row["name"],
        row["persona"],
        row["preview"],
        tuple(row["checks"]),
        tuple(row["parameters"]),
        f"{package}.{row['module']}",
        row["class"],
    )
