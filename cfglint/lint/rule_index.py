"""An index of a package's rules: what choosing rules needs to know of each, so that only those that run are imported.

``rules/index.json`` is written by ``docs/build_rules.py``. It lists every module of the package with its size; modules
that were added or have another size since are imported, and so are rules that inherit from them: a rule that is being
written counts as it stands. Other packages have no index, their modules are all imported.
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


@dataclass(slots=True, eq=False)
class Index:
    """What is known of a package's rules. ``changed``: modules that have to be looked at."""

    heads: list[RuleHead]
    changed: list[str]


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
    rows = []
    for rule in sorted(rules, key=lambda rule: rule.code):
        head = head_of(rule)
        own = [c.__module__ for c in rule.__mro__ if c.__module__.startswith(f"{package}.")]
        row: dict[str, Any] = {
            "code": head.code,
            "name": head.name,
            "modules": [name.removeprefix(f"{package}.") for name in dict.fromkeys(own)],
            "class": head.class_name,
            "checks": head.checks,
        }
        if head.persona != "default":
            row["persona"] = head.persona
        if head.preview:
            row["preview"] = True
        if head.parameters:
            row["parameters"] = head.parameters
        rows.append(json.dumps(row))
    sizes = [f"{json.dumps(name)}: {size}" for name, size in sorted(module_sizes(folder).items())]
    modules, lines = ",\n  ".join(sizes), ",\n  ".join(rows)
    return f'{{"version": {VERSION},\n "modules": {{\n  {modules}\n }},\n "rules": [\n  {lines}\n ]}}\n'


def read_index(package: str, folder: str) -> Index | None:
    """The index of a package, or None where there is none that can be used."""
    try:
        with open(os.path.join(folder, INDEX_FILE), encoding="utf-8") as stream:
            content: Any = json.load(stream)
        if content["version"] != VERSION:
            return None
        listed, present = content["modules"], module_sizes(folder)
        changed = {name for name, size in present.items() if listed.get(name) != size}
        gone = {name for name in listed if name not in present}
        heads = []
        for row in content["rules"]:
            if changed or gone:
                files = [f"{name.replace('.', '/')}.py" for name in row["modules"]]
                if not gone.isdisjoint(files):
                    continue
                if not changed.isdisjoint(files):
                    changed.add(files[0])
                    continue
            heads.append(_head(package, row))
        return Index(heads, sorted(_module(package, name) for name in changed))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def module_sizes(folder: str) -> dict[str, int]:
    """Bytes of every module below a package's folder, by path from it (``batch/warmup_twice.py``).

    Raises:
        OSError: the package lies inside an archive.
    """
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


def _module(package: str, path: str) -> str:
    steps = path.removesuffix(".py").split("/")
    return ".".join([package, *(steps[:-1] if steps[-1] == "__init__" else steps)])


def _head(package: str, row: Mapping[str, Any]) -> RuleHead:
    return RuleHead(
        row["code"],
        row["name"],
        row.get("persona", "default"),
        row.get("preview", False),
        tuple(row["checks"]),
        tuple(row.get("parameters", ())),
        f"{package}.{row['modules'][0]}",
        row["class"],
    )
