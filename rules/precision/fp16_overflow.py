"""PRC001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Severity
from cfglint.lint.rule import Rule, example

from .overflow_families import CHECKED, FP16_MAX, Match, family_of
from .stated_precision import (
    bf16_instead,
    both_half_types,
    fp16_fact,
    hidden_nan,
    inference_only,
    supports,
    uses_deepspeed,
)


class Fp16Overflow(Rule):
    """The model's activations or gradients do not fit into fp16.

    The largest fp16 value is 65,504. Some families pass it in ordinary training: T5 and its descendants in the output of
    the feed-forward block, Pegasus in the encoder, Gemma 3 and gpt-oss in the residual stream. The loss then turns NaN,
    or the loss scaler skips steps until DeepSpeed stops with "Current loss scale already at minimum". bf16 has the range
    of fp32 and the same size as fp16.

    How sure: the list of families is data with its evidence (rules/precision/overflow_families.py), dated. It is an error
    where values beyond the range were measured in the products themselves, or in the residual stream and the weights are
    fp16; a warning where a training library or a single measurement says so, where autocast over fp32 weights keeps the
    residual stream in fp32, or where only the model's name shows its family. t5-small is not concerned, nor is
    evaluation without training: the implementations clamp there. A loss scale that fell to its minimum in single runs of BLOOM
    under DeepSpeed is information.
    """

    code = "PRC001"
    name = "fp16-overflow"
    family = "precision"
    severity = "error"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/transformers/issues/5651",
        "https://github.com/huggingface/transformers/issues/9295",
        "https://github.com/huggingface/transformers/issues/36822",
        "https://github.com/unslothai/unsloth-zoo/pull/866",
    )
    catalogue = ("fp16.overflow-listed-model", "fp16.bf16-native-model", "trainer.nan-filter-hides-nan")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: google/flan-t5-large
            bf16: true
            per_device_train_batch_size: 4
            learning_rate: 1.0e-4
            """,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: google-t5/t5-small
            fp16: true
            per_device_train_batch_size: 16
            learning_rate: 1.0e-4
            """,
            note="t5-small stays within the range",
        ),
        example(
            "predict.yaml",
            """
            model_name_or_path: google-t5/t5-base
            do_train: false
            do_predict: true
            fp16: true
            per_device_eval_batch_size: 16
            per_device_train_batch_size: 8
            num_train_epochs: 1
            """,
            note="no training: the fp16 forward pass is clamped",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: EleutherAI/gpt-neo-1.3B
            fp16: true
            block_size: 512
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            note="overflow was seen at 2,048 tokens",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: google-t5/t5-large
            fp16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            at="fp16",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: google/gemma-3-4b-it
            stage: sft
            do_train: true
            finetuning_type: lora
            template: gemma3
            dataset: our_data
            cutoff_len: 2048
            fp16: true
            per_device_train_batch_size: 1
            learning_rate: 1.0e-4
            """,
            at="fp16",
            count=1,
            note="LLaMA-Factory stores frozen weights in fp16 here",
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: google/mt5-base
                deepspeed: ds.json
                per_device_train_batch_size: 4
                learning_rate: 1.0e-4
                num_train_epochs: 3
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "fp16": {"enabled": true},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="enabled",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        fact = fp16_fact(job)
        if fact is None or both_half_types(job):
            return
        match = family_of(job)
        if match is None or inference_only(job):
            return
        if match.family.level == "isolated" and not (match.family.not_bf16 and uses_deepspeed(job)):
            return  # what was trained in bf16 is bf16-model-in-fp16's
        needed = match.family.from_sequence_length
        length = job.value("sequence_length")
        if needed and not (isinstance(length, int) and length >= needed):
            return
        severity, confidence = self._judge(job, match)
        verb = "may overflow" if severity == "info" else "overflows"
        where = {
            "linear": "in matrix products",
            "residual": "in the residual stream",
            "backward": "in the gradients",
        }[match.family.place]
        yield self.finding(
            f"{match.model_type} {verb} fp16 {where} (largest value {FP16_MAX:,.0f}): {match.family.seen}",
            (fact, "computes in fp16"),
            (job.model_id, f"a {match.model_type} model"),
            help=self._help(job),
            notes=(*(f"evidence: {source}" for source in match.family.sources[:2]), *hidden_nan(job)),
            fixes=bf16_instead(job),
            severity=severity,
            confidence=confidence,
            data={
                "model_type": match.model_type,
                "level": match.family.level,
                "place": match.family.place,
                "checked": CHECKED,
            },
            job=job,
        )

    def _judge(self, job: TrainingJob, match: Match) -> tuple[Severity, Confidence]:
        if match.family.level == "isolated":
            return "info", "low"
        if match.family.level != "measured" or not match.certain:
            return "warning", "medium"
        if match.family.place == "residual":
            weights = job.weight_dtype
            if weights is None or weights.value != "fp16":
                return "warning", "medium"
        return "error", "high"

    def _help(self, job: TrainingJob) -> str:
        answer = supports(job, "bf16")
        if answer is False:
            return f"train in fp32: {job.hardware.name} has no bf16"
        if answer is True:
            return "train in bf16"
        return "train in bf16 (Ampere and later), else in fp32"
