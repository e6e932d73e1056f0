"""FCT002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import Job, ServingJob, TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class UnknownAccelerator(Rule):
    """The accelerator is not known, so no verdict is given for it.

    The name is looked up as people and drivers write it. Where it means nothing to the catalogue, rules that need memory
    or compute capability stay silent: this line says why, once per name.

    How sure: looked up. It is information: an unknown accelerator is never an error.
    """

    code = "FCT002"
    name = "unknown-accelerator"
    family = "facts"
    severity = "info"
    kinds = ("train", "serve")
    evidence = ("https://developer.nvidia.com/cuda-gpus",)
    good = (
        example(
            "sft.yaml",
            """
            # cfglint: gpu=A100-80GB gpus=8
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 2
            learning_rate: 2.0e-5
            num_train_epochs: 1
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            # cfglint: gpu=A1000-80GB gpus=8
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 2
            learning_rate: 2.0e-5
            num_train_epochs: 1
            """,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job, context)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job, context)

    def _check(self, job: Job, context: Context) -> Iterator[Finding]:
        hardware = job.hardware
        if not hardware.name or hardware.candidates:
            return
        seen: set[str] = context.shared.setdefault(self.code, set())
        if hardware.name in seen:
            return
        seen.add(hardware.name)
        from cfglint.catalog.accelerators import similar_accelerators

        near = similar_accelerators(hardware.name)
        yield self.finding(
            f"no accelerator is called {hardware.name!r}, so no verdict on memory or precision is given",
            hardware.origin,
            help=f"near in name: {', '.join(near)}" if near else "`cfglint gpus` lists the names",
            notes=("an accelerator of your own goes into [[tool.cfglint.accelerators]]",),
            job=job,
        )
