"""RLH012."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

_CHANGED: Final = (
    ("beta", "0.04 before TRL 0.19, 0 since"),
    ("loss_type", "bnpo before 0.22, dapo since"),
    ("max_completion_length", "256 before 1.10, 512 since"),
)
"""GRPO settings whose defaults changed what is trained, with the change."""


class DefaultsByRelease(Rule):
    """GRPO settings are left to TRL's defaults, which changed from release to release.

    The same file trains with a KL term in one release and without in another, and with another normalization of the loss.
    ``vllm_mode`` went from server to colocate in 1.0.

    How sure: defaults of ``GRPOConfig`` in every release from 0.14 to 1.16. It is for strict readers, and only where the
    release is not pinned.
    """

    code = "RLH012"
    name = "defaults-by-release"
    family = "preference"
    severity = "info"
    persona = "strict"
    evidence = ("https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",)
    catalogue = ("trl.defaults-changed",)
    good = (
        example(
            {
                "grpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/DeepMath-103K
                per_device_train_batch_size: 8
                num_generations: 8
                learning_rate: 1.0e-6
                """,
                "requirements.txt": """
                trl==1.16.0
                """,
            },
            note="the release is pinned",
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            beta: 0.04
            """,
            at="num_generations",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "trl" or reading.context.get("trainer") != "grpo" or reading.role != "run":
            return
        if reading.context.get("command_line") or exact(context.version(reading, "trl")) is not None:
            return
        left = [f"{key} ({change})" for key, change in _CHANGED if reading.entry(key) is None]
        if boolean(reading.value("use_vllm")) is True and reading.entry("vllm_mode") is None:
            left.append("vllm_mode (server before 1.0, colocate since)")
        if left:
            place = "num_generations" if reading.entry("num_generations") else "model_name_or_path"
            yield self.finding(
                f"left to defaults that changed: {', '.join(left)}",
                reading.origin(place),
                help="state them, or pin TRL's release",
            )
