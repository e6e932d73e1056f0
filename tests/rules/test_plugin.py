"""The example plugin: found through its entry point where it is installed, and by name through settings everywhere."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from cfglint.lint.registry import PluginError, load_rules
from cfglint.testing import lint_files

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
CODES = ("ACM001", "ACM002")
RUN = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 8\nnum_train_epochs: 12\nreport_to: none\n"
BY_NAME = 'plugins = ["example_rules"]\n'


def installed() -> bool:
    try:
        distribution("cfglint-example-rules")
    except PackageNotFoundError:
        return False
    return True


needs_installation = pytest.mark.skipif(
    not installed(), reason="the example plugin is not installed: pip install ./examples/plugin"
)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin's folder on the import path, as when a project's own environment holds its rules."""
    if not installed():
        monkeypatch.syspath_prepend(str(PLUGIN))
        for name in [name for name in sys.modules if name.split(".")[0] == "example_rules"]:
            monkeypatch.delitem(sys.modules, name)


@needs_installation
def test_installed_plugin_is_loaded_without_being_named() -> None:
    rules = load_rules()
    assert [rules[code].__module__ for code in CODES] == ["example_rules.tracked_runs", "example_rules.epoch_budget"]


@needs_installation
def test_installed_plugin_runs_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text(RUN, "utf-8")
    command = [sys.executable, "-m", "cfglint", "check", "--format", "json", "--select", "ACM", "sft.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert sorted((f["code"], f["severity"]) for f in found) == [("ACM001", "warning"), ("ACM002", "error")]


@needs_installation
def test_installed_plugin_is_listed_and_explained() -> None:
    for command, expected in (("rules", "ACM001"), ("explain", "epoch-budget")):
        arguments = [sys.executable, "-m", "cfglint", command, *(["ACM002"] if command == "explain" else [])]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@needs_installation
def test_the_plugin_passes_its_own_tests() -> None:
    done = subprocess.run([sys.executable, "-m", "pytest", str(PLUGIN)], capture_output=True, text=True, cwd=PLUGIN)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.usefixtures("importable")
def test_plugin_named_in_settings_finds_at_its_keys() -> None:
    result = lint_files({"sft.yaml": RUN, "cfglint.toml": BY_NAME}, select=("ACM",))
    assert [(f.code, f.severity, f.key) for f in result.findings] == [
        ("ACM002", "error", "num_train_epochs"),
        ("ACM001", "warning", "report_to"),
    ]
    assert "SRC001" in result.rules and set(CODES) <= set(result.rules)


@pytest.mark.usefixtures("importable")
def test_rule_parameters_of_a_plugin_come_from_settings() -> None:
    settings = BY_NAME + "\n[rules.ACM002]\nmax-epochs = 20\n\n[rules.untracked-run]\ntrackers = ['none']\n"
    assert lint_files({"sft.yaml": RUN, "cfglint.toml": settings}, select=("ACM",)).findings == []


@pytest.mark.usefixtures("importable")
def test_plugin_findings_are_silenced_like_others() -> None:
    text = RUN.replace("12\n", "12  # cfglint: ignore[ACM002] small data set\n")
    result = lint_files({"sft.yaml": text, "cfglint.toml": BY_NAME}, select=("ACM", "SUP"))
    assert [(f.code, f.suppressed) for f in result.findings] == [("ACM002", "comment"), ("ACM001", None)]


@pytest.mark.usefixtures("importable")
def test_every_rule_of_the_plugin_has_its_examples_checked() -> None:
    for code in CODES:
        rule = load_rules(["example_rules"])[code]
        for shown in rule.bad:
            files = {**shown.files, "cfglint.toml": BY_NAME}
            assert code in [f.code for f in lint_files(files, select=(code,)).findings], shown.files
        for shown in rule.good:
            files = {**shown.files, "cfglint.toml": BY_NAME + shown.files.get("cfglint.toml", "")}
            assert lint_files(files, select=(code,)).findings == [], shown.files


def test_plugin_that_is_not_there_is_named_in_the_error() -> None:
    with pytest.raises(PluginError, match="'no_such_rules' cannot be loaded: ModuleNotFoundError"):
        load_rules(["no_such_rules"])


def test_two_plugins_cannot_share_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from cfglint.lint.rule import Rule\nclass Taken(Rule):\n    code = 'SRC001'\n    name = 'taken'\n"
    (tmp_path / "greedy_rules.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(PluginError, match="SRC001 is taken twice"):
        load_rules(["greedy_rules"])
