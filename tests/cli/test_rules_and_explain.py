"""``rules``, ``explain`` and the pages made of the same classes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from cfglint.cli.main import main
from cfglint.lint.rule import Parameter, Rule, example
from cfglint.report.rule_pages import plain_page, rule_page, rules_as_table

ROOT = Path(__file__).parents[2]


class Sample(Rule):
    """Sample is wrong.

    It fails at the first step.

    How sure: the source says so.
    """

    code, name, family, severity, fixable = "TST001", "sample", "test", "error", "unsafe"
    evidence = ("https://example.org",)
    parameters = {"margin": Parameter(0.05, "share to keep free")}
    bad = (example("a.yaml", "a: 1", gpu="T4", gpus=2, note="A first try:"),)
    good = (example({"a.json": '{"a": 2}', "b.sh": "run"}),)


def test_a_page_has_every_heading() -> None:
    page = rule_page(Sample)
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == [
        "# TST001 sample", "## Why", "## How sure", "## Bad", "## Good", "## Parameters", "## Fix", "## Silence",
        "## Evidence",
    ]  # fmt: skip
    assert "The source says so." in page and "How sure: " not in page
    assert "A first try:\n\n`a.yaml`, on gpu=T4 gpus=2:\n\n```yaml\na: 1\n```" in page
    assert "- `margin` (default `0.05`): share to keep free" in page
    assert "cfglint: ignore[TST001]" in page
    assert "```" not in plain_page(page) and "    a: 1" in plain_page(page)


def test_the_table_links_to_the_pages() -> None:
    assert "| [TST001](docs/TST001.md) | sample | error | Sample is wrong | unsafe |" in rules_as_table(
        [Sample], "docs/"
    )


def test_rules_as_the_contract_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    by_code = {rule["code"]: rule for rule in content["rules"]}
    assert content["version"] == 1
    assert {"SUP001", "SUP002", "INT001", "SRC001"} <= set(by_code)
    wanted = {
        "code",
        "name",
        "family",
        "severity",
        "confidence",
        "summary",
        "fixable",
        "since",
        "preview",
        "kinds",
        "url",
    }
    assert all(wanted <= set(rule) for rule in by_code.values())
    assert by_code["SUP001"]["fixable"] == "safe"


def test_explain_by_code_and_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sup001"]) == 0
    shown = capsys.readouterr().out
    assert main(["explain", "unused-ignore"]) == 0
    assert capsys.readouterr().out == shown
    assert shown.startswith("SUP001 unused-ignore\n")
    assert main(["explain", "SUP009"]) == 2
    assert "did you mean `SUP00" in capsys.readouterr().err


def test_every_rule_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "json"]) == 0
    for rule in json.loads(capsys.readouterr().out)["rules"]:
        assert main(["explain", rule["code"], "--format", "markdown"]) == 0
        page = capsys.readouterr().out
        assert page.startswith(f"# {rule['code']} {rule['name']}\n") and "## Silence" in page


def test_generated_pages_are_not_stale() -> None:
    specification = importlib.util.spec_from_file_location("build_rules", ROOT / "docs" / "build_rules.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    stale = [
        path.name
        for path, text in module.pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run docs/build_rules.py"
