"""DAT003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument


class PackingAttention(Rule):
    """Samples are packed together with an attention kernel that does not keep them apart.

    The samples of one row then see each other. Flash attention takes the boundaries from the position ids; Axolotl warns that
    "sample_packing without an attention backend does not handle cross-sample decontamination", TRL (0.19 to 1.15) that packing
    "may lead to cross-contamination".

    How sure: both frameworks' own warnings. Reported for Axolotl where no attention is chosen at all, for TRL where sdpa or
    eager is chosen and the release is not known to be 1.16 or later. Pretraining tolerates it; preference and RL runs do not
    pack, and refuse it.
    """

    code = "DAT003"
    name = "packing-attention"
    family = "data"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/huggingface/trl/blob/v1.0.0/trl/trainer/sft_trainer.py",
    )
    catalogue = ("data.packing-no-varlen",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            sample_packing: true
            flash_attention: true
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            max_length: 4096
            packing: true
            attn_implementation: flash_attention_2
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            sample_packing: true
            """,
            at="sample_packing",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            max_length: 4096
            packing: true
            attn_implementation: eager
            """,
            at="packing",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        packing, kernel = job.packing, job.attention
        if packing is None or packing.value is not True or job.value("method") == "pretrain":
            return
        if job.undecided("attention") or argument(job, "rl") is not None:
            return
        chosen = kernel is not None and not isinstance(kernel.origin, DefaultOrigin)
        if job.reading("axolotl") is not None:
            reading = job.reading("axolotl")
            others = ("attn_implementation", "sage_attention", "s2_attention", "shifted_sparse_attention")
            if chosen or (reading is not None and any(reading.value(key) for key in others)):
                return
            yield self.finding(
                "samples are packed and no attention kernel is chosen that keeps them apart",
                packing,
                help="attn_implementation: flash_attention_2 (flash_attention: true before 0.17)",
                job=job,
            )
        elif (
            (trl := job.reading("trl")) is not None
            and chosen
            and kernel is not None
            and kernel.value in ("sdpa", "eager")
        ):
            if (
                always_at_least(context.version(job, "trl"), "1.16") is True
                or trl.value("packing_strategy") == "wrapped"
            ):
                return
            if boolean(trl.value("packing")) is True:
                yield self.finding(
                    f"samples are packed and {kernel.value} attention may not keep them apart",
                    packing,
                    (kernel, f"{kernel.value} here"),
                    help="attn_implementation: flash_attention_2, or packing: false",
                    job=job,
                )
