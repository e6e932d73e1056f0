"""The hook, run by the real pre-commit in a throw-away repository: a good config is committed, a bad one is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GOOD = (
    '{\n  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {"stage": 2},\n  "bf16": {"enabled": true}\n}\n'
)
BAD = (
    '{\n  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {\n    "stage": 2,\n    "overlap_comm": true,\n'
)
"""Cut off in the middle: SRC001."""

NO_INDEX = re.compile(
    r"Could not find a version that satisfies|No matching distribution found|NewConnectionError|Temporary failure in name"
    r"|Network is unreachable|Connection refused|Could not fetch URL|Max retries exceeded"
)

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or shutil.which("pre-commit", path=str(Path(sys.executable).parent)) is None,
    reason="git and pre-commit are needed",
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    found = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CFGLINT_"))}
    found |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(tmp_path / "pre-commit"),
        "HOME": str(tmp_path),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for who in ("AUTHOR", "COMMITTER"):
        found |= {f"GIT_{who}_NAME": "test", f"GIT_{who}_EMAIL": "test@example.org"}
    return found


def run(folder: Path, environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def must(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = run(folder, environment, *command)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def hook_repository(folder: Path, environment: dict[str, str]) -> str:
    """A git repository with this checkout's files as they are now; returns its commit."""
    folder.mkdir()
    listed = must(ROOT, environment, "git", "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    for name in filter(None, listed):
        source = ROOT / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    must(folder, environment, "git", "init", "-q")
    must(folder, environment, "git", "add", "-A", "-f")
    must(folder, environment, "git", "commit", "-q", "-m", "hook")
    return must(folder, environment, "git", "rev-parse", "HEAD").strip()


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str]) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    must(folder, environment, "git", "init", "-q")
    return folder


def configure(project: Path, repository: Path, commit: str, hook: str) -> None:
    content = {"repos": [{"repo": str(repository), "rev": commit, "hooks": [{"id": hook}]}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(content))


@pytest.mark.parametrize("hook", ["cfglint-system", "cfglint"])
def test_good_is_committed_and_bad_is_blocked(
    hook: str, tmp_path: Path, project: Path, environment: dict[str, str]
) -> None:
    if hook == "cfglint-system" and shutil.which("cfglint", path=environment["PATH"]) is None:
        pytest.skip("the command cfglint is not installed beside this Python")
    commit = hook_repository(tmp_path / "hook", environment)
    configure(project, tmp_path / "hook", commit, hook)
    must(project, environment, "pre-commit", "install")
    installed = run(project, environment, "pre-commit", "install-hooks")
    if installed.returncode != 0 and NO_INDEX.search(installed.stdout + installed.stderr):
        pytest.skip("pip cannot reach a package index here")
    assert installed.returncode == 0, installed.stdout + installed.stderr

    (project / "ds.json").write_text(GOOD)
    (project / "notes.md").write_text("no config\n")
    must(project, environment, "git", "add", "-A")
    good = run(project, environment, "git", "commit", "-m", "good")
    assert good.returncode == 0, good.stdout + good.stderr
    assert re.search(r"cfglint\.+Passed", good.stderr + good.stdout)

    (project / "ds.json").write_text(BAD)
    must(project, environment, "git", "add", "-A")
    bad = run(project, environment, "git", "commit", "-m", "bad")
    assert bad.returncode != 0
    shown = bad.stdout + bad.stderr
    assert re.search(r"cfglint\.+Failed", shown)
    assert "SRC001" in shown and "ds.json:" in shown
    assert must(project, environment, "git", "log", "--format=%s").split() == ["good"]


def test_the_hook_file_is_what_its_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build_hooks.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert set(hooks) == {"cfglint", "cfglint-system"}
    for hook in hooks.values():
        assert hook["types_or"] == ["yaml", "json", "toml", "shell"]
        assert hook["require_serial"] is True
