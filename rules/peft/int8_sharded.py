"""PFT007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import fsdp_1, fsdp_fact, hugging_face, zero_3


class Int8Sharded(Rule):
    """An 8-bit bitsandbytes model is sharded with FSDP or ZeRO-3.

    8-bit weights are int8 tensors with their scales beside them; neither FSDP nor ZeRO-3 can shard them. FSDP raises on
    flattening integer tensors; LLaMA-Factory says "Only 4-bit quantized model can use fsdp+qlora or auto device map".

    How sure: LLaMA-Factory raises for both. Elsewhere it rests on reports of the crash with FSDP 1 (Axolotl, PEFT's own
    example); it is a warning there, information where FSDP's version is not known, and FSDP 2 is left out.
    """

    code = "PFT007"
    name = "int8-sharded"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1709",
        "https://github.com/huggingface/peft/issues/2833",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/2250",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/model_utils/quantization.py",
    )
    catalogue = ("quant.fsdp-8bit",)
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
            adapter: qlora
            load_in_4bit: true
            fsdp: [full_shard, auto_wrap]
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
            fsdp_version: 1
            fsdp_config:
              transformer_layer_cls_to_wrap: Qwen2DecoderLayer
            fsdp: [full_shard, auto_wrap]
            """,
            at="load_in_8bit",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            quantization_bit: 8
            template: qwen
            dataset: identity
            output_dir: out
            fsdp: full_shard auto_wrap
            """,
            at="quantization_bit",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        quantization = job.quantization
        if quantization is None or quantization.value != "int8" or not hugging_face(job):
            return
        factory = job.reading("llamafactory") is not None
        sharding = fsdp_fact(job) or (zero_3(job) if factory else None)
        sure = fsdp_1(job)
        if sharding is None or (not factory and sure is False):
            return
        yield self.finding(
            "weights loaded in 8 bit cannot be sharded",
            quantization,
            (sharding, "sharded here"),
            help="load in 4 bit with a floating storage dtype, or use ZeRO-2 or plain data parallelism",
            severity="error" if factory else "warning" if sure else "info",
            confidence="high" if factory else "medium",
            job=job,
        )
