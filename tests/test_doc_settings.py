"""Settings that the pages show can be pasted into a settings file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cfglint.settings import read_settings

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/settings.md", "examples/plugin/README.md")


def _blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        found += [(page, block) for block in re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    return found


@pytest.mark.parametrize("name", ("cfglint.toml", "pyproject.toml"))
@pytest.mark.parametrize(("page", "block"), _blocks())
def test_examples_are_settings(tmp_path: Path, page: str, block: str, name: str) -> None:
    file = tmp_path / name
    file.write_text(block, encoding="utf-8")
    settings = read_settings(file)
    assert settings.targets or settings.rules, page


def test_every_page_shows_settings() -> None:
    assert {page for page, _ in _blocks()} == set(PAGES)


def test_the_page_of_settings_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build_settings.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
