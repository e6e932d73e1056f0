"""PFT011."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

_CHECKED_SINCE: Final = "1.15"
"""First TRL release that refuses it (1.14 does not)."""


class LmHeadAdapter(Rule):
    """A LoRA adapter on `lm_head` in a TRL trainer that reads the head's weight directly.

    Newer SFT, DPO and GRPO trainers compute log-probabilities from ``lm_head.weight`` in chunks, past the adapter, and raise
    "Applying a PEFT adapter to `lm_head` is not supported".

    How sure: read in TRL 1.15 and 1.16, absent in 1.14. An error where the stated release has the check; with no release stated a
    warning; not reported for older ones.
    """

    code = "PFT011"
    name = "lm-head-adapter"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/dpo_trainer.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/sft_trainer.py",
    )
    catalogue = ("peft.lm-head-adapter-trl",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            use_peft: true
            lora_target_modules: all-linear
            """,
            note="all-linear leaves the head out",
        ),
    )
    bad = (
        example(
            {
                "dpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                dataset_name: trl-lib/ultrafeedback_binarized
                per_device_train_batch_size: 4
                learning_rate: 5.0e-6
                beta: 0.1
                use_peft: true
                lora_target_modules: [q_proj, v_proj, lm_head]
                """,
                "requirements.txt": """
                trl==1.16.0
                """,
            },
            at="lora_target_modules",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading, targets = job.reading("trl"), job.lora_targets
        if reading is None or targets is None or "lm_head" not in (targets.value or []):
            return
        stated = context.version(job, "trl")
        if reading.context.get("trainer") not in ("sft", "dpo", "grpo", "rloo") or always_below(stated, _CHECKED_SINCE):
            return
        sure = always_at_least(stated, _CHECKED_SINCE) is True
        yield self.finding(
            "an adapter on lm_head is never trained: newer TRL trainers use the head's weight directly and refuse it",
            targets,
            help="take lm_head out of the targets, or train it whole with lora_modules_to_save: [lm_head]",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            job=job,
        )
