"""PFT013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import DEQUANTIZED, names, on, stored_quantization, trainer_reading


class LlamafactoryQuantization(Rule):
    """LLaMA-Factory settings that do not go with a quantized model.

    With ``quantization_bit`` it refuses ``pissa_init`` ("Please use scripts/pissa_init.py"), ``resize_vocab`` ("Cannot resize
    embedding layers of a quantized model"), a second adapter ("Quantized model only accepts a single adapter"),
    ``create_new_adapter`` on an adapter, ``quantization_device_map: auto`` in training, and fp8. A checkpoint that is
    quantized already takes LoRA only, and no ``pissa_init`` ("Cannot initialize PiSSA adapter on quantized models").

    How sure: checks of LLaMA-Factory's argument parser, read in 0.9.5; they stop the run before the model is loaded. Those on
    a quantized checkpoint stop it after (model/adapter.py, 0.9.1 to 0.9.5); where only its name says that it is quantized
    (``…-AWQ``), it is a warning.
    """

    code = "PFT013"
    name = "llamafactory-quantization"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/adapter.py",
        "https://github.com/hiyouga/LlamaFactory/issues/4923",
    )
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
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct-AWQ
            stage: sft
            finetuning_type: lora
            template: qwen
            dataset: identity
            output_dir: out
            pissa_init: true
            """,
            at="pissa_init",
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

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = trainer_reading(job, "llamafactory")
        method, by_config = stored_quantization(job)
        if reading is None or reading.context.get("trains") is False or not method or method in DEQUANTIZED:
            return
        if integer(reading.value("quantization_bit")) is not None:
            return  # judged above
        kind = reading.value("finetuning_type")
        key = "pissa_init" if on(reading, "pissa_init") else "finetuning_type" if kind in ("full", "freeze") else ""
        if not key:
            return
        what = (
            "PiSSA is not initialized on a quantized checkpoint" if key == "pissa_init" else f"{kind} cannot train it"
        )
        yield self.finding(
            f"{key}: the checkpoint is quantized ({method}), {what}",
            reading.origin(key),
            (job.model_id, f"its config.json says quant_method {method}" if by_config else f"named as {method}"),
            help=f"remove {key}, or take the checkpoint that is not quantized",
            severity="error" if by_config else "warning",
            confidence="high" if by_config else "medium",
            job=job,
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
