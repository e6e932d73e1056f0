"""HWF004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import AMPERE, BLACKWELL, below, described


class FlashAttention3(Rule):
    """FlashAttention-3 on a GPU it is not built for.

    FlashAttention-3 is written for Hopper. transformers refuses it below compute capability 8.0; on Blackwell its kernels,
    which use Hopper's own instructions, do not run.

    How sure: an error before Ampere, where transformers raises. On Blackwell it is a warning: builds move. Ampere and Ada,
    for which some builds have kernels, are not reported.
    """

    code = "HWF004"
    name = "flash-attention-3"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_flash_attention_utils.py",
        "https://github.com/Dao-AILab/flash-attention",
    )
    catalogue = ("hw.fa3-non-hopper",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_3
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="H100-SXM",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            attn_implementation: flash_attention_3
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
            at="attn_implementation",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_3
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="RTX5090",
            at="attn_implementation",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention = job.attention
        if attention is None or attention.value != "flash3" or not isinstance(attention.origin, FileOrigin):
            return
        candidates = job.hardware.candidates
        old = below(job, AMPERE)
        new = bool(candidates) and all(
            a.compute_capability is not None and a.compute_capability >= BLACKWELL for a in candidates
        )
        if not old and not new:
            return
        yield self.finding(
            f"FlashAttention-3 is written for Hopper (compute capability 9.0), the accelerator is {described(job)}",
            attention,
            (job.hardware.origin, "before Ampere" if old else "Blackwell"),
            help="use sdpa" if old else "use flash_attention_2 or sdpa",
            severity="error" if old else "warning",
            confidence="high" if old else "medium",
            job=job,
        )
