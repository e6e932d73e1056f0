"""What stands around a config felled a run: globs, versions, references, plugins, the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cfglint.cli.main import main

TRAIN = "model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: o\nper_device_train_batch_size: 2\nlearning_rate: 1e-5\n"
DIGITS = "9" * 5000
RULE = '''
from cfglint.lint.rule import Rule

class Stops(Rule):
    """Stops.

    It does.
    """
    code = "STP001"
    name = "stops"
    family = "stop"
    severity = "error"
    def check_file(self, file, context):
        raise SystemExit(0)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(f"{TRAIN}bf16: true\nmax_steps: 3\ngradient_accumulation_steps: 2\n")
    return tmp_path


@pytest.mark.parametrize(
    "settings",
    (
        'exclude = ["!"]',
        'exclude = ["[z-a]"]',
        'extend-exclude = ["!"]',
        '[per-file-ignores]\n"!" = ["MEM"]',
        '[dialects]\n"!" = "trl"',
        '[[targets]]\npath = "!"\ngpu = "H100"',
        '[[targets]]\npath = ["!"]\ngpu = "H100"',
        '[[ignore]]\nfile = "!"\nrule = "MEM"\nreason = "r"',
    ),
)
def test_a_glob_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], settings: str) -> None:
    (folder / "cfglint.toml").write_text(settings)
    assert main(["check", "."]) == 2
    assert "not a pattern as in .gitignore" in capsys.readouterr().err


def test_a_line_of_gitignore_that_no_matcher_takes_leaves_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("!\n[z-a]\ntrain.yaml\n")
    assert main(["check", "--show-files", "--format", "concise", "."]) == 0
    assert "train.yaml" not in capsys.readouterr().out


def test_infinite_memory_is_no_setting(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cfglint.toml").write_text('[[accelerators]]\nid = "x"\nmemory-gb = inf\n')
    assert main(["check", "."]) == 2
    assert "memory-gb" in capsys.readouterr().err


FRAMEWORKS = ("transformers", "trl", "deepspeed", "accelerate", "torch", "vllm")


def test_a_pinned_version_of_thousands_of_digits_is_no_version(folder: Path) -> None:
    (folder / "requirements.txt").write_text("".join(f"{name}=={DIGITS}.1\n" for name in FRAMEWORKS))
    (folder / "serve.sh").write_text("vllm serve Qwen/Qwen2.5-0.5B --max-model-len 4096\n")
    assert main(["check", "--strict", "--preview", "--fail-on", "never", "."]) == 0
    assert main(["estimate", "."]) == 0


def test_settings_with_a_version_of_thousands_of_digits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cfglint.toml").write_text("[frameworks]\n" + "".join(f'{name} = "{DIGITS}.1"\n' for name in FRAMEWORKS))
    (folder / "serve.sh").write_text("vllm serve Qwen/Qwen2.5-0.5B --max-model-len 4096\n")
    assert main(["check", "."]) == 2
    message = capsys.readouterr().err
    assert "cfglint.toml:2: `frameworks.transformers`: a version or a range is needed" in message
    assert max(map(len, message.splitlines())) < 200


@pytest.mark.parametrize("name", ("x" * 10_000, "a/" * 3000, '"a\\0b"', "/", ".", "train.yaml"))
@pytest.mark.parametrize("key", ("deepspeed", "model_name_or_path"))
def test_a_reference_to_what_no_file_system_holds(folder: Path, key: str, name: str) -> None:
    text = TRAIN.replace("Qwen/Qwen2.5-0.5B", name) if key == "model_name_or_path" else f"{TRAIN}deepspeed: {name}\n"
    (folder / "train.yaml").write_text(text)
    assert main(["check", "--strict", "--fail-on", "never", "train.yaml"]) == 0
    assert main(["estimate", "train.yaml"]) == 0


def test_a_plugin_that_exits_ends_no_run_unnoticed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "exits_on_import.py").write_text("raise SystemExit(0)\n")
    (folder / "cfglint.toml").write_text('plugins = ["exits_on_import"]\n')
    assert main(["check", "train.yaml"]) == 2
    assert "exits_on_import" in capsys.readouterr().err
    (folder / "exits_in_a_rule.py").write_text(RULE)
    (folder / "cfglint.toml").write_text('plugins = ["exits_in_a_rule"]\n')
    assert main(["check", "train.yaml"]) == 3
    assert "INT001" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_working_directory_that_is_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert main(["rules"]) == 2
    assert "working directory" in capsys.readouterr().err
