"""HWF008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, scalar
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import HOPPER, below, described

SAGE_CAPABILITIES = frozenset({(8, 0), (8, 6), (8, 9), (9, 0), (12, 0)})
"""Compute capabilities Axolotl takes SageAttention on."""


class AxolotlAttentionCapability(Rule):
    """Axolotl's SageAttention or FP8 attention on a GPU it refuses.

    SageAttention is taken on compute capability 8.0, 8.6, 8.9, 9.0 and 12.0, FP8 attention from 9.0 on. Elsewhere Axolotl
    stops when it reads the file: "SageAttention supports compute capability between sm_80 and sm_120" or
    "attn_implementation=fp8 requires compute capability sm_90 or higher".

    How sure: validators of Axolotl's configuration (0.19), with the very list above.
    """

    code = "HWF008"
    name = "axolotl-attention-capability"
    family = "hardware"
    severity = "error"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",)
    catalogue = ("hw.sageattn-capability",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            adapter: lora
            bf16: true
            attn_implementation: sage
            """,
            gpu="RTX4090",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: facebook/opt-350m
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            adapter: lora
            fp16: true
            bf16: false
            attn_implementation: sage
            """,
            gpu="T4",
            at="attn_implementation",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            attn_implementation: fp8
            """,
            gpu="A100-80GB",
            at="attn_implementation",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("axolotl")
        candidates = job.hardware.candidates
        if reading is None or not candidates:
            return
        found = self._asked(reading)
        if found is None:
            return
        key, kind = found
        if kind == "sage":
            refused = all(
                a.compute_capability is not None and a.compute_capability not in SAGE_CAPABILITIES for a in candidates
            )
            taken = "compute capability 8.0, 8.6, 8.9, 9.0 and 12.0"
        else:
            refused = below(job, HOPPER)
            taken = "compute capability 9.0 and later"
        if refused:
            yield self.finding(
                f"Axolotl takes {'SageAttention' if kind == 'sage' else 'FP8 attention'} on {taken}, the accelerator is "
                f"{described(job)}",
                reading.origin(key),
                (job.hardware.origin, "not taken"),
                help="use flash_attention_2 on Ampere and later, else sdpa",
                job=job,
            )

    def _asked(self, reading: Reading) -> tuple[str, str] | None:
        stated = scalar(reading.at("attn_implementation"))
        if stated in ("sage", "fp8"):
            return "attn_implementation", str(stated)
        if stated is None and boolean(scalar(reading.at("sage_attention"))) is True:
            return "sage_attention", "sage"
        return None
