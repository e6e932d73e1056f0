"""RLH009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import number
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import given, on


class StageSettings(Rule):
    """LLaMA-Factory or Axolotl preference settings that miss or contradict what their stage needs.

    LLaMA-Factory raises "`reward_model` is necessary for PPO training", "`dpo_label_smoothing` is only valid for sigmoid loss
    function" and "Cannot use PiSSA for current training stage"; Axolotl "FSDP2 does not support load_in_8bit or load_in_4bit"
    for DPO, KTO, ORPO and IPO.

    How sure: checks made before the model is loaded, read in LLaMA-Factory 0.9.5 and Axolotl 0.19.
    """

    code = "RLH009"
    name = "stage-settings"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/finetuning_args.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = ("quant.fsdp2-rl",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: ppo
            finetuning_type: lora
            reward_model: saves/reward
            template: qwen
            dataset: identity
            output_dir: out
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: ppo
            finetuning_type: lora
            template: qwen
            dataset: identity
            output_dir: out
            """,
            at="stage",
            count=1,
        ),
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
            adapter: qlora
            load_in_4bit: true
            fsdp_version: 2
            fsdp_config:
              transformer_layer_cls_to_wrap: Qwen2DecoderLayer
            """,
            at="load_in_4bit",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect == "llamafactory" and reading.context.get("trains") is not False:
            yield from self._llamafactory(reading)
        elif reading.dialect == "axolotl" and reading.value("fsdp_version") == 2:
            kind = str(reading.value("rl") or "").lower()
            if kind in ("dpo", "kto", "orpo", "ipo"):
                for key in ("load_in_4bit", "load_in_8bit"):
                    if on(reading, key):
                        yield self.finding(
                            f"{key} with FSDP 2 is not supported for rl: {kind}",
                            reading.origin(key),
                            (reading.origin("fsdp_version"), "FSDP 2"),
                            help="use DeepSpeed or fsdp_version: 1",
                        )

    def _llamafactory(self, reading: Reading) -> Iterator[Finding]:
        stage = str(reading.value("stage") or "").lower()
        if stage == "ppo" and not given(reading, "reward_model") and not reading.context.get("command_line"):
            yield self.finding(
                "stage ppo needs a reward_model", reading.origin("stage"), help="name the reward model or adapter"
            )
        loss = reading.value("pref_loss")
        smoothing = number(reading.value("dpo_label_smoothing"))
        if stage == "dpo" and smoothing and smoothing > 1e-6 and loss not in (None, "sigmoid") and not is_unknown(loss):
            yield self.finding(
                f"dpo_label_smoothing is for pref_loss sigmoid, this one is {loss}",
                reading.origin("dpo_label_smoothing"),
                (reading.origin("pref_loss"), f"{loss} here"),
                help="remove dpo_label_smoothing",
            )
        referenced = stage == "dpo" and loss not in ("orpo", "simpo")
        if on(reading, "pissa_init") and (stage in ("ppo", "kto") or referenced):
            yield self.finding(
                f"pissa_init does not go with stage {stage}",
                reading.origin("pissa_init"),
                (reading.origin("stage"), f"stage {stage}"),
                help="PiSSA changes the base weights that the reference model needs: switch it off",
            )
