"""ACM001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example
from cfglint.source.node import Scalar, Sequence

KEY = "report_to"


class TrackedRuns(Rule):
    """Training run does not log to the company's experiment tracker.

    A run without a tracker leaves nothing to compare later runs with. Our runs name a tracker in `report_to`: what it is
    when the key is absent has changed between releases of transformers (`all` before 5.0, `none` since), so it has to be
    written.

    How sure: the key is read as it stands; a value that is only known when the run starts is left alone.
    """

    code = "ACM001"
    name = "untracked-run"
    family = "house"
    severity = "warning"
    kinds = ("train",)
    evidence = ("https://huggingface.co/docs/transformers/main_classes/trainer",)
    parameters = {
        "trackers": Parameter(["wandb", "mlflow"], "the services our dashboards read"),
    }
    good = (
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 2
            report_to: wandb
            """,
        ),
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 2
            report_to: [tensorboard, mlflow]
            """,
        ),
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 2
            report_to: ${TRACKER}
            """,
            note="known only when the run starts",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 2
            report_to: none
            """,
            at="report_to",
            count=1,
        ),
        example(
            "sft.yaml",
            """
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 8
            num_train_epochs: 2
            """,
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect not in ("hf-training-args", "trl", "llamafactory") or reading.role != "run":
            return
        ours = [str(name) for name in self.options["trackers"]]
        help = f"report_to: {ours[0]}" if ours else ""
        node = reading.at(KEY)
        if node is None:
            yield self.finding("the run names no experiment tracker", reading, help=help)
            return
        items = node.items if isinstance(node, Sequence) else [node]
        named = [str(item.value) for item in items if isinstance(item, Scalar)]
        if any("$" in name or name in ours or name == "all" for name in named):
            return
        shown = ", ".join(named) or "nothing"
        yield self.finding(
            f"the run logs to {shown}, our dashboards read {', '.join(ours)}", reading.origin(KEY), help=help
        )
