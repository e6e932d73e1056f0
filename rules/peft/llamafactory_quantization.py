"""PFT013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import names, on


class LlamafactoryQuantization(Rule):
    """LLaMA-Factory settings that do not go with a quantized model.

    With ``quantization_bit`` it refuses ``pissa_init`` ("Please use scripts/pissa_init.py"), ``resize_vocab`` ("Cannot resize
    embedding layers of a quantized model"), a second adapter ("Quantized model only accepts a single adapter"),
    ``create_new_adapter`` on an adapter, ``quantization_device_map: auto`` in training, and fp8.

    How sure: checks of LLaMA-Factory's argument parser, read in 0.9.5; they stop the run before the model is loaded.
    """

    code = "PFT013"
    name = "llamafactory-quantization"
    family = "peft"
    severity = "error"
    evidence = ("https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",)
    catalogue = ("quant.lf-rules",)
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
            pissa_init: false
            """,
        ),
    )
    bad = (
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
            resize_vocab: true
            """,
            at="resize_vocab",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "llamafactory" or reading.context.get("layout") == "v1":
            return
        if integer(reading.value("quantization_bit")) is None or reading.context.get("trains") is False:
            return
        for key, what in _clashes(reading):
            yield self.finding(
                f"{key}: {what}",
                reading.origin(key),
                (reading.origin("quantization_bit"), "the model is quantized"),
                help=f"remove {key}, or load the model without quantization",
            )


def _clashes(reading: Reading) -> Iterator[tuple[str, str]]:
    if on(reading, "pissa_init"):
        yield "pissa_init", "LLaMA-Factory does not initialize PiSSA on a quantized model"
    if on(reading, "resize_vocab"):
        yield "resize_vocab", "the embedding of a quantized model cannot be resized"
    adapters = names(reading, "adapter_name_or_path")
    if len(adapters) > 1:
        yield "adapter_name_or_path", f"a quantized model takes one adapter, {len(adapters)} are given"
    if adapters and on(reading, "create_new_adapter"):
        yield "create_new_adapter", "no new adapter can be made upon a quantized model"
    if reading.value("quantization_device_map") == "auto":
        yield "quantization_device_map", "auto is for inference, not for training"
    if on(reading, "fp8"):
        yield "fp8", "FP8 training does not go with quantization"
