"""HWF012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .capability import described, vendor

BITSANDBYTES_8BIT = frozenset({
    "adamw_8bit", "paged_adamw_8bit", "ademamix_8bit", "paged_ademamix_8bit", "lion_8bit", "paged_lion_8bit",
    "rmsprop_bnb_8bit", "galore_adamw_8bit",
})  # fmt: skip


class EightBitOptimizer(Rule):
    """bitsandbytes' 8-bit optimizer on an accelerator it has none for.

    bitsandbytes lists 8-bit optimizers as not supported on Intel Gaudi and on Apple silicon: there is no kernel behind the
    step.

    How sure: bitsandbytes' table of accelerators (0.49). The table grows with releases, so it is a warning.
    """

    code = "HWF012"
    name = "eight-bit-optimizer-support"
    family = "hardware"
    severity = "warning"
    confidence = "medium"
    evidence = ("https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.49.2/README.md",)
    catalogue = ("hw.bnb-gaudi-optim",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            optim: adamw_8bit
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="A100-80GB",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            bf16: true
            optim: adamw_8bit
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="Gaudi2",
            at="optim",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        optimizer = job.optimizer
        if (
            optimizer is None
            or optimizer.value not in BITSANDBYTES_8BIT
            or not isinstance(optimizer.origin, FileOrigin)
        ):
            return
        gaudi = all(a.id.startswith("Gaudi") for a in job.hardware.candidates) and bool(job.hardware.candidates)
        if not gaudi and vendor(job) != "Apple":
            return
        yield self.finding(
            f"bitsandbytes has no 8-bit optimizer for {described(job)}",
            (optimizer, optimizer.value),
            (job.hardware.origin, "not supported by bitsandbytes"),
            help="use adamw_torch",
            job=job,
        )
