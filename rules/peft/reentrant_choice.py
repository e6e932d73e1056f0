"""PFT018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import given, on, zero_3


class ReentrantChoice(Rule):
    """`use_reentrant` is set the way that breaks with this kind of training.

    Axolotl raises "`use_reentrant` must be false when used with partially frozen model", and that reentrant checkpointing "is
    not supported for distributed RL training with QLoRA". The other way round, QLoRA under ZeRO-3 with ``use_reentrant:
    false`` may end in a CheckpointError about recomputed tensors; TRL forces it to true there.

    How sure: Axolotl's checks and warning, read in 0.19. The one on RL applies on more than one GPU.
    """

    code = "PFT018"
    name = "reentrant-choice"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_trainer.py",
    )
    catalogue = ("peft.reentrant-partial-freeze", "quant.zero3-qlora-reentrant", "rl.gc-qlora-reentrant")
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
            gradient_checkpointing: true
            gradient_checkpointing_kwargs:
              use_reentrant: false
            unfrozen_parameters: [lm_head]
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
            gradient_checkpointing: true
            gradient_checkpointing_kwargs:
              use_reentrant: true
            unfrozen_parameters: [lm_head]
            """,
            at="use_reentrant",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("axolotl")
        if reading is None:
            return
        route = ("gradient_checkpointing_kwargs", "use_reentrant")
        reentrant = boolean(reading.value(*route))
        qlora = reading.value("adapter") == "qlora"
        if reentrant is True and given(reading, "unfrozen_parameters"):
            yield self.finding(
                "use_reentrant: true does not go with a partly frozen model",
                reading.origin(*route),
                (reading.origin("unfrozen_parameters"), "the rest is frozen"),
                help="use_reentrant: false",
                job=job,
            )
        elif reentrant is True and qlora and given(reading, "rl") and on(reading, "load_in_4bit"):
            world = job.hardware.world_size
            if world == 1 or boolean(reading.value("gradient_checkpointing")) is False:
                return
            yield self.finding(
                "use_reentrant: true is not supported for RL with QLoRA on more than one GPU",
                reading.origin(*route),
                (reading.origin("rl"), "RL here"),
                help="use_reentrant: false",
                severity="error" if world is not None else "warning",
                confidence="high" if world is not None else "medium",
                job=job,
            )
        elif reentrant is False and qlora and (sharding := zero_3(job)) is not None:
            yield self.finding(
                "QLoRA under ZeRO-3 with use_reentrant: false may fail when blocks are recomputed",
                reading.origin(*route),
                (sharding, "ZeRO-3"),
                help="use_reentrant: true",
                severity="warning",
                confidence="medium",
                job=job,
            )
