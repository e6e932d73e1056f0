"""Framework versions from the files beside a config, and what a specifier decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.jobs.versions import always_at_least, always_below, exact, parse_requirements, versions_beside

REQUIREMENTS = """\
# training
transformers==4.51.3
deepspeed[sparse] >= 0.16.4, < 0.18  # pinned by hand
flash_attn==2.7.4 ; platform_system == "Linux"
-r more.txt
trl
numpy==1.26
"""


def test_each_line_states_its_own() -> None:
    assert parse_requirements(REQUIREMENTS) == {
        "transformers": "==4.51.3",
        "deepspeed": ">= 0.16.4, < 0.18",
        "flash-attn": "==2.7.4",
    }


def test_project_tables_and_lock_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["transformers>=5,<6", "peft==0.18.0"]\n')
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "trl"\nversion = "1.2.0"\n')
    inner = tmp_path / "configs"
    inner.mkdir()
    (inner / "requirements.txt").write_text("peft==0.17.0\n")
    versions_beside.cache_clear()
    assert dict(versions_beside(inner, tmp_path)) == {"peft": "==0.17.0", "trl": "==1.2.0", "transformers": ">=5,<6"}


@pytest.mark.parametrize(
    ("stated", "version", "answer"),
    [
        (">=5,<6", "5.0", True),
        (">=4,<6", "5.0", None),
        ("<5", "5.0", False),
        ("==4.57.*", "4.58", False),
        ("~=4.57.0", "4.57", True),
        ("4.57.1", "4.57", True),
        (None, "5", None),
        ("latest", "5", None),
    ],
)
def test_at_least(stated: str | None, version: str, answer: bool | None) -> None:
    assert always_at_least(stated, version) is answer


def test_below_and_exact() -> None:
    assert always_below("~=4.57.0", "4.58")
    assert not always_below("~=4.57.0", "4.57.3")
    assert always_below("<=0.16", "0.17")
    assert not always_below("<=0.17", "0.17")
    assert exact("==4.57.1") == "4.57.1"
    assert exact(">=4.57") is None
    assert exact("==4.57.*") is None


def test_a_setup_script_states_versions(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text('deps = [\n    "transformers==4.52.3",\n    "trl[vllm]==0.18.0",\n]\n', "utf-8")
    (tmp_path / "recipes").mkdir()
    assert dict(versions_beside(tmp_path / "recipes", tmp_path)) == {"transformers": "==4.52.3", "trl": "==0.18.0"}
