"""PAR009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example

from ..trainer import argument_on, trainer_readings, uses_deepspeed


class UnusedParametersWithCheckpointing(Rule):
    """DDP looks for unused parameters while gradient checkpointing runs the backward pass twice.

    With `ddp_find_unused_parameters: true` DDP marks parameters after the forward pass; reentrant checkpointing runs layers
    again inside backward and marks them once more: "Expected to mark a variable ready only once. Parameter … has been
    marked as ready twice". It needs more than one GPU to show.

    How sure: reported many times. It is said for `use_reentrant: true`, and, as a warning, for the default of transformers
    4 (reentrant); where the release is not known that is information. It is an error only where more than one GPU is known to be used. DeepSpeed
    and FSDP do not use DDP: then nothing is said.
    """

    code = "PAR009"
    name = "unused-parameters-with-checkpointing"
    family = "parallel"
    severity = "error"
    catalogue = ("par.ddp-unused-reentrant",)
    evidence = (
        "https://github.com/huggingface/peft/issues/313",
        "https://github.com/huggingface/accelerate/issues/2017",
        "https://github.com/pytorch/pytorch/issues/24005",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            gradient_checkpointing: true
            gradient_checkpointing_kwargs:
              use_reentrant: false
            ddp_find_unused_parameters: true
            """,
            gpu="A100-80GB",
            gpus=8,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            gradient_checkpointing: true
            gradient_checkpointing_kwargs:
              use_reentrant: true
            ddp_find_unused_parameters: false
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            gradient_checkpointing: true
            gradient_checkpointing_kwargs:
              use_reentrant: true
            ddp_find_unused_parameters: true
            """,
            gpu="A100-80GB",
            gpus=8,
            at="ddp_find_unused_parameters",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        unused = argument_on(job, "ddp_find_unused_parameters")
        checkpointing = job.gradient_checkpointing
        if (
            unused is None
            or not unused.value
            or checkpointing is None
            or checkpointing.value not in ("full", "selective")
        ):
            return
        if (
            uses_deepspeed(job)
            or job.zero_stage is not None
            or job.value("fsdp", "none") != "none"
            or job.stated("fsdp")
        ):
            return
        reentrant = self._reentrant(job)
        world = job.hardware.world_size
        if reentrant is not None and not reentrant.value:
            return
        if reentrant is None and not self._reentrant_by_default(job):
            return
        if world == 1:
            return
        severity: Severity = "error" if reentrant is not None and world is not None else "warning"
        by_default = ""
        if reentrant is None:
            by_default = " (transformers 4's default)"
            severity = "warning" if always_below(job.versions.get("transformers"), "5") else "info"
        yield self.finding(
            f"ddp_find_unused_parameters with reentrant gradient checkpointing{by_default} marks parameters twice: backward "
            "fails on more than one GPU",
            unused,
            (checkpointing, "runs layers again in backward"),
            (reentrant, "") if reentrant is not None else None,
            help="set ddp_find_unused_parameters: false, or use_reentrant: false in gradient_checkpointing_kwargs",
            severity=severity,
            confidence="high" if severity == "error" else "medium",
            job=job,
        )

    def _reentrant(self, job: TrainingJob) -> Fact[bool] | None:
        for reading in trainer_readings(job):
            for route in (
                ("gradient_checkpointing_kwargs", "use_reentrant"),
                ("activation_checkpointing_kwargs", "use_reentrant"),
                ("use_reentrant_gc",),
            ):
                value = boolean(reading.value(*route))
                if value is not None:
                    return Fact(value, reading.origin(*route))
        return None

    def _reentrant_by_default(self, job: TrainingJob) -> bool:
        """transformers 4 and LLaMA-Factory on it run it reentrant; TRL and Axolotl choose themselves."""
        dialects = {r.dialect for r in trainer_readings(job)}
        version = job.versions.get("transformers")
        return dialects <= {"hf-training-args", "llamafactory"} and not always_at_least(version, "5")
