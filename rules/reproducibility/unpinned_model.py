"""REP002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import hugging_face
from .unpinned_code import REVISIONS, from_hub


class UnpinnedModel(Rule):
    """A model of the Hub without a revision: its weights may change between two runs.

    Repositories are updated: chat templates, generation settings, now and then weights.

    How sure: the keys of the file; a revision fixed in the script or a cached copy is not seen. It is for strict readers.
    """

    code = "REP002"
    name = "unpinned-model"
    family = "reproducibility"
    severity = "info"
    persona = "strict"
    evidence = ("https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/model.py",)
    catalogue = ("repro.unpinned-revision",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            model_revision: 060db64
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: ./models/ours
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
            note="a folder on disk",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
            at="model_name_or_path",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        model, trusted = job.model_id, job.trust_remote_code
        if (
            model is None
            or not from_hub(model.value)
            or not hugging_face(job)
            or (trusted is not None and trusted.value is True)
        ):
            return  # with remote code REP001 says it
        if any(reading.value(key) is not None for reading in job.readings for key in REVISIONS):
            return
        yield self.finding(
            f"{model.value} is taken in whatever revision is the newest",
            model,
            help="pin the revision to a commit",
            job=job,
        )
