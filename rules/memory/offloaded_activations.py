"""MEM018."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings


class OffloadedActivations(Rule):
    """Activations are to be offloaded, and there is no checkpointing to offload from.

    Accelerate's `fsdp_activation_checkpointing_offload` moves the checkpoints to the host; without
    `fsdp_activation_checkpointing` it stops with "`activation_checkpointing_offload=True` requires
    `activation_checkpointing=True`", and with FSDP 1 too.

    How sure: the checks are in Accelerate's source (1.15).
    """

    code = "MEM018"
    name = "offloaded-activations"
    family = "memory"
    severity = "error"
    catalogue = ("mem.act-offload-wo-ckpt",)
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",)
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_activation_checkpointing: true
              fsdp_activation_checkpointing_offload: true
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
              fsdp_activation_checkpointing_offload: true
            """,
            at="fsdp_activation_checkpointing_offload",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "accelerate" or reading.context.get("distributed_type") != "FSDP":
            return
        settings = Settings(reading, ("fsdp_config",))
        key = "fsdp_activation_checkpointing_offload"
        if boolean(settings.value(key)) is not True:
            return
        if boolean(settings.value("fsdp_activation_checkpointing")) is True:
            return
        yield self.finding(
            f"{key} without fsdp_activation_checkpointing: Accelerate stops with a ValueError",
            settings.fact(key),
            help="set fsdp_activation_checkpointing: true as well",
        )
