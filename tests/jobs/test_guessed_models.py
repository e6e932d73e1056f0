"""Models that a path or a bare name makes likely: estimated, and never certain."""

from __future__ import annotations

import pytest

from cfglint.jobs.named_models import guessed_model
from cfglint.testing import lint_files

LLAMA = "meta-llama/Meta-Llama-3-8B-Instruct"
RUN = "per_device_train_batch_size: 1\nmax_length: 4096\nlearning_rate: 1e-5\nnum_train_epochs: 1\nbf16: true\ntorch_dtype: float32\n"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("/data/models/Meta-Llama-3-8B-Instruct", LLAMA),
        ("./Meta-Llama-3-8B-Instruct/", LLAMA),
        ("/mnt/a/b/Llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("/data/models/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct"),
        ("/data/models/our-llama", None),
        ("/data/checkpoint-500", None),
        ("somebody/Meta-Llama-3-8B-Instruct", None),
    ],
)
def test_whose_name_a_path_ends_in(name: str, known: str | None) -> None:
    found = guessed_model(name)
    assert (None if found is None else found.id) == known


def test_a_guess_makes_a_warning_where_a_known_model_makes_an_error() -> None:
    severities = {}
    for name in (LLAMA, f"/data/models/{LLAMA.rpartition('/')[2]}"):
        result = lint_files({"sft.yaml": f"model_name_or_path: {name}\n{RUN}"}, gpu="A100-40GB", gpus=1)
        (finding,) = [f for f in result.findings if f.code == "MEM001"]
        severities[name] = finding.severity
        said = [f.message for f in result.findings if f.code == "FCT001"]
        assert said == (
            [] if name == LLAMA else [f"{name} is taken as {LLAMA}, as its name says: of its memory nothing is certain"]
        )
    assert list(severities.values()) == ["error", "warning"]


def test_rules_on_precision_take_no_guess() -> None:
    run = RUN.replace("bf16", "fp16").replace("float32", "float16")
    known, guessed = (
        {f.code for f in lint_files({"sft.yaml": f"model_name_or_path: {name}\n{run}"}).findings}
        for name in ("google/gemma-2-2b", "/data/gemma-2-2b")
    )
    assert "PRC002" in known
    assert "PRC002" not in guessed
