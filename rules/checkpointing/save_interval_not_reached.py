"""CKP002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument_number, shown
from .intervals import applies, saving

SAVES_AT_END_FROM = "4.40"
"""transformers releases before this one write no last checkpoint with ``save_strategy: steps`` (#30160)."""


class SaveIntervalNotReached(Rule):
    """The run ends before its first checkpoint is due.

    `save_steps` beyond `max_steps` means that nothing is written during training. Newer transformers write one checkpoint at
    the end; whatever stops the run before that (a time limit, a spot instance, a crash) loses all of it. Before 4.40 no
    checkpoint was written at all.

    How sure: both numbers are in the file. It is information: a short run may well save once, at its end, and many scripts
    save the model themselves after training.
    """

    code = "CKP002"
    name = "save-interval-not-reached"
    family = "checkpointing"
    severity = "info"
    catalogue = ("ckpt.save-interval-never",)
    evidence = (
        "https://github.com/huggingface/transformers/pull/30160",
        "https://github.com/huggingface/transformers/issues/10830",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            max_steps: 1000
            save_steps: 250
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            max_steps: 100
            save_strategy: "no"
            save_steps: 250
            """,
            note="saving is switched off on purpose",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            max_steps: 1000
            save_steps: 500000
            """,
            at="save_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not applies(job):
            return
        save, total, stated = saving(job), argument_number(job, "max_steps"), argument_number(job, "save_steps")
        if save is None or save.strategy != "steps" or total is None or stated is None or total.value < 1:
            return
        if save.steps < 1 or save.steps <= total.value:
            return
        old = always_below(job.versions.get("transformers"), SAVES_AT_END_FROM)
        effect = "no checkpoint is written" if old else "the only checkpoint is the one at the end"
        yield self.finding(
            f"save_steps {shown(int(save.steps))} is beyond max_steps {shown(int(total.value))}: {effect}",
            stated,
            (total, "the run ends here"),
            help="save at least once before the end, or set save_strategy: no to say that it is meant",
            job=job,
        )
