"""Which rules run."""

import pytest

from cfglint.lint.rule import Parameter, Rule
from cfglint.lint.selection import RuleSelection, check_settings, rule_options, severity_of, unknown_selectors
from cfglint.settings import Settings, SettingsError


class Memory(Rule):
    code, name = "MEM001", "training-out-of-memory"
    parameters = {"margin": Parameter(0.05, "share of memory to keep free")}


class Serving(Rule):
    code, name = "MEM002", "serving-out-of-memory"


class Precision(Rule):
    code, name, preview = "PRC001", "fp16-overflow", True


class Careful(Rule):
    code, name, persona = "STY001", "default-stated", "strict"


RULES = {rule.code: rule for rule in (Memory, Serving, Precision, Careful)}


def chosen(settings: Settings | None = None, **flags: object) -> set[str]:
    return set(RuleSelection(**flags).chosen(RULES, settings or Settings()))  # type: ignore[arg-type]


def test_default_is_all_stable_rules() -> None:
    assert chosen() == {"MEM001", "MEM002"}
    assert chosen(strict=True) == {"MEM001", "MEM002", "STY001"}
    assert chosen(preview=True) == {"MEM001", "MEM002", "PRC001"}


def test_the_more_exact_selector_wins() -> None:
    assert chosen(Settings(select=("MEM",), ignore=("MEM002",))) == {"MEM001"}
    assert chosen(Settings(select=("MEM002",), ignore=("MEM",))) == {"MEM002"}
    assert chosen(Settings(select=("MEM",), ignore=("MEM",))) == set()


def test_names_select_like_codes() -> None:
    assert chosen(select=("serving-out-of-memory",)) == {"MEM002"}


def test_naming_a_rule_exactly_lifts_preview_and_strict() -> None:
    assert chosen(extend_select=("PRC001", "default-stated")) == {"MEM001", "MEM002", "PRC001", "STY001"}
    assert chosen(extend_select=("PRC", "STY")) == {"MEM001", "MEM002"}


def test_command_line_counts_over_settings() -> None:
    settings = Settings(select=("MEM",), ignore=("MEM002",))
    assert chosen(settings, select=("MEM002",)) == {"MEM002"}
    assert chosen(settings, select=("MEM",)) == {"MEM001"}
    assert chosen(settings, ignore=("MEM",)) == set()
    assert chosen(settings, ignore=("MEM",), extend_select=("MEM001",)) == {"MEM001"}


def test_unknown_selectors_are_errors_with_a_suggestion() -> None:
    assert unknown_selectors(["MEM", "ALL", "MEM009", "MEM0011"], RULES) == ["MEM009", "MEM0011"]
    with pytest.raises(
        SettingsError, match=r"pyproject.toml: `ignore`: no rule is called `MEM0011`; did you mean `MEM0"
    ):
        check_settings(Settings(path="pyproject.toml", ignore=("MEM0011",)), RULES)
    with pytest.raises(SettingsError, match="MEM001 has no parameter `margn`; did you mean `margin`"):
        check_settings(Settings(path="a.toml", rules={"MEM001": {"margn": 1}}), RULES)
    check_settings(Settings(path="a.toml", rules={"training-out-of-memory": {"margin": 0.1}}), RULES)


def test_severity_and_parameters_by_code_or_name() -> None:
    finding = Memory().finding("too much")
    assert severity_of(finding, Settings()) == "warning"
    assert severity_of(finding, Settings(severity={"MEM": "info", "MEM001": "error"})) == "error"
    assert rule_options(Memory, Settings(rules={"training-out-of-memory": {"margin": 0.1}})) == {"margin": 0.1}
