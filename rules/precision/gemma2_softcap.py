"""PRC021."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

REFUSED_SINCE = "5.24"
"""First transformers release read that refuses SDPA for Gemma 2 (5.20 still runs it without soft-capping)."""


class Gemma2Softcap(Rule):
    """Gemma 2 with SDPA attention loses the soft-capping of its attention scores.

    Gemma 2 was trained with attention scores capped at 50 by a tanh. SDPA has no such step: up to transformers 5.20 it is
    silently left out and the model computes something else than it was trained for; transformers 5.24 refuses SDPA for it.
    Eager, FlexAttention and FlashAttention-2 have it.

    How sure: read in transformers 4.57, 5.20 and 5.24; LLaMA-Factory prints a warning of its own. An error only where a
    release that refuses it is pinned.
    """

    code = "PRC021"
    name = "gemma2-softcap"
    family = "precision"
    severity = "warning"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/sdpa_attention.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/model_utils/attention.py",
    )
    catalogue = ("gemma2.softcap-attn",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: google/gemma-2-9b
            attn_implementation: eager
            bf16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: google/gemma-3-4b-it
            attn_implementation: sdpa
            bf16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            note="Gemma 3 has no soft-capping",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: google/gemma-2-9b
            attn_implementation: sdpa
            bf16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            at="attn_implementation",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention = job.attention
        if attention is None or attention.value != "sdpa" or not isinstance(attention.origin, FileOrigin):
            return
        if job.architecture is None or job.architecture.model_type != "gemma2":
            return
        refused = bool(always_at_least(context.version(job, "transformers"), REFUSED_SINCE))
        yield self.finding(
            "SDPA has no soft-capping of attention scores, which Gemma 2 was trained with: "
            + ("transformers refuses it" if refused else "it is left out, from transformers 5.24 on refused"),
            attention,
            (job.model_id, "Gemma 2"),
            help="use eager, flex_attention or flash_attention_2",
            severity="error" if refused else "warning",
            job=job,
        )
