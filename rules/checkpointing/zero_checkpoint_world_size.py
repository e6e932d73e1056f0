"""CKP011."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cfglint.jobs.facts import Fact, FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, data_parallel_ranks, deepspeed_settings, placeholder, trainer_readings

RANK_FILE: Final = re.compile(r"zero_pp_rank_(\d+)_mp_rank_\d+_optim_states\.pt$")
"""A rank's part of the optimizer, in the folder of one step (deepspeed/checkpoint/constants.py)."""

MOST_FILES: Final = 20_000
"""Files looked at in a checkpoint's folder."""


class ZeroCheckpointWorldSize(Rule):
    """A ZeRO checkpoint is resumed: it loads only on as many ranks as wrote it.

    Each rank writes its own part of the optimizer. On another number of ranks DeepSpeed stops with "The checkpoint being
    loaded used a DP world size of 8 but the current world size is 4. Automatic adjustment of ZeRO's optimizer state
    partitioning with a new world size is not currently supported". A universal checkpoint (`ds_to_universal.py`, then
    `checkpoint.load_universal: true`) can be loaded on any number.

    How sure: the check is in every release read (0.8 to 0.19). With how many ranks a checkpoint was written stands in its
    folder: where that is at hand and differs it is an error, otherwise information.
    """

    code = "CKP011"
    name = "zero-checkpoint-world-size"
    family = "checkpointing"
    severity = "error"
    catalogue = ("ckpt.zero-world-size-resume",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/engine.py",
        "https://github.com/deepspeedai/DeepSpeed/issues/3810",
        "https://github.com/huggingface/transformers/issues/23152",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                resume_from_checkpoint: out/checkpoint-500
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
                 "checkpoint": {"load_universal": true}}
                """,
            },
            gpu="A100-80GB",
            gpus=4,
            note="a universal checkpoint",
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            resume_from_checkpoint: out/checkpoint-500
            """,
            gpu="A100-80GB",
            gpus=4,
            note="DDP's checkpoint is whole",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                resume_from_checkpoint: out/checkpoint-500
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
                """,
            },
            gpu="A100-80GB",
            gpus=4,
            at="resume_from_checkpoint",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        stage, resumed = job.zero_stage, argument(job, "resume_from_checkpoint")
        if stage is None or not isinstance(stage.value, int) or stage.value < 1 or not trainer_readings(job):
            return
        if resumed is None or placeholder(resumed.value) or not _resumes(resumed.value):
            return
        settings = deepspeed_settings(job)
        universal = settings is not None and settings.has("checkpoint", "load_universal")
        if settings is not None and universal and settings.on("checkpoint", "load_universal") is not False:
            return
        ranks, written = data_parallel_ranks(job), _written_by(resumed, context)
        if written is not None and written == ranks:
            return
        differs = written is not None and ranks is not None
        now = f"{ranks} GPUs" if ranks is not None else "as many GPUs as wrote it"
        yield self.finding(
            f"the checkpoint was written by {written} ranks, the run has {ranks}: DeepSpeed stops at loading it"
            if differs
            else f"a ZeRO checkpoint loads only where it was written by as many ranks: here {now}",
            resumed,
            (stage, "each rank keeps a part of the optimizer"),
            help="resume on the same number of GPUs, or convert it with ds_to_universal.py and set checkpoint.load_universal",
            severity="error" if differs else "info",
            data={"written_by": written, "ranks": ranks},
            job=job,
        )


def _resumes(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() not in ("", "false", "none", "null"))


def _written_by(resumed: Fact[Any], context: Context) -> int | None:
    """Ranks that wrote the checkpoint, from the files of its folder; None where that is not at hand."""
    if not isinstance(resumed.value, str) or not isinstance(resumed.origin, FileOrigin):
        return None
    for root in (context.root, context.root / Path(resumed.origin.document.path).parent):
        ranks: set[int] = set()
        try:
            for seen, path in enumerate((root / resumed.value).glob("global_step*/*_optim_states.pt")):
                found = RANK_FILE.search(path.name)
                if found:
                    ranks.add(int(found.group(1)))
                if seen > MOST_FILES:
                    return None
        except (OSError, ValueError):
            continue
        if ranks:
            return len(ranks) if ranks == set(range(len(ranks))) else None
    return None
