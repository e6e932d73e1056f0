"""PFT002."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import insert_key
from cfglint.lint.rule import Rule, example

_SETTINGS: Final = ("lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_modules_to_save", "use_dora")


class LoraWithoutSwitch(Rule):
    """LoRA settings in a TRL config that does not switch adapters on: all parameters are trained.

    ``get_peft_config`` returns nothing unless ``use_peft`` is true. The run then needs the memory of a full fine-tuning, and
    a learning rate meant for adapters is applied to the whole model.

    How sure: TRL's own scripts and those built on its ``ModelConfig``. A script that builds its ``LoraConfig`` itself may
    read the keys another way. One key alone, or ``use_peft: false`` in so many words, is taken as meant.
    """

    code = "PFT002"
    name = "lora-without-switch"
    family = "peft"
    severity = "warning"
    confidence = "medium"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/utils.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/model_config.py",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            use_peft: true
            lora_r: 16
            lora_alpha: 32
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            use_peft: false
            lora_r: 16
            lora_alpha: 32
            """,
            note="switched off on purpose",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            lora_r: 16
            lora_alpha: 32
            """,
            at="lora_r",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "trl" or reading.role != "run" or reading.context.get("command_line"):
            return
        if any(reading.entry(key) is not None for key in ("use_peft", "use_lora", "use_qlora")):
            return
        found = [key for key in _SETTINGS if reading.value(key) is not None or reading.at(key) is not None]
        if len(found) < 2:
            return
        edit = insert_key(reading, (found[0],), "use_peft", "true")
        yield self.finding(
            f"{', '.join(found)} have no effect: use_peft is not on, so all parameters are trained",
            reading.origin(found[0]),
            *((reading.origin(key), "not read either") for key in found[1:]),
            help="add use_peft: true, or remove the LoRA settings",
            fixes=(Fix("add use_peft: true", (edit,), safe=False),) if edit else (),
        )
