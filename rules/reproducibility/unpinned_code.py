"""REP001."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import hugging_face

REVISIONS: Final = ("model_revision", "revision_of_model", "revision", "code_revision", "model_commit")


class UnpinnedCode(Rule):
    """`trust_remote_code` is on, and no revision says whose code of which day is run.

    transformers downloads the repository's Python files and runs them. Without a revision tomorrow's run may run other code
    on other weights.

    How sure: the keys of the file; a revision fixed in the script is not seen. It is for strict readers.
    """

    code = "REP001"
    name = "unpinned-code"
    family = "reproducibility"
    severity = "info"
    persona = "strict"
    evidence = ("https://github.com/huggingface/transformers/commit/ffa125fbe67ddb6e46aa181506032d0ed8437ba0",)
    catalogue = ("repro.unpinned-revision",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: our-company/model-with-code
            model_revision: 3f1c2a7
            trust_remote_code: true
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: our-company/model-with-code
            trust_remote_code: true
            dataset_name: our/data
            per_device_train_batch_size: 4
            learning_rate: 2.0e-5
            """,
            at="trust_remote_code",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        trusted, model = job.trust_remote_code, job.model_id
        if (
            trusted is None
            or trusted.value is not True
            or model is None
            or not from_hub(model.value)
            or not hugging_face(job)
        ):
            return
        if any(reading.value(key) is not None for reading in job.readings for key in REVISIONS):
            return
        yield self.finding(
            f"code that {model.value} brings may be run, in whatever revision is the newest",
            trusted,
            (model, "no revision is stated"),
            help="pin the model's revision to a commit",
            job=job,
        )


def from_hub(model: object) -> bool:
    """Whether a model is named by its Hub id rather than a path."""
    return (
        isinstance(model, str)
        and model.count("/") == 1
        and not model.startswith((".", "/", "~"))
        and not is_unknown(model)
    )
