"""A file of thousands of unknown keys took minutes: three rules compared each with every known name."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from cfglint.cli.main import main
from cfglint.dialects.schema import load_schema

CONFIG = (
    "base_model: Qwen/Qwen2.5-7B\nsequence_len: 512\nmicro_batch_size: 1\ndatasets:\n  - path: d\n    type: alpaca\n"
)


def test_each_unknown_key_is_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    compare = difflib.get_close_matches

    def counted(word: str, *args: object, **options: object) -> list[str]:
        asked.append(word)
        return compare(word, *args, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    monkeypatch.chdir(tmp_path)
    names = [f"nobodys_key_{i}" for i in range(200)]
    (tmp_path / "axolotl.yaml").write_text(CONFIG + "".join(f"{name}: 1\n" for name in names))
    main(["check", "--strict", "--preview", "--format", "concise", "axolotl.yaml"])
    assert "nobodys_key_199" in capsys.readouterr().out
    assert len([word for word in asked if word in names]) == len(names)


def test_names_that_are_just_alike_enough_are_still_suggested() -> None:
    schema = load_schema("axolotl")
    for name in ("micro_batch_siz", "sequence_length", "gradient_acumulation_steps", "adam_eps", "load_4bit"):
        known = {key.lower().replace("-", "_"): key for key in schema.all_keys()}
        near = [known[key] for key in difflib.get_close_matches(name, known, n=4, cutoff=0.8) if known[key] != name]
        assert set(schema.suggest(name)) <= set(near)
        assert bool(schema.suggest(name)) == bool(near)
