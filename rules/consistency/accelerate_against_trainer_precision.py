"""CON008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, guessed, trainer_readings

TYPES = ("fp16", "bf16")


class AccelerateAgainstTrainerPrecision(Rule):
    """Accelerate's `mixed_precision` is one format and the trainer's arguments another.

    transformers' trainer takes its own `fp16` or `bf16` and passes over Accelerate's `mixed_precision`, in silence. Whoever
    reads the Accelerate file takes the run for one in the other format; the two differ in range, and fp16 needs loss
    scaling.

    How sure: the order is in transformers' source (4.57 and 5.24, training_args.py). `mixed_precision: no` beside a
    trainer's switch is common and says nothing wrong: it is left alone, as is a trainer without a switch.
    """

    code = "CON008"
    name = "accelerate-against-trainer-precision"
    family = "consistency"
    severity = "warning"
    catalogue = ("accel.hf-mixed-precision-vs-args",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/training_args.py",
    )
    good = (
        example(
            {
                "run.sh": "accelerate launch --config_file ddp.yaml train.py --config sft.yaml",
                "ddp.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: MULTI_GPU
                num_processes: 8
                mixed_precision: 'no'
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                bf16: true
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "run.sh": "accelerate launch --config_file ddp.yaml train.py --config sft.yaml",
                "ddp.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: MULTI_GPU
                num_processes: 8
                mixed_precision: fp16
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                bf16: true
                """,
            },
            at="mixed_precision",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not trainer_readings(job):
            return
        on = [(name, fact) for name in TYPES if (fact := argument_on(job, name)) is not None and fact.value]
        reading, said = _mixed_precision(job)
        if len(on) != 1 or reading is None or said not in TYPES or said == on[0][0]:
            return
        if guessed(job, reading):
            return
        name, fact = on[0]
        yield self.finding(
            f"Accelerate says {said}, the trainer says {name}: the run computes in {name}",
            (Fact(said, reading.origin("mixed_precision")), f"Accelerate: {said}, passed over"),
            (fact, f"trainer: {name}"),
            help=f"write mixed_precision: {name}, or change the trainer's switch",
            job=job,
        )


def _mixed_precision(job: TrainingJob) -> tuple[Reading | None, str]:
    """Accelerate's word: the launch line's before the file's."""
    for reading in sorted(job.readings, key=lambda r: 0 if r.role == "launch" else 1):
        if reading.dialect in ("launch", "accelerate"):
            value = reading.value("mixed_precision")
            if isinstance(value, str):
                return reading, value
    return None, ""
