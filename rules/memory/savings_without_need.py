"""MEM021."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.estimate import estimate
from cfglint.formulas import GIB
from cfglint.jobs.facts import Fact, FileOrigin
from cfglint.jobs.job import TrainingJob, with_facts
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from .wording import accelerator_words

HOST = ("cpu", "nvme")


class SavingsWithoutNeed(Rule):
    """Memory is saved at the price of speed, and the job fits without it.

    An offloaded optimizer steps on the CPU and crosses PCIe at every step; parameters that are offloaded cross it in every
    pass. Full gradient checkpointing computes the forward pass twice, a quarter to a third of the step. ZeRO-3 gathers every
    layer anew in both passes, half again the communication of ZeRO-2.

    How sure: the job is estimated without the setting, and it is said only where even the high end leaves a fifth of the
    memory free. Longer samples or a larger batch may be planned, so it is information: offloading for all readers,
    checkpointing and ZeRO-3 for strict ones.
    """

    code = "MEM021"
    name = "savings-without-need"
    family = "memory"
    severity = "info"
    confidence = "medium"
    catalogue = ("mem.offload-when-fits",)
    evidence = (
        "https://huggingface.co/docs/transformers/deepspeed",
        "https://arxiv.org/abs/1604.06174",
        "https://arxiv.org/abs/1910.02054",
    )
    parameters = {
        "free": Parameter(0.2, "share of the memory that must stay free without the setting, at the high end")
    }
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                bf16: true
                gradient_checkpointing: true
                max_seq_length: 2048
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
            gpu="RTX4090",
            gpus=4,
            note="it does not fit otherwise",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                bf16: true
                gradient_checkpointing: true
                max_seq_length: 2048
                per_device_train_batch_size: 1
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """,
            },
            gpu="A100-80GB",
            gpus=8,
            at="device",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if job.partial or not job.hardware.candidates or context.estimate(job).memory.used is None:
            return
        offload = next((f for f in (job.offload_parameters, job.offload_optimizer) if _stated(f, *HOST)), None)
        if offload is not None:
            needed = self._needed(job, offload_optimizer="none", offload_parameters="none")
            if needed is not None:
                yield self._finding(job, offload, "offloading", "the optimizer steps on the CPU", needed)
            return
        checkpointing, stage = job.gradient_checkpointing, job.zero_stage
        if checkpointing is not None and _stated(checkpointing, "full"):
            needed = self._needed(job, gradient_checkpointing="none")
            if needed is not None:
                yield self._strict(job, checkpointing, "gradient checkpointing", "the forward pass runs twice", needed)
                return
        if stage is not None and _stated(stage, 3):
            needed = self._needed(job, zero_stage=2)
            if needed is not None:
                yield self._strict(job, stage, "ZeRO-3", "every layer is gathered in both passes", needed)

    def _needed(self, job: TrainingJob, **facts: Any) -> str | None:
        """What the job needs with other settings, in words; None where that is not far enough below the memory."""
        memory = estimate(with_facts(job, **facts)).memory
        free = self.options["free"]
        if memory.verdict != "fits" or memory.used is None or memory.missing or not isinstance(free, (int, float)):
            return None
        capacity = min(a.usable_bytes for a in job.hardware.candidates)
        if memory.used.high > (1 - free) * capacity:
            return None
        return f"{memory.used.low / GIB:.1f}–{memory.used.high / GIB:.1f} GiB of {capacity / GIB:.1f}"

    def _finding(self, job: TrainingJob, where: Fact[Any], what: str, price: str, needed: str) -> Finding:
        return self.finding(
            f"the job fits without {what} ({needed} on {accelerator_words(job)}), and with it {price}",
            where,
            help=f"leave {what} out, or use the room for a larger micro-batch",
            job=job,
        )

    def _strict(self, job: TrainingJob, where: Fact[Any], what: str, price: str, needed: str) -> Finding:
        finding = self._finding(job, where, what, price, needed)
        finding.persona = "strict"
        return finding


def _stated(fact: Fact[Any] | None, *values: object) -> bool:
    """Whether a file, not a default, states one of ``values``."""
    return fact is not None and fact.value in values and isinstance(fact.origin, FileOrigin)
