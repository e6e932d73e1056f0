"""CON001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DerivedOrigin, Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.whole_number import whole_number

from ..trainer import Settings, argument_on, trainer_fact
from .mismatch import Mismatch, compared_settings, mismatch_finding

_NAMES = {
    "micro_batch_size": ("train_micro_batch_size_per_gpu", "per_device_train_batch_size"),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", "gradient_accumulation_steps"),
}


class DeepspeedBatchDiffers(Rule):
    """DeepSpeed's batch settings differ from the trainer's arguments.

    transformers compares `train_micro_batch_size_per_gpu`, `gradient_accumulation_steps` and `train_batch_size` of the
    DeepSpeed file with its own arguments and stops: "Please correct the following DeepSpeed config values that mismatch
    TrainingArguments values". It does so after the model has been loaded. A number in quotes differs from the number.

    How sure: the comparison is in transformers' source, all versions read (4.45 to 5.24). `train_batch_size` is compared
    only where the number of GPUs is known. With `auto_find_batch_size` transformers skips the comparison, and so does this
    rule. Where the trainer's side is a default and a script may set it in code, it is a warning, as it is for a script that only
    Accelerate leads to DeepSpeed: in one with a loop of its own Accelerate settles the two, and only logs it. Files that only lie
    side by side are not compared.
    """

    code = "CON001"
    name = "deepspeed-batch-differs"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("ds.hf-batch-mismatch", "accel.ga-mismatch-ds")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
        "https://github.com/hiyouga/LlamaFactory/issues/1116",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                deepspeed: ds.json
                num_train_epochs: 1
                """,
                "ds.json": """
                {
                  "train_batch_size": "auto",
                  "train_micro_batch_size_per_gpu": "auto",
                  "gradient_accumulation_steps": 8,
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="a number is fine where it is the trainer's own",
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                num_train_epochs: 1
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 2,
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            note="nothing says that the two are used together",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                deepspeed: ds.json
                num_train_epochs: 1
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 2,
                  "gradient_accumulation_steps": 8,
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="train_micro_batch_size_per_gpu",
            count=1,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 4
                gradient_accumulation_steps: 8
                deepspeed: ds.json
                num_train_epochs: 1
                """,
                "ds.json": """
                {
                  "train_batch_size": 128,
                  "train_micro_batch_size_per_gpu": "auto",
                  "gradient_accumulation_steps": "auto",
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            gpu="A100-80GB",
            gpus=8,
            at="train_batch_size",
            count=1,
            note="4 × 8 × 8 GPUs make 256",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = compared_settings(job)
        if settings is None:
            return
        finder = argument_on(job, "auto_find_batch_size")
        finding = mismatch_finding(
            self, job, settings, batch_mismatches(job, settings, bool(finder and finder.value)), "batch settings"
        )
        if finding is not None:
            yield finding


def batch_mismatches(job: TrainingJob, settings: Settings, batch_is_searched: bool = False) -> Iterator[Mismatch]:
    """Batch keys of DeepSpeed's settings that are not what the trainer makes of its arguments."""
    values = {}
    for fact_name, (key, name) in _NAMES.items():
        theirs = trainer_fact(job, fact_name)
        values[fact_name] = theirs
        mine = settings.value(key)
        if theirs is None or not isinstance(theirs.value, int) or mine is None:
            continue
        if (isinstance(mine, str) and whole_number(mine) is None) or isinstance(mine, bool):
            continue
        if mine != theirs.value and not (batch_is_searched and fact_name == "micro_batch_size"):
            words = (
                "the number in quotes is text" if isinstance(mine, str) and whole_number(mine) == theirs.value else ""
            )
            yield Mismatch((key,), settings.fact(key), theirs, name, words)
    total = settings.number("train_batch_size")
    micro, accumulation, world = (
        values["micro_batch_size"],
        values["gradient_accumulation_steps"],
        job.hardware.world_size,
    )
    if total is None or micro is None or accumulation is None or world is None or batch_is_searched:
        return
    if not isinstance(micro.value, int) or not isinstance(accumulation.value, int) or _split(job):
        return
    product = micro.value * accumulation.value * world
    if product != total:
        how = f"{micro.value} × {accumulation.value} × {world} GPUs"
        origin = micro.origin if not isinstance(micro.origin, DerivedOrigin) else accumulation.origin
        yield Mismatch(
            ("train_batch_size",),
            settings.fact("train_batch_size"),
            Fact(product, origin),
            "the trainer's product",
            how,
        )


def _split(job: TrainingJob) -> bool:
    """Whether GPUs share a micro-batch, so that not every GPU counts."""
    return any(
        job.stated(name) and job.value(name) != 1
        for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
    )
