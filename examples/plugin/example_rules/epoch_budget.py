"""ACM002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example


class EpochBudget(Rule):
    """Training run goes over its data more often than the company allows.

    The cap is a parameter: `[tool.cfglint.rules.ACM002] max-epochs = 10`. A run that states `max_steps` ends by steps,
    and its epochs do not count.

    How sure: the number of epochs in force, whichever file states it; a framework's default counts as well.
    """

    code = "ACM002"
    name = "epoch-budget"
    family = "house"
    severity = "error"
    kinds = ("train",)
    evidence = ("https://arxiv.org/abs/2305.16264",)
    parameters = {
        "max-epochs": Parameter(
            4, "repeating data up to four times is nearly as good as new data (Muennighoff et al.)"
        ),
    }
    good = (
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 3
            """,
        ),
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 100
            max_steps: 500
            """,
        ),
        example(
            {
                "cfglint.toml": """
                    [rules.ACM002]
                    max-epochs = 20
                    """,
                "sft.yaml": """
                    per_device_train_batch_size: 4
                    gradient_accumulation_steps: 8
                    num_train_epochs: 12
                    """,
            }
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 12
            """,
            at="num_train_epochs",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        epochs, most = job.epochs, self.options["max-epochs"]
        if epochs is None or job.max_steps is not None or epochs.value <= most:
            return
        yield self.finding(
            f"{epochs.value:g} epochs, {most:g} are allowed",
            epochs,
            help=f"at most {most:g}, or set a budget in steps with `max_steps`",
            data={"epochs": epochs.value, "max_epochs": most},
            job=job,
        )
