"""PRC022."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .stated_precision import TRAINERS, uses_deepspeed


class FlashAttentionInFp32(Rule):
    """FlashAttention is asked for with fp32 weights and no mixed precision.

    The FlashAttention kernels take fp16 and bf16. transformers casts fp32 queries to autocast's type, else to the type of
    the weights: with fp32 weights and no autocast the kernel raises "FlashAttention only support fp16 and bf16 data type"
    at the first step.

    How sure: transformers warns of it when loading, and the kernel refuses. Autocast may come from a launcher that is not in
    sight, so it is a warning; where fp32 weights only follow from a default nothing is said.
    """

    code = "PRC022"
    name = "flash-attention-in-fp32"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_utils.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/flash_attention.py",
    )
    catalogue = ("fa2.fp32-dtype",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_2
            torch_dtype: float32
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            note="autocast hands the kernel bf16",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_2
            torch_dtype: bfloat16
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            attn_implementation: flash_attention_2
            torch_dtype: float32
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="attn_implementation",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention, weights, compute = job.attention, job.weight_dtype, job.compute_dtype
        if attention is None or weights is None or compute is None or attention.value not in ("flash2", "flash3"):
            return
        if weights.value != "fp32" or compute.value != "none" or uses_deepspeed(job) or job.value("quantization"):
            return
        if isinstance(weights.origin, DefaultOrigin):
            return  # a script may load another dtype than from_pretrained does by itself
        reading = job.reading(*TRAINERS)
        if reading is None:
            return
        yield self.finding(
            "FlashAttention takes fp16 and bf16, and the model computes in fp32 without mixed precision",
            (attention, "FlashAttention"),
            (weights, "fp32 weights"),
            (compute, "no mixed precision"),
            help="set bf16: true, load in bfloat16, or use sdpa",
            job=job,
        )
