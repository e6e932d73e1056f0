"""PRC020."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

HOPPER = (9, 0)


class PackingWithSdpa(Rule):
    """Axolotl packs samples with SDPA in bf16 on a GPU before Hopper, where the loss can be 0.

    Packed samples need a block-diagonal mask. With SDPA in bf16 Axolotl's authors saw a loss of 0.0 on GPUs before Hopper
    and print a warning at the start: the run goes on and learns nothing.

    How sure: Axolotl's own check (check_sample_packing_w_sdpa_bf16). Newer torch may be fine, so it is a warning, and only
    where the accelerator is known and SDPA is asked for in the file.
    """

    code = "PRC020"
    name = "packing-with-sdpa"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py",)
    catalogue = ("attn.sdpa-bf16-packing-zero-loss",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            sample_packing: true
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            attn_implementation: flash_attention_2
            """,
            gpu="A100-80GB",
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            sample_packing: true
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            sdp_attention: true
            """,
            gpu="H100-SXM",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            sequence_len: 2048
            sample_packing: true
            micro_batch_size: 2
            datasets:
              - path: our/data
                type: alpaca
            bf16: true
            sdp_attention: true
            """,
            gpu="A100-80GB",
            at="sdp_attention",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        attention, packing, compute = job.attention, job.packing, job.compute_dtype
        if job.value("framework") != "axolotl" or attention is None or packing is None or compute is None:
            return
        if attention.value != "sdpa" or packing.value is not True or compute.value != "bf16":
            return
        if not isinstance(attention.origin, FileOrigin) or not job.hardware.candidates:
            return
        if any(a.compute_capability is None or a.compute_capability >= HOPPER for a in job.hardware.candidates):
            return
        yield self.finding(
            f"packed samples with SDPA in bf16 can give a loss of 0.0 on {job.hardware.name} (before Hopper)",
            (attention, "SDPA"),
            (packing, "packed samples"),
            (compute, "bf16"),
            help="use attn_implementation: flash_attention_2 or flex_attention",
            job=job,
        )
