"""CKP008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument_number, argument_on, shown, trains_adapters
from .intervals import applies, saving

STATE_BYTES_PER_PARAMETER = 14
"""A full checkpoint: 16-bit weights, fp32 copy and both moments of Adam."""

LARGE_MODEL = 1_000_000_000
"""Parameters from which every reader hears of it: a checkpoint takes 14 GB or more."""


class FrequentCheckpoints(Rule):
    """A whole checkpoint is written every few steps.

    A full checkpoint holds about 14 bytes per parameter: 100 GB for 7 billion. Written every few steps it takes longer than
    the steps, and without `save_total_limit` it fills the disk, which ends the run.

    How sure: arithmetic; a debugging run may mean it, so it is information, for strict readers unless the model has a billion
    parameters or more and no checkpoint is ever deleted. Only for full training without `save_only_model`.
    """

    code = "CKP008"
    name = "frequent-checkpoints"
    family = "checkpointing"
    severity = "info"
    catalogue = ("ckpt.save-too-often", "ckpt.no-save-limit")
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/3949",
        "https://huggingface.co/docs/transformers/deepspeed",
    )
    parameters = {"steps": Parameter(10, "intervals up to this many steps are reported")}
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            save_steps: 500
            """,
        ),
        example(
            "try.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            max_steps: 20
            save_steps: 10
            """,
            note="a short trial",
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            save_steps: 5
            """,
            at="save_steps",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if not applies(job) or trains_adapters(job) is not False:
            return
        save, stated, total = saving(job), argument_number(job, "save_steps"), argument_number(job, "max_steps")
        only = argument_on(job, "save_only_model")
        most = self.options["steps"]
        if save is None or stated is None or save.strategy != "steps" or not isinstance(most, (int, float)):
            return
        if (
            not 1 <= save.steps <= most
            or (only is not None and only.value)
            or (total and 0 < total.value <= 20 * save.steps)
        ):
            return
        size = job.architecture.total_parameters if job.architecture is not None else None
        amount = f" of about {size * STATE_BYTES_PER_PARAMETER / 1e9:.0f} GB" if isinstance(size, int) else ""
        limit = argument_number(job, "save_total_limit")
        finding = self.finding(
            f"a checkpoint{amount} is written every {shown(int(save.steps))} steps"
            + ("" if limit is not None else ", and none is deleted"),
            stated,
            (job.model_id, "") if amount else None,
            help="save less often, or set save_total_limit or save_only_model",
            job=job,
        )
        if not isinstance(size, int) or size < LARGE_MODEL or limit is not None:
            finding.persona = "strict"
        yield finding
