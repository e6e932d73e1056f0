"""PFT015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import BITSANDBYTES_4BIT, DEQUANTIZED, fsdp_fact, hugging_face, stored_quantization, zero_3


class QuantizedCheckpoint(Rule):
    """A checkpoint that is quantized already is to be quantized again, or sharded.

    transformers 5 raises "The model is quantized with GPTQConfig but you are passing a BitsAndBytesConfig config"; earlier
    releases keep the checkpoint's own quantization and pass over yours with a warning. LLaMA-Factory passes over
    ``quantization_bit``, and raises "DeepSpeed ZeRO-3 or FSDP is incompatible with PTQ-quantized models", before 0.9.4 of
    FP8 and MXFP4 too.

    How sure: the checkpoint's config.json states its quantization. An error where the release is known to refuse it. Where
    only the model's name states it (`…-GPTQ-Int4`, `…-AWQ`), it is a warning.
    """

    code = "PFT015"
    name = "quantized-checkpoint"
    family = "peft"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/quantizers/auto.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/model/model_utils/quantization.py",
    )
    catalogue = ("quant.existing-config-wins", "quant.zero3-ptq")
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: ./model
                stage: sft
                finetuning_type: lora
                template: qwen
                dataset: identity
                output_dir: out
                """,
                "model/config.json": """
                {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
                 "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
                 "tie_word_embeddings": true, "torch_dtype": "float16",
                 "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
                """,
            },
            note="LoRA on a GPTQ checkpoint",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: ./model
                stage: sft
                finetuning_type: lora
                quantization_bit: 4
                template: qwen
                dataset: identity
                output_dir: out
                """,
                "model/config.json": """
                {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
                 "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
                 "tie_word_embeddings": true, "torch_dtype": "float16",
                 "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
                """,
            },
            at="quantization_bit",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        method, by_config = stored_quantization(job)
        if not method or method == "bitsandbytes" or not hugging_face(job):
            return
        factory = job.reading("llamafactory") is not None
        asked = job.quantization
        if asked is not None and asked.value in (BITSANDBYTES_4BIT | {"int8"}):
            new = always_at_least(context.version(job, "transformers"), "5") is True and not factory
            yield self.finding(
                f"the checkpoint is quantized already ({method}): "
                + ("transformers 5 refuses another method" if new else "this setting is passed over"),
                asked,
                (job.model_id, f"its config.json says quant_method {method}" if by_config else f"named as {method}"),
                help="take a checkpoint that is not quantized, or drop the setting",
                severity="error" if new and by_config else "warning",
                confidence="high" if by_config else "medium",
                job=job,
            )
        sharding = fsdp_fact(job) or zero_3(job)
        refuses = method not in DEQUANTIZED or always_below(context.version(job, "llamafactory"), "0.9.4") is True
        if factory and sharding is not None and refuses:
            yield self.finding(
                f"a checkpoint quantized with {method} cannot be sharded with ZeRO-3 or FSDP",
                sharding,
                (job.model_id, f"its config.json says quant_method {method}" if by_config else f"named as {method}"),
                help="use ZeRO-2 or plain data parallelism, or 4-bit bitsandbytes on the unquantized checkpoint",
                severity=self.severity if by_config else "warning",
                confidence="high" if by_config else "medium",
                job=job,
            )
