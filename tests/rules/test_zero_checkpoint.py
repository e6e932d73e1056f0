"""A ZeRO checkpoint's folder says how many ranks wrote it."""

from __future__ import annotations

import pytest

from cfglint.testing import lint_files

RUN = {
    "sft.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"
    "resume_from_checkpoint: out/checkpoint-500\ndeepspeed: ds.json\n",
    "ds.json": '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}',
}


def _written_by(ranks: int) -> dict[str, str]:
    folder = "out/checkpoint-500/global_step500"
    return {f"{folder}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": "" for rank in range(ranks)}


@pytest.mark.parametrize(("ranks", "severity"), [(8, "error"), (4, None), (0, "info")])
def test_ranks_are_counted_in_the_folder(ranks: int, severity: str | None) -> None:
    result = lint_files({**RUN, **_written_by(ranks)}, gpu="A100-80GB", gpus=4, select=("CKP011",))
    assert [f.severity for f in result.findings] == ([severity] if severity else [])
    if severity == "error":
        assert result.findings[0].message.startswith("the checkpoint was written by 8 ranks, the run has 4")
