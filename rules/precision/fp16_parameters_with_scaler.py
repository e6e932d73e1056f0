"""PRC003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin, DerivedOrigin, Fact, FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example

from ..trainer import trains_adapters
from .stated_precision import both_half_types, inference_only, uses_deepspeed, uses_fsdp

ADAPTERS_IN_FP32_SINCE = "0.12"
"""First PEFT release that keeps trained adapters in fp32 over fp16 weights (``autocast_adapter_dtype``)."""


class Fp16ParametersWithScaler(Rule):
    """fp16 mixed precision over trained parameters that are fp16 themselves.

    ``fp16: true`` brings a gradient scaler, and the scaler takes fp32 gradients only: the first optimizer step raises
    "ValueError: Attempting to unscale FP16 gradients". Mixed precision expects fp32 parameters and casts by itself, so
    parameters that are trained must not be loaded with ``dtype: float16``. From transformers 5 on a checkpoint's own
    dtype is the default, so an fp16 checkpoint does it without any key.

    How sure: raised by torch's GradScaler. DeepSpeed and FSDP bring scalers of their own and are left out. PEFT keeps
    adapters in fp32 since 0.12, so with adapters it is an error only for earlier releases and information where the release
    is not known; LLaMA-Factory casts what it trains, ms-swift loads it in the dtype that is stated. Where only transformers 5
    would load fp16 and the release is not known it is a warning.
    """

    code = "PRC003"
    name = "fp16-parameters-with-scaler"
    family = "precision"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/transformers/issues/23165",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/945",
        "https://github.com/2U1/Qwen-VL-Series-Finetune/issues/184",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_utils.py",
    )
    catalogue = ("fp16.pure-fp16-params-with-amp",)
    good = (
        example(
            "sft.sh",
            """
            swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type full --torch_dtype float16 --deepspeed zero3 \\
              --dataset our/data --per_device_train_batch_size 1
            """,
            note="DeepSpeed scales by itself",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            torch_dtype: float32
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: facebook/opt-350m
                torch_dtype: float16
                fp16: true
                deepspeed: ds.json
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "fp16": {"enabled": "auto"},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="DeepSpeed keeps fp32 masters",
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: facebook/opt-350m
                torch_dtype: float16
                fp16: true
                use_lora: true
                lora_r: 8
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "requirements.txt": """
                peft>=0.14
                """,
            },
            note="PEFT holds the adapters in fp32",
        ),
    )
    bad = (
        example(
            "sft.sh",
            """
            swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type full --torch_dtype float16 --dataset our/data \\
              --per_device_train_batch_size 1
            """,
            at="torch_dtype",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-350m
            torch_dtype: float16
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="torch_dtype",
            count=1,
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: lmsys/vicuna-7b-v1.3
                torch_dtype: float16
                fp16: true
                lora_enable: true
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
                "requirements.txt": """
                peft==0.4.0
                """,
            },
            at="torch_dtype",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute, weights = job.compute_dtype, job.weight_dtype
        if compute is None or weights is None or compute.value != "fp16" or weights.value != "fp16":
            return
        if uses_deepspeed(job) or uses_fsdp(job) or both_half_types(job) or inference_only(job):
            return
        if job.framework is None or job.framework.value not in ("transformers", "trl", "ms-swift"):
            return
        adapters = trains_adapters(job)
        if adapters is None:
            return
        judged = self._with_adapters(job, context) if adapters else self._without_adapters(job, weights, context)
        if judged is None:
            return
        severity, confidence, reason = judged
        yield self.finding(
            f"the gradient scaler of fp16 mixed precision takes no fp16 gradients, and the trained parameters are fp16{reason}",
            (weights, "parameters are loaded in fp16"),
            (compute, "gradient scaler"),
            help="load with dtype float32 (autocast still computes in fp16), or use bf16 for both",
            severity=severity,
            confidence=confidence,
            job=job,
        )

    def _with_adapters(self, job: TrainingJob, context: Context) -> tuple[Severity, Confidence, str] | None:
        stated = context.version(job, "peft")
        if job.value("quantization") is not None or not isinstance(_source(job.weight_dtype), FileOrigin):
            return None
        if always_below(stated, ADAPTERS_IN_FP32_SINCE):
            return "error", "high", f" (PEFT before {ADAPTERS_IN_FP32_SINCE} gives adapters the dtype of the weights)"
        if stated is None and job.value("framework") == "transformers":
            return "info", "low", f", unless PEFT is {ADAPTERS_IN_FP32_SINCE} or later and keeps the adapters in fp32"
        return None

    def _without_adapters(
        self, job: TrainingJob, weights: Fact[str], context: Context
    ) -> tuple[Severity, Confidence, str] | None:
        if isinstance(weights.origin, FileOrigin):
            return "error", "high", ""
        if not isinstance(weights.origin, (DerivedOrigin, DefaultOrigin)):
            return None
        newer = always_at_least(context.version(job, "transformers"), "5")
        if newer:
            return "error", "high", " as the checkpoint's are (transformers 5 loads a checkpoint in its own dtype)"
        if newer is None:
            return "warning", "medium", " with transformers 5, which loads a checkpoint in its own dtype"
        return None


def _source(fact: Fact[str] | None) -> object:
    return fact.origin if fact is not None else None
