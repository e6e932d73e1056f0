"""PFT004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import is_unknown
from cfglint.dialects.values import integer
from cfglint.jobs.facts import FileOrigin, Origin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import given, on, trainer_reading


class QuantizedWithoutAdapter(Rule):
    """A model loaded in 4 or 8 bit is trained without adapters.

    Quantized weights take no gradients. The Trainer raises "You cannot perform fine-tuning on purely quantized models",
    LLaMA-Factory "Quantization is only compatible with the LoRA or OFT method", Axolotl "load_in_8bit and load_in_4bit are
    not supported without setting an adapter for training".

    How sure: Axolotl and LLaMA-Factory check it in every release read. In TRL it is ``use_peft`` that decides; its scripts
    end in the Trainer's own check. A script of one's own may attach adapters in code and is not judged.
    """

    code = "PFT004"
    name = "quantized-without-adapter"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer_utils.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/peft.py",
    )
    catalogue = ("quant.full-ft-on-quantized", "quant.lf-rules", "quant.torch-compile")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            quantization_bit: 4
            template: qwen
            dataset: identity
            output_dir: out
            """,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            per_device_train_batch_size: 2
            num_train_epochs: 1
            load_in_4bit: true
            """,
            note="the script may attach adapters in code",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: full
            quantization_bit: 4
            template: qwen
            dataset: identity
            output_dir: out
            """,
            at="quantization_bit",
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
            micro_batch_size: 2
            load_in_8bit: true
            """,
            at="load_in_8bit",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            load_in_4bit: true
            """,
            at="load_in_4bit",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        for place, why, sure in _without_adapter(job):
            yield self.finding(
                f"the model is loaded quantized, but {why}: quantized weights cannot be trained",
                place,
                help="train adapters on it (LoRA), or load it without quantization",
                severity="error" if sure else "warning",
                confidence="high" if sure else "medium",
                job=job,
            )


def _without_adapter(job: TrainingJob) -> Iterator[tuple[Origin, str, bool]]:
    factory = trainer_reading(job, "llamafactory")
    if factory is not None and integer(factory.value("quantization_bit")) is not None:
        kind = factory.value("finetuning_type")
        if kind in ("full", "freeze") and factory.context.get("trains") is not False:
            yield factory.origin("quantization_bit"), f"finetuning_type is {kind}", True
    axolotl = job.reading("axolotl")
    # `gptq` is the switch of releases that loaded a 4-bit LLaMA by themselves
    old = axolotl is not None and on(axolotl, "gptq")
    if axolotl is not None and not old and not given(axolotl, "adapter") and not is_unknown(axolotl.value("adapter")):
        for key in ("load_in_4bit", "load_in_8bit"):
            if on(axolotl, key):
                yield axolotl.origin(key), "no adapter is set", True
                break
    trl = job.reading("trl")
    if trl is not None and trl.role == "run" and trl.context.get("adapters_on") is False:
        for key in ("load_in_4bit", "load_in_8bit"):
            origin: FileOrigin = trl.origin(key)
            if on(trl, key):
                own = not trl.context.get("command_line")
                yield (
                    origin,
                    "use_peft is not on",
                    own and trl.context.get("trainer") == "sft" and trl.value("use_peft") is False,
                )
                break
