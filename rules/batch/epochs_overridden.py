"""BAT013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_number, shown


class EpochsOverridden(Rule):
    """`max_steps` is set beside a number of epochs, which has no effect then.

    transformers' trainer stops after `max_steps` optimizer steps, however many epochs are asked for, and mentions it at log
    level info. A `max_steps` left over from a trial ends a long run early; one beyond the data repeats it.

    How sure: in transformers' trainer.py (5.24) and its documentation. Templates carry both and mean one, so it is
    information for strict readers; `max_steps: -1` and 0 mean not set.
    """

    code = "BAT013"
    name = "epochs-overridden"
    family = "batch"
    severity = "info"
    persona = "strict"
    catalogue = ("hf.max-steps-overrides-epochs",)
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            max_steps: -1
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 3
            max_steps: 50
            """,
            at="num_train_epochs",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        steps = argument_number(job, "max_steps")
        epochs = argument_number(job, "num_train_epochs", "num_epochs")
        if steps is None or epochs is None or steps.value < 1 or epochs.value <= 0:
            return
        yield self.finding(
            f"{shown(epochs.value)} epochs are asked for, the run stops after max_steps {shown(steps.value)}",
            (epochs, "passed over"),
            (steps, "in force"),
            help="keep one of the two",
            job=job,
        )
