"""RLH007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import number
from cfglint.jobs.facts import Origin, Reading
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import on


class SyncedReference(Rule):
    """`sync_ref_model` with settings under which there is no reference model to keep in step.

    With ``beta: 0`` GRPO makes none, with adapters the reference is the model without them, and precomputed log-probabilities
    belong to a fixed one. TRL raises in each of these cases.

    How sure: read in TRL 0.28 to 1.16 for ``beta`` and adapters, 0.15 to 1.16 for precomputing and DPO. Releases before are a
    warning.
    """

    code = "RLH007"
    name = "synced-reference"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_trainer.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/dpo_trainer.py",
    )
    catalogue = ("rl.grpo-beta-sync-ref",)
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            beta: 0.04
            sync_ref_model: true
            """,
        ),
    )
    bad = (
        example(
            {
                "grpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/DeepMath-103K
                per_device_train_batch_size: 8
                num_generations: 8
                learning_rate: 1.0e-6
                beta: 0.0
                sync_ref_model: true
                """,
                "requirements.txt": """
                trl>=1.0
                """,
            },
            at="sync_ref_model",
            count=1,
        ),
        example(
            "dpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/ultrafeedback_binarized
            per_device_train_batch_size: 2
            learning_rate: 5.0e-7
            beta: 0.1
            sync_ref_model: true
            precompute_ref_log_probs: true
            """,
            at="sync_ref_model",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "trl" or not on(reading, "sync_ref_model"):
            return
        stated = context.version(reading, "trl")
        for other, why, sure in _clashes(reading, stated):
            yield self.finding(
                f"sync_ref_model has nothing to keep in step: {why}",
                reading.origin("sync_ref_model"),
                (other, "see here"),
                help="switch sync_ref_model off, or change the other setting",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
            )
            return


def _clashes(reading: Reading, stated: str | None) -> Iterator[tuple[Origin | None, str, bool]]:
    trainer = reading.context.get("trainer")
    checked = always_at_least(stated, "0.28") is True
    beta = number(reading.value("beta"))
    if trainer in ("grpo", "rloo"):
        if beta == 0:
            yield reading.origin("beta"), "with beta 0 there is no reference model", checked
        elif (
            beta is None
            and reading.entry("beta") is None
            and always_at_least(stated, "0.19") is True
            and trainer == "grpo"
        ):
            yield None, "beta is 0 by default since TRL 0.19, so there is no reference model", checked
    if trainer == "dpo" and on(reading, "precompute_ref_log_probs"):
        yield (
            reading.origin("precompute_ref_log_probs"),
            "the log-probabilities of a fixed reference are precomputed",
            True,
        )
    if reading.context.get("adapters_on") is True and trainer in ("grpo", "dpo", "rloo"):
        yield reading.origin("use_peft"), "with adapters the reference is the model without them", checked
