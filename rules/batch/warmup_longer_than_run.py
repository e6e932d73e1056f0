"""BAT002."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cfglint.estimate.batch import estimate_batch
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument_number, shown


class WarmupLongerThanRun(Rule):
    """Warmup takes as many steps as the run has, or more.

    The learning rate grows during warmup and falls after it. A run that ends within its warmup never reaches the learning
    rate that was set, and never decays: it trains at a fraction of it, in silence. This happens when `max_steps` is
    lowered for a trial, or when a warmup is copied from a longer run.

    How sure: both numbers are read from the files. Short runs are mostly trials or benchmarks of a longer recipe, so up to
    1000 steps it is information. The number of steps is `max_steps`, or follows from the data's size where a file
    states it (a number of samples gives the most steps there can be). Nothing is said where it depends on data that is not
    described.
    """

    code = "BAT002"
    name = "warmup-longer-than-run"
    family = "batch"
    severity = "warning"
    catalogue = ("hf.warmup-exceeds-total",)
    evidence = (
        "https://github.com/PrimeIntellect-ai/prime-rl/issues/968",
        "https://huggingface.co/docs/transformers/main_classes/optimizer_schedules",
    )
    parameters = {
        "share": Parameter(1.0, "share of the run from which warmup is too long; 1.0: only a run that never leaves it"),
        "trial": Parameter(1000, "runs of up to this many steps are taken for trials, where it is information"),
    }
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            max_steps: 1000
            warmup_steps: 100
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            num_train_epochs: 1
            warmup_steps: 100
            """,
            note="how many steps an epoch has is not known",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            max_train_samples: 4000
            per_device_train_batch_size: 4
            gradient_accumulation_steps: 4
            num_train_epochs: 1
            warmup_steps: 500
            """,
            at="warmup_steps",
            count=1,
            note="4,000 samples make 250 steps at most",
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            max_steps: 2000
            warmup_steps: 5000
            """,
            at="warmup_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        warmup = job.warmup_steps
        total = self._steps(job)
        share, trial = self.options["share"], self.options["trial"]
        if warmup is None or total is None or not isinstance(warmup.value, int) or warmup.value < 1:
            return
        if not isinstance(share, (int, float)) or warmup.value < total.value * share:
            return
        yield self.finding(
            f"warmup takes {warmup.value} steps, the run has {shown(total.value)}",
            (warmup, "warmup"),
            (total, "the run's length"),
            severity="info" if isinstance(trial, int) and total.value <= trial else "warning",
            help=f"warm up for fewer than {shown(total.value)} steps; 3 to 10 percent of a run are usual",
            job=job,
        )

    def _steps(self, job: TrainingJob) -> Fact[int] | None:
        if job.max_steps is not None:
            value = job.max_steps.value
            return Fact(value, job.max_steps.origin) if isinstance(value, int) and value > 0 else None
        if job.undecided("max_steps") or job.epochs is None:
            return None
        if job.dataset_tokens is None:
            return self._steps_of_samples(job)
        per_epoch = estimate_batch(job).steps_per_epoch
        if per_epoch is None or not isinstance(job.epochs.value, (int, float)) or job.epochs.value <= 0:
            return None
        return Fact(max(1, int(per_epoch * job.epochs.value)), job.dataset_tokens.origin)

    def _steps_of_samples(self, job: TrainingJob) -> Fact[int] | None:
        """The most steps a stated number of samples gives: on one GPU, unpacked. More GPUs and packing give fewer."""
        samples, epochs = argument_number(job, *SAMPLES), job.value("epochs")
        micro, turns = job.value("micro_batch_size"), job.value("gradient_accumulation_steps", 1)
        if samples is None or samples.value < 1 or not isinstance(epochs, (int, float)) or epochs <= 0:
            return None
        if not isinstance(micro, int) or not isinstance(turns, int) or job.undecided("gradient_accumulation_steps"):
            return None
        return Fact(max(1, math.ceil(math.ceil(samples.value / micro) / turns * epochs)), samples.origin)


SAMPLES = ("num_samples", "num_train_samples", "max_train_samples")
"""How files name the number of training samples. LLaMA-Factory's ``max_samples`` holds for each of several data sets."""
