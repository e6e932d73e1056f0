"""Every rule's good and bad examples, docstring and evidence: the examples are the tests."""

from __future__ import annotations

import re

import pytest

from cfglint.lint.registry import load_rules
from cfglint.lint.rule import Rule
from cfglint.testing import check_examples

RULES = load_rules()


@pytest.mark.parametrize("code", sorted(RULES))
def test_examples(code: str) -> None:
    rule = RULES[code]
    if engine_made(rule):
        pytest.skip("found by the engine itself; tested in tests/lint")
    check_examples(rule)


@pytest.mark.parametrize("code", sorted(RULES))
def test_rule_is_well_formed(code: str) -> None:
    rule = RULES[code]
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name), rule.name
    assert rule.severity in ("error", "warning", "info")
    assert rule.confidence in ("high", "medium", "low")
    assert rule.kinds and set(rule.kinds) <= {"train", "serve", "file"}
    assert 15 <= len(rule.summary()) <= 110, rule.summary()
    assert "How sure" in rule.explanation(), "a docstring says how sure the rule is"
    assert engine_made(rule) or rule.evidence, "a rule shows its evidence"
    assert all(link.startswith("https://") for link in rule.evidence)


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES.values()]
    assert len(names) == len(set(names))


def test_one_rule_per_file() -> None:
    modules = [rule.__module__ for rule in RULES.values()]
    assert len(modules) == len(set(modules))


def engine_made(rule: type[Rule]) -> bool:
    """Rules whose findings the engine makes: they have no check of their own."""
    return all(
        getattr(rule, method) is getattr(Rule, method)
        for method in ("check_file", "check_reading", "check_training", "check_serving")
    )
