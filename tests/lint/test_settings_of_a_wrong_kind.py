"""Settings that parse and yet cannot be used: said at once, not when a rule happens to run, and never a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfglint.cli.main import main

TRAIN = "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 1\nsequence_len: 2048\nlearning_rate: 1.0\n"


def check(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(TRAIN)
    (tmp_path / "cfglint.toml").write_text(settings)
    return main(["check", "train.yaml", "--fail-on", "never"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('[rules.BAT010]\nfull_most = "x"', "`rules.BAT010.full_most`: a number is needed (is 'x')"),
        ("[rules.BAT010]\nfull_most = true", "`rules.BAT010.full_most`: a number is needed (is True)"),
        ("[rules.BAT010]\nfull_most = nan", "`rules.BAT010.full_most`: a number is needed (is nan)"),
        ("[rules.learning-rate-out-of-range]\nfull_most = [1]", "a number is needed (is [1])"),
        (
            '[dialects]\n"*.yaml" = "axolotll"',
            "cfglint.toml:2: `dialects.*.yaml`: no such config format; did you mean `axolotl`? (is 'axolotll')",
        ),
        ('[frameworks]\ntransformers = "banana"', "a version or a range is needed (is 'banana')"),
        ('[frameworks]\nvllm = ">=<1"', "a version or a range is needed (is '>=<1')"),
    ],
)
def test_what_cannot_be_used(
    settings: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check(settings, tmp_path, monkeypatch) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        "[rules.BAT010]\nfull_most = 2",
        "[rules.learning-rate-out-of-range]\nfull_most = 2e-4",
        '[dialects]\n"*.yaml" = "axolotl"',
        '[frameworks]\ntransformers = "4.57.1"\nvllm = "v0.11.0"\ntrl = ">=0.20,<1,!=0.21.*"\npeft = "~=0.17"',
    ],
)
def test_what_can(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(settings, tmp_path, monkeypatch) == 0
