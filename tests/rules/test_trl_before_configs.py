"""TRL before 0.8 has no config files: its scripts read arguments of their own."""

from __future__ import annotations

from cfglint.testing import lint_files


def test_arguments_of_old_trl_scripts_are_no_keys_of_newer_releases() -> None:
    text = (
        "model_name_or_path: gpt2\ndataset_name: our/data\nmax_seq_length: 512\npacking: false\nlearning_rate: 2.0e-5\n"
    )
    found = {
        release: [f.code for f in lint_files({"sft.yaml": text, "requirements.txt": f"trl=={release}\n"}).findings]
        for release in ("0.7.11", "1.16.0")
    }
    assert "SCH008" not in found["0.7.11"]
    assert "SCH005" in found["1.16.0"]
