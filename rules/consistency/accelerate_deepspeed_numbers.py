"""CON009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Severity, Where
from cfglint.lint.fixes import remove_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings, argument, guessed, shown, trainer_fact, trainer_readings
from .mismatch import complete

_COMPARED = (
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
    ("gradient_clipping", "max_grad_norm"),
)


class AccelerateDeepspeedNumbersDiffer(Rule):
    """Accelerate's DeepSpeed settings state another accumulation or clipping than the trainer.

    Accelerate makes DeepSpeed's configuration from its `deepspeed_config`. transformers then compares
    `gradient_accumulation_steps` and `gradient_clipping` with its own arguments and stops: "Please correct the following
    DeepSpeed config values that mismatch TrainingArguments values: ds gradient_accumulation_steps=4 vs hf
    gradient_accumulation_steps=2". Without the keys, Accelerate leaves the trainer's values in force.

    How sure: the comparison is in transformers' source (4.57, 5.24) and reported. It is an error for TRL, LLaMA-Factory and
    Axolotl, and a warning for other scripts: one with a loop of its own takes Accelerate's number and only logs it.
    """

    code = "CON009"
    name = "accelerate-deepspeed-numbers-differ"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("accel.ga-mismatch-ds",)
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/201",
        "https://github.com/huggingface/accelerate/issues/2210",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
    )
    good = (
        example(
            {
                "run.sh": "accelerate launch --config_file zero2.yaml train.py --config sft.yaml",
                "zero2.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: DEEPSPEED
                num_processes: 8
                mixed_precision: bf16
                deepspeed_config:
                  zero_stage: 2
                  gradient_accumulation_steps: auto
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                gradient_accumulation_steps: 8
                num_train_epochs: 1
                bf16: true
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "run.sh": "accelerate launch --config_file zero2.yaml train.py --config sft.yaml",
                "zero2.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: DEEPSPEED
                num_processes: 8
                mixed_precision: bf16
                deepspeed_config:
                  zero_stage: 2
                  gradient_accumulation_steps: 1
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                gradient_accumulation_steps: 8
                num_train_epochs: 1
                bf16: true
                """,
            },
            at="gradient_accumulation_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not trainer_readings(job) or argument(job, "deepspeed") is not None:
            return
        for reading in job.readings:
            if reading.dialect != "accelerate" or reading.context.get("distributed_type") != "DEEPSPEED":
                continue
            settings = Settings(reading, ("deepspeed_config",), not guessed(job, reading))
            if isinstance(settings.node(), Mapping) and settings.value("deepspeed_config_file") is None:
                yield from self._compare(job, settings)

    def _compare(self, job: TrainingJob, settings: Settings) -> Iterator[Finding]:
        words, where, edits = [], [], []
        places: list[Where | tuple[Where, str]] = []
        for key, fact_name in _COMPARED:
            mine, theirs = settings.number(key), trainer_fact(job, fact_name)
            if mine is None or theirs is None or mine == theirs.value or (key == "gradient_clipping" and mine == 0):
                continue
            default = isinstance(theirs.origin, DefaultOrigin)
            words.append(
                f"{key} is {shown(mine)}, the trainer's {shown(theirs.value)}{' (its default)' if default else ''}"
            )
            where.append(key)
            places += [(settings.fact(key), f"Accelerate: {shown(mine)}"), (theirs, f"trainer: {shown(theirs.value)}")]
            edits.append(remove_key(settings.reading, (*settings.prefix, key)))
        if not words:
            return
        severity: Severity = "error" if complete(job) else "warning"
        made = tuple(edit for edit in edits if edit is not None)
        yield self.finding(
            f"Accelerate's {'; '.join(words)}: transformers stops with a ValueError",
            *places,
            help=f"leave {' and '.join(where)} out of deepspeed_config: the trainer's value is in force then",
            fixes=(Fix("leave it to the trainer", made, safe=False),) if len(made) == len(edits) else (),
            severity=severity,
            confidence="high" if severity == "error" else "medium",
            job=job,
        )
