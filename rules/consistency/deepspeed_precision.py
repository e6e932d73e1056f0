"""CON004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings, accelerate_reading, argument, argument_on, trainer_readings
from .mismatch import Mismatch, compared_settings, mismatch_finding

TYPES = ("fp16", "bf16")


class DeepspeedPrecisionDiffers(Rule):
    """DeepSpeed's `fp16` or `bf16` switch says otherwise than the trainer's.

    transformers compares `fp16.enabled` and `bf16.enabled` of the DeepSpeed file with its own `fp16` and `bf16` and stops
    with "Please correct the following DeepSpeed config values that mismatch TrainingArguments values", after the model has
    been loaded.

    How sure: the comparison is in transformers' source (4.45 to 5.24). A switch the trainer's arguments leave out counts
    as off where the other one is on; with neither on, it is a warning, and nothing is said where Accelerate's file or a
    framework (TRL, Axolotl's `bf16: auto`, LLaMA-Factory's `pure_bf16`) may still decide.
    """

    code = "CON004"
    name = "deepspeed-precision-differs"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("ds.hf-precision-mismatch",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                bf16: true
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "bf16": {"enabled": true},
                  "fp16": {"enabled": false},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
        ),
        example(
            {
                "qlora.yml": """
                base_model: Qwen/Qwen2.5-7B
                datasets:
                  - path: our/data
                    type: alpaca
                sequence_len: 2048
                micro_batch_size: 1
                num_epochs: 1
                bf16: auto
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "bf16": {"enabled": true},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="Axolotl's auto is bf16 on GPUs that have it",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                bf16: true
                num_train_epochs: 1
                per_device_train_batch_size: 1
                deepspeed: ds.json
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
        settings = compared_settings(job)
        if settings is None:
            return
        finding = mismatch_finding(self, job, settings, _mismatches(job, settings), "precision")
        if finding is not None:
            yield finding


def _mismatches(job: TrainingJob, settings: Settings) -> Iterator[Mismatch]:
    pure = argument_on(job, "pure_bf16")
    if pure is not None and pure.value:
        return
    said = {name: _said(job, name) for name in TYPES}
    one_is_on = any(fact is not None and fact.value is True for fact in said.values())
    for name in TYPES:
        mine = settings.on(name, "enabled")
        if mine is None:
            continue
        theirs = said[name]
        unsaid = theirs is None and argument(job, name) is None
        if unsaid and (one_is_on or (mine and _may_be_default(job))):
            theirs = Fact(False, DefaultOrigin("transformers"))
        if theirs is not None and theirs.value is not mine:
            yield Mismatch((name, "enabled"), settings.fact(name, "enabled"), theirs, name)


def _said(job: TrainingJob, name: str) -> Fact[bool] | None:
    """The trainer's switch, or its switch for evaluation, which transformers takes as well."""
    found = argument_on(job, name)
    if found is None or not found.value:
        full = argument_on(job, f"{name}_full_eval")
        if full is not None and full.value:
            return full
    return found


def _may_be_default(job: TrainingJob) -> bool:
    """Whether both switches stay off where no file says anything."""
    plain = all(r.dialect in ("hf-training-args", "llamafactory") for r in trainer_readings(job))
    launch = job.reading("launch")
    told = launch is not None and launch.at("mixed_precision") is not None
    return plain and accelerate_reading(job) is None and not told
