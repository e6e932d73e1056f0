"""RLH008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import given, on


class PackingWithPreferences(Rule):
    """Settings of supervised training in a preference or RL run that refuses them.

    Axolotl raises "`sample_packing: true` does not work with RLHF training" and, for KTO, "Set `remove_unused_columns: False`
    when using kto"; LLaMA-Factory refuses ``neat_packing``, ``train_on_prompt``, ``mask_history`` and
    ``predict_with_generate`` "except SFT".

    How sure: checks of Axolotl's schema (0.19) and LLaMA-Factory's parser (0.9.5), made before the model is loaded.
    """

    code = "RLH008"
    name = "packing-with-preferences"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
    )
    catalogue = ("rl.packing-with-rl", "data.remove-unused", "data.train-on-prompt-conflict")
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/preferences
                type: chat_template.default
            sequence_len: 2048
            micro_batch_size: 2
            rl: dpo
            sample_packing: false
            """,
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/preferences
                type: chat_template.default
            sequence_len: 2048
            micro_batch_size: 2
            rl: dpo
            sample_packing: true
            """,
            at="sample_packing",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: dpo
            finetuning_type: lora
            template: qwen
            dataset: dpo_en_demo
            output_dir: out
            neat_packing: true
            """,
            at="neat_packing",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect == "axolotl" and given(reading, "rl"):
            kind = str(reading.value("rl")).lower()
            if on(reading, "sample_packing"):
                yield self._finding(reading, "sample_packing", "rl", f"does not go with rl: {kind}", "switch it off")
            elif kind == "kto" and on(reading, "eval_sample_packing"):
                yield self._finding(reading, "eval_sample_packing", "rl", "does not go with rl: kto", "switch it off")
            if kind == "kto" and boolean(reading.value("remove_unused_columns")) is not False:
                key = "remove_unused_columns" if reading.entry("remove_unused_columns") else "rl"
                yield self.finding(
                    "rl: kto needs remove_unused_columns: false",
                    reading.origin(key),
                    help="add remove_unused_columns: false",
                )
        elif reading.dialect == "llamafactory" and reading.context.get("trains") is not False:
            stage = str(reading.value("stage") or "").lower()
            if stage in ("pt", "rm", "ppo", "dpo", "kto"):
                for key in ("neat_packing", "train_on_prompt", "mask_history", "predict_with_generate"):
                    if on(reading, key):
                        yield self._finding(
                            reading, key, "stage", f"is for stage sft, this one is {stage}", "switch it off"
                        )

    def _finding(self, reading: Reading, key: str, other: str, what: str, advice: str) -> Finding:
        return self.finding(
            f"{key} {what}", reading.origin(key), (reading.origin(other), f"{other} is stated here"), help=advice
        )
