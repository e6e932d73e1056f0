"""The package list in pyproject.toml names every package there is, and the version is one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import cfglint

ROOT = Path(__file__).parents[1]


def _listed() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(r"^packages = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    return set(re.findall(r'"([\w.]+)"', block.group(1)))


def _present() -> set[str]:
    found = set()
    for package, folder in (("cfglint", ROOT / "cfglint"), ("cfglint_rules", ROOT / "rules")):
        for init in folder.rglob("__init__.py"):
            found.add(".".join([package, *init.parent.relative_to(folder).parts]))
    return found


def test_package_list_is_complete() -> None:
    assert _listed() == _present()


def test_every_folder_with_modules_is_a_package() -> None:
    for folder in (ROOT / "cfglint", ROOT / "rules"):
        for module in folder.rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_version_on_the_command_line() -> None:
    for command in ([sys.executable, "-m", "cfglint", "--version"],):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"cfglint {cfglint.__version__}"
