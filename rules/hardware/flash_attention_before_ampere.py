"""HWF003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import AMPERE, below, described


class FlashAttentionBeforeAmpere(Rule):
    """FlashAttention-2 on an NVIDIA GPU older than Ampere.

    The kernels of the flash-attn package are built for compute capability 8.0 and later. Loading works; the first forward
    pass raises "FlashAttention only supports Ampere GPUs or newer".

    How sure: the kernel's own check. Forks for Turing exist under other names and are not meant by flash_attention_2.
    """

    code = "HWF003"
    name = "flash-attention-before-ampere"
    family = "hardware"
    severity = "error"
    evidence = (
        "https://github.com/Dao-AILab/flash-attention/issues/762",
        "https://github.com/huggingface/transformers/issues/28188",
        "https://github.com/hiyouga/LlamaFactory/issues/3508",
    )
    catalogue = ("hw.fa2-pre-ampere",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_2
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="RTX3090",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            attn_implementation: sdpa
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            attn_implementation: flash_attention_2
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="T4",
            at="attn_implementation",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: facebook/opt-350m
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            fp16: true
            bf16: false
            flash_attention: true
            """,
            gpu="V100",
            at="flash_attention",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention = job.attention
        if attention is None or attention.value != "flash2" or not isinstance(attention.origin, FileOrigin):
            return
        if not below(job, AMPERE):
            return
        yield self.finding(
            f"FlashAttention-2 runs on compute capability 8.0 and later, the accelerator is {described(job)}",
            attention,
            (job.hardware.origin, "before Ampere"),
            help="use sdpa",
            job=job,
        )
