"""CON005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example

from ..trainer import argument_number, shown
from .mismatch import compared_settings


class FixedTotalSteps(Rule):
    """DeepSpeed's `total_num_steps` is a fixed number that the trainer computes itself.

    transformers works the number of steps out from the data, the batch and the epochs and compares it with the
    scheduler's `total_num_steps`; anything but that very number stops the run with a ValueError, after the model has been
    loaded. A 0 never is that number.

    How sure: the comparison is in transformers' source (4.45 to 5.24). A 0, or a number other than a stated `max_steps`, is
    an error; any other fixed number is a warning, since it is right for one size of data only.
    """

    code = "CON005"
    name = "fixed-total-steps"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("ds.total-num-steps-zero", "ds.hf-lr-mismatch")
    evidence = (
        "https://github.com/huggingface/transformers/issues/29348",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/integrations/deepspeed.py",
    )
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                max_steps: 2000
                per_device_train_batch_size: 1
                learning_rate: 1.0e-5
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2000, "warmup_num_steps": "auto"}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                num_train_epochs: 3
                per_device_train_batch_size: 1
                learning_rate: 1.0e-5
                deepspeed: ds.json
                """,
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": "auto",
                  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 0, "warmup_num_steps": "auto"}},
                  "zero_optimization": {"stage": 2}
                }
                """,
            },
            at="total_num_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        settings = compared_settings(job)
        if settings is None:
            return
        route = ("scheduler", "params", "total_num_steps")
        mine = settings.integer(*route)
        if mine is None:
            return
        steps = argument_number(job, "max_steps")
        wanted = int(steps.value) if steps is not None and steps.value >= 1 else None
        if mine == wanted:
            return
        certain = mine <= 0 or wanted is not None
        edit = replace_value(settings.reading, (*settings.prefix, *route), '"auto"')
        said = f", max_steps is {wanted}" if wanted is not None else ", which the trainer computes from the data"
        yield self.finding(
            f"DeepSpeed's total_num_steps is {shown(mine)}{said}",
            (settings.fact(*route), "a fixed number"),
            (steps, "the trainer's number of steps") if wanted is not None else None,
            help='write "auto": the trainer fills its own number in',
            fixes=(Fix("let the trainer fill in total_num_steps", (edit,), safe=False),) if edit else (),
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            job=job,
        )
