"""RLH010."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import number
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

_CONSTANT: Final = frozenset({"sigmoid", "hinge", "robust", "exo_pair", "kto_pair", "sppo_hard", "nca_pair", "ipo"})
"""DPO losses that ``beta`` multiplies (or, for ipo, divides)."""


class ZeroBeta(Rule):
    """DPO with beta 0: the loss does not depend on the model, or cannot be computed.

    The loss is a function of ``beta`` times the difference of log-ratios; with 0 it is a constant and no gradient flows, while
    the run goes on. The ipo loss divides by ``beta``.

    How sure: the loss formulas of TRL's DPOTrainer. GRPO, where 0 means "no reference model", is not concerned.
    """

    code = "RLH010"
    name = "zero-beta"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/dpo_trainer.py",
        "https://arxiv.org/abs/2305.18290",
    )
    good = (
        example(
            "dpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/ultrafeedback_binarized
            per_device_train_batch_size: 2
            learning_rate: 5.0e-7
            beta: 0.1
            """,
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            beta: 0.0
            """,
        ),
    )
    bad = (
        example(
            "dpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/ultrafeedback_binarized
            per_device_train_batch_size: 2
            learning_rate: 5.0e-7
            beta: 0
            precompute_ref_log_probs: true
            """,
            at="beta",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect == "trl" and reading.context.get("trainer") == "dpo":
            key, loss = "beta", reading.value("loss_type") if reading.at("loss_type") is not None else "sigmoid"
            sure = reading.at("precompute_ref_log_probs") is not None or reading.at("loss_type") is not None
        elif reading.dialect == "axolotl" and reading.value("rl") in ("dpo", "ipo"):
            key, loss, sure = "rl_beta", "sigmoid", True
        elif reading.dialect == "llamafactory" and reading.value("stage") == "dpo":
            key, loss, sure = "pref_beta", reading.value("pref_loss") or "sigmoid", True
        else:
            return
        if number(reading.value(key)) == 0 and loss in _CONSTANT:
            yield self.finding(
                f"{key} is 0: the {loss} loss of DPO is then "
                + ("not defined" if loss == "ipo" else "a constant, and nothing is learned"),
                reading.origin(key),
                help=f"{key}: 0.1 is the usual start",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
            )
