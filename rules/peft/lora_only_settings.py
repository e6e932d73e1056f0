"""PFT014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import given, on


class LoraOnlySettings(Rule):
    """LLaMA-Factory settings of LoRA in a run that trains something else, or of another method beside LoRA.

    ``use_dora``, ``use_rslora``, ``pissa_init`` and ``loraplus_lr_ratio`` raise "is only valid for LoRA training";
    ``adapter_name_or_path`` raises "Adapter is only valid for the LoRA method"; LoRA with GaLore, APOLLO or BAdam raises too.

    How sure: checks of LLaMA-Factory's arguments, read in 0.9.5.
    """

    code = "PFT014"
    name = "lora-only-settings"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/finetuning_args.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
    )
    catalogue = ("peft.lora-only-args-full",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: full
            lora_rank: 8
            use_dora: false
            template: qwen
            dataset: identity
            output_dir: out
            """,
            note="a rank left over from LoRA does no harm",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: full
            use_dora: true
            template: qwen
            dataset: identity
            output_dir: out
            """,
            at="use_dora",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            use_galore: true
            template: qwen
            dataset: identity
            output_dir: out
            """,
            at="use_galore",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        kind = reading.context.get("finetuning_type")
        if reading.dialect != "llamafactory" or kind is None or reading.context.get("trains") is False:
            return
        if is_unknown(reading.value("finetuning_type")):
            return
        if kind == "lora":
            found = [key for key in ("use_galore", "use_apollo", "use_badam") if on(reading, key)]
            message = "{} does not go with LoRA"
        elif kind in ("full", "freeze"):
            found = [key for key in ("use_dora", "use_rslora", "pissa_init") if on(reading, key)]
            found += [key for key in ("loraplus_lr_ratio", "adapter_name_or_path") if given(reading, key)]
            message = "{} is valid for LoRA only, and finetuning_type is " + str(kind)
        else:
            return
        for key in found:
            where = ((reading.origin("finetuning_type"), f"{kind} here"),) if reading.entry("finetuning_type") else ()
            yield self.finding(
                message.format(key),
                reading.origin(key),
                *where,
                help=f"remove {key}, or change finetuning_type",
            )
