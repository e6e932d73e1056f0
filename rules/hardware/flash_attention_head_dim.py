"""HWF005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

MAX_HEAD_DIM = 256
"""Largest head dimension of the FlashAttention-2 kernels (flash-attn README)."""


class FlashAttentionHeadDim(Rule):
    """The model's attention heads are wider than FlashAttention-2 takes.

    The kernels go up to a head dimension of 256; beyond it the first forward pass raises "FlashAttention forward only
    supports head dimension at most 256". Gemma 4's full-attention layers have 512.

    How sure: the kernel's check. Reported as a warning: an implementation may route wide layers to another kernel, as Axolotl
    does, which is left out.
    """

    code = "HWF005"
    name = "flash-attention-head-dim"
    family = "hardware"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/Dao-AILab/flash-attention",
        "https://github.com/Dao-AILab/flash-attention/issues/2427",
    )
    catalogue = ("hw.fa2-headdim",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: google/gemma-7b
            attn_implementation: flash_attention_2
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            note="256 is taken",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: our/wide
                attn_implementation: flash_attention_2
                bf16: true
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                ".cfglint/models/our/wide/config.json": """
                {
                  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
                  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 512,
                  "intermediate_size": 4096, "vocab_size": 32000
                }
                """,
            },
            at="attn_implementation",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention, architecture = job.attention, job.architecture
        if attention is None or attention.value != "flash2" or not isinstance(attention.origin, FileOrigin):
            return
        if architecture is None or job.value("framework") == "axolotl":
            return
        wide = [layer for layer in architecture.layers if layer.head_dim > MAX_HEAD_DIM and layer.mixer != "mla"]
        if not wide:
            return
        largest = max(layer.head_dim for layer in wide)
        yield self.finding(
            f"FlashAttention-2 takes head dimensions up to {MAX_HEAD_DIM}, {len(wide)} of {len(architecture.layers)} layers "
            f"have {largest}",
            attention,
            (job.model_id, f"head dimension {largest}"),
            help="use sdpa",
            data={"head_dim": largest, "layers": len(wide)},
            job=job,
        )
