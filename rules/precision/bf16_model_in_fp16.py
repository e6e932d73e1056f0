"""PRC002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import stored_quantization
from ..trainer import trains_adapters
from .overflow_families import Match, family_of
from .stated_precision import (
    bf16_instead,
    both_half_types,
    fp16_fact,
    hidden_nan,
    inference_only,
    supports,
    uses_deepspeed,
)

BF16 = ("bf16", "bfloat16")


class Bf16ModelInFp16(Rule):
    """A model trained in bf16 is trained on in fp16, whose range is far smaller.

    bf16 reaches 3.4e38, fp16 65,504. Weights that were trained in bf16 never had to stay within fp16's range, so
    activations or gradients may pass it: NaN, skipped steps, or DeepSpeed's "Current loss scale already at minimum -
    cannot decrease scale anymore". On an accelerator that has bf16 nothing is gained by fp16: the sizes are the same.

    How sure: what the checkpoint was trained in comes from its config or the catalogue. Many such models (Llama, Mistral)
    do train in fp16 with loss scaling, so it is a warning where the accelerator has bf16 and information where it is not
    known; on GPUs without bf16 fp16 is the right choice and nothing is said. Families with measured overflow are fp16-overflow's,
    those with single reports of one (Qwen2) are told of here. A model that is not known, of a family with reports under DeepSpeed, or of Baichuan, is information.
    """

    code = "PRC002"
    name = "bf16-model-in-fp16"
    family = "precision"
    severity = "warning"
    confidence = "medium"
    fixable = "unsafe"
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/issues/4017",
        "https://github.com/deepspeedai/DeepSpeedExamples/issues/418",
        "https://github.com/hiyouga/LlamaFactory/issues/986",
    )
    catalogue = (
        "fp16.bf16-native-model",
        "fp16.overflow-listed-model",
        "trainer.nan-filter-hides-nan",
        "awq-gptq.fp16-adapter-nan",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: mistralai/Mistral-7B-v0.1
            bf16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            gpu="A100-80GB",
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: mistralai/Mistral-7B-v0.1
            fp16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            gpu="T4",
            note="Turing has no bf16: fp16 with loss scaling is the right choice",
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: facebook/opt-1.3b
            fp16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            gpu="A100-80GB",
            note="OPT was trained in fp16",
        ),
        example(
            {
                "qlora.yaml": """
                model_name_or_path: meta-llama/Llama-2-7b-hf
                load_in_4bit: true
                bnb_4bit_compute_dtype: bfloat16
                dtype: float16
                lora_r: 8
                per_device_train_batch_size: 2
                """,
                "accelerate.yaml": "distributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_processes: 2\n",
                "run.sh": "accelerate launch --config_file accelerate.yaml sft.py --config qlora.yaml\n",
            },
            note="the 4-bit layers compute in bf16, whatever the rest was loaded in",
        ),
        example(
            {
                "full.yaml": """
                model_name_or_path: meta-llama/Llama-2-7b-hf
                per_device_train_batch_size: 2
                """,
                "accelerate.yaml": "distributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_processes: 2\n",
                "run.sh": "accelerate launch --config_file accelerate.yaml sft.py --config full.yaml\n",
            },
            note="nobody asks for fp16: it is the checkpoint's dtype in transformers 5 and fp32 before",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: mistralai/Mistral-7B-v0.1
            fp16: true
            per_device_train_batch_size: 1
            learning_rate: 2.0e-5
            """,
            gpu="A100-80GB",
            at="fp16",
            count=1,
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen1.5-7B-Chat
                stage: sft
                do_train: true
                finetuning_type: lora
                template: qwen
                dataset: our_data
                fp16: true
                learning_rate: 1.0e-5
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "fp16": {"enabled": "auto"},
                  "zero_optimization": {"stage": 3}
                }
                """,
            },
            at="fp16",
            count=1,
            note="no accelerator is named: information",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        fact = fp16_fact(job)
        if fact is None or both_half_types(job) or inference_only(job) or job.reading("torchtune") is not None:
            return  # torchtune refuses fp16 altogether: PRC025
        has_bf16 = supports(job, "bf16")
        if has_bf16 is False:
            return
        match = family_of(job)
        if match is not None and match.family.level != "isolated":
            return
        native, sourced = self._native(job)
        if native is None and match is not None and not match.family.not_bf16:
            if uses_deepspeed(job) or match.family.without_deepspeed:
                yield self._reported(job, fact, match)
            return
        if native not in BF16:
            return
        severity: Severity = "warning" if has_bf16 and sourced else "info"
        confidence: Confidence = "medium" if sourced else "low"
        yield self.finding(
            f"{job.value('model_id')} was trained in bf16 and is trained on in fp16: values beyond 65,504 become inf",
            (fact, "computes in fp16"),
            (job.model_id, "trained in bf16"),
            help="bf16 takes the same memory and has the range of fp32"
            + ("" if has_bf16 else ", on Ampere and later GPUs"),
            notes=(*self._reports(match), *self._quantized(job), *hidden_nan(job)),
            fixes=bf16_instead(job),
            severity=severity,
            confidence=confidence,
            data={"native_dtype": native, "sourced": sourced},
            job=job,
        )

    def _reported(self, job: TrainingJob, fact: Fact[str], match: Match) -> Finding:
        """A model that is not known, of a family with reports."""
        return self.finding(
            f"{job.value('model_id')} is trained in fp16: {match.family.seen}",
            (fact, "computes in fp16"),
            (job.model_id, f"a {match.model_type} model"),
            help="bf16 takes the same memory and has the range of fp32, on Ampere and later GPUs",
            notes=(*self._reports(match), *hidden_nan(job)),
            severity="info",
            confidence="low",
            job=job,
        )

    def _quantized(self, job: TrainingJob) -> tuple[str, ...]:
        method, _ = stored_quantization(job)
        if method not in ("awq", "gptq") or not trains_adapters(job):
            return ()
        return (f"most kernels for {method.upper()} compute in fp16: bitsandbytes' 4 bits with bf16 avoid it",)

    def _native(self, job: TrainingJob) -> tuple[str | None, bool]:
        """What the checkpoint was trained in, and whether that is read or sourced rather than the family's habit."""
        model = job.model
        if model is None:
            return None, False
        row = model.row
        trained_in = getattr(row, "trained_in", None)
        if isinstance(trained_in, str) and trained_in:
            return trained_in, True
        if model.architecture is not None and model.source != "catalogue":
            return model.architecture.native_dtype, model.architecture.native_dtype is not None
        if row is not None:
            return row.native_dtype, bool(row.native_dtype_sourced)
        if model.taken_as and model.architecture is not None:
            return model.architecture.native_dtype, False
        return None, False

    def _reports(self, match: Match | None) -> tuple[str, ...]:
        if match is None:
            return ()
        return (f"reported: {match.family.seen} ({match.family.sources[0]})",)
