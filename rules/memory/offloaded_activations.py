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
    `activation_checkpointing=True`", and with FSDP 1 too. Axolotl stops with "activation_offloading requires
    gradient_checkpointing", torchtune with "enable_activation_offloading should only be True when
    enable_activation_checkpointing is True".

    How sure: the checks are in the sources of Accelerate (1.15), Axolotl (0.12 to 0.19) and torchtune's recipes.
    """

    code = "MEM018"
    name = "offloaded-activations"
    family = "memory"
    severity = "error"
    catalogue = ("mem.act-offload-wo-ckpt",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/pytorch/torchtune/blob/main/recipes/full_finetune_single_device.py",
    )
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
        example(
            "full.yaml",
            """
            model:
              _component_: torchtune.models.llama3_1.llama3_1_8b
            enable_activation_checkpointing: True
            enable_activation_offloading: True
            batch_size: 2
            epochs: 1
            dtype: bf16
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
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 1
            activation_offloading: true
            """,
            at="activation_offloading",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        other = _SWITCHES.get(reading.dialect)
        if other is not None:
            key, needed, framework = other
            if reading.role != "run" or reading.carrier is not None or reading.context.get("command_line"):
                return  # words on a command change a recipe that is not in sight
            offloading = reading.value(key)
            named = isinstance(offloading, str) and offloading.lower() in _KINDS
            if (boolean(offloading) is True or named) and not _on(reading, needed):
                yield self.finding(
                    f"{key} without {needed}: {framework} stops with an error",
                    reading.origin(key),
                    help=f"set {needed}: true as well",
                )
            return
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


_SWITCHES = {
    "axolotl": ("activation_offloading", "gradient_checkpointing", "Axolotl"),
    "torchtune": ("enable_activation_offloading", "enable_activation_checkpointing", "torchtune"),
}
"""The switch, what it needs, and who says so."""

_KINDS = frozenset({"legacy", "disk", "hidden_states"})
"""Axolotl's kinds of offloading."""


def _on(reading: Reading, key: str) -> bool:
    """Whether checkpointing is on; a word (Axolotl's ``offload``) or a value filled in later counts as on."""
    value = reading.value(key)
    return bool(value) and boolean(value) is not False
