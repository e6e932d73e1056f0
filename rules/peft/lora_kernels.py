"""PFT017."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import on

_KERNELS: Final = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")


class LoraKernels(Rule):
    """Axolotl's LoRA kernels with 8-bit weights or with remote code.

    Its schema raises "lora_mlp_kernel, lora_qkv_kernel, and lora_o_kernel are not compatible with 8-bit LoRA" and "… with
    trust_remote_code".

    How sure: checks of Axolotl's schema, made before the model is loaded: for 8-bit weights in every release that has the
    kernels (0.7 to 0.19), for remote code since 0.15 (a warning where the release is not known).
    """

    code = "PFT017"
    name = "lora-kernels"
    family = "peft"
    severity = "error"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",)
    catalogue = ("peft.lora-kernels",)
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
            adapter: lora
            load_in_8bit: true
            lora_mlp_kernel: false
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
            adapter: lora
            load_in_8bit: true
            lora_mlp_kernel: true
            """,
            at="lora_mlp_kernel",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "axolotl":
            return
        kernel = next((key for key in _KERNELS if on(reading, key)), None)
        if kernel is None:
            return
        if reading.value("adapter") == "lora" and on(reading, "load_in_8bit"):
            other, what = "load_in_8bit", "8-bit weights"
        elif on(reading, "trust_remote_code"):
            other, what = "trust_remote_code", "trust_remote_code"
        else:
            return
        known = other == "load_in_8bit" or always_at_least(context.version(reading, "axolotl"), "0.15") is True
        yield self.finding(
            f"{kernel} does not go with {what}",
            reading.origin(kernel),
            (reading.origin(other), "on here"),
            help=f"switch the lora_*_kernel keys off, or {other}",
            severity="error" if known else "warning",
        )
