"""The import floors of the house: a module imports only from its own floor's rooms or from what stands below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOORS: list[set[str]] = [
    {"cfglint", "cfglint.formulas", "cfglint.precision", "cfglint.source", "cfglint.catalog"},
    {"cfglint.jobs"},
    {"cfglint.dialects", "cfglint.estimate"},
    {
        "cfglint.settings",
        "cfglint.settings_table",
        "cfglint.discovery",
        "cfglint.snapshot",
        "cfglint.lint",
        "cfglint.testing",
    },
    {"cfglint_rules"},
    {"cfglint.report", "cfglint.cli", "cfglint.editor", "cfglint.__main__"},
]
"""Rooms by floor, the lowest first. Every module of the package belongs to exactly one room."""


def _modules() -> Iterator[tuple[str, Path]]:
    for package, folder in (("cfglint", ROOT / "cfglint"), ("cfglint_rules", ROOT / "rules")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *(p for p in parts if p != "__init__")])
            yield name, path


def _floor(module: str) -> int | None:
    best: tuple[int, int] | None = None
    for level, rooms in enumerate(FLOORS):
        for room in rooms:
            if (module == room or module.startswith(room + ".")) and (best is None or len(room) > best[0]):
                best = (len(room), level)
    if best is not None and module.startswith("cfglint.") and best[0] == len("cfglint"):
        return None
    return best[1] if best else None


def _imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    is_package = path.name == "__init__.py"
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                base = node.module or ""
            else:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*parts, *((node.module,) if node.module else ())])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


@pytest.mark.parametrize(("module", "path"), list(_modules()), ids=lambda v: v if isinstance(v, str) else "")
def test_imports_only_from_own_floor_or_below(module: str, path: Path) -> None:
    own = _floor(module)
    assert own is not None, f"{module} stands on no floor: add its room to FLOORS"
    for line, imported in _imports(path, module):
        if not imported.startswith(("cfglint.", "cfglint_rules")):
            continue
        floor = _floor(imported)
        if floor is None:
            continue
        assert floor <= own, f"{path.relative_to(ROOT)}:{line} imports {imported}, which stands above it"


def test_a_module_of_the_lowest_floor_may_not_import_a_higher_one() -> None:
    """The test itself tells floors apart."""
    assert _floor("cfglint.source.yaml") == 0
    assert _floor("cfglint.jobs.linker") == 1
    assert _floor("cfglint.estimate.training.plan") == 2
    assert _floor("cfglint_rules.memory.out_of_memory") == 4
    assert _floor("cfglint.unheard_of") is None


def test_rules_import_nothing_absolute_from_their_own_package() -> None:
    """``rules/`` is a plugin package like any other: inside it imports are relative."""
    for path in sorted((ROOT / "rules").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert not (node.module or "").startswith("cfglint_rules"), path
