"""Whoever reads a finding is told what to do about it."""

from __future__ import annotations

import ast
from pathlib import Path

RULES = Path(__file__).parents[2] / "rules"


def _without_help(source: str) -> list[int]:
    """Lines that make a finding and say nothing of what to do."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "finding"
        and not {"help", None} & {keyword.arg for keyword in call.keywords}
    ]


def test_every_finding_has_help() -> None:
    found = {str(path.relative_to(RULES)): _without_help(path.read_text("utf-8")) for path in RULES.rglob("*.py")}
    assert len(found) > 300
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_finding_without_help_is_seen() -> None:
    assert _without_help("self.finding('a', place)\nself.finding('b', place, help='do c')\n") == [1]
