"""MEM016."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings


class NvmePathMissing(Rule):
    """DeepSpeed is to offload to NVMe, and the file does not say where.

    With `device: nvme` and no `nvme_path` DeepSpeed stops: '"nvme_path" in DeepSpeed Config cannot be None if remote device
    is nvme' for parameters, a TypeError from joining a path with None for the optimizer.

    How sure: in DeepSpeed's partition_parameters.py and stage3.py (0.19.8). Said for ZeRO stage 3, the only one that
    offloads to NVMe.
    """

    code = "MEM016"
    name = "nvme-path-missing"
    family = "memory"
    severity = "error"
    catalogue = ("mem.nvme-path",)
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/partition_parameters.py",
        "https://www.deepspeed.ai/docs/config-json/",
    )
    good = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/local_nvme"}}}
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "pin_memory": true}}}
            """,
            at="device",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        settings = Settings(reading, ("zero_optimization",))
        if settings.integer("stage") != 3:
            return
        for section in ("offload_param", "offload_optimizer"):
            if settings.value(section, "device") == "nvme" and settings.value(section, "nvme_path") is None:
                yield self.finding(
                    f"{section} goes to NVMe without an nvme_path: DeepSpeed stops with an error",
                    settings.fact(section, "device"),
                    help="state nvme_path, a folder on the machine's own NVMe drive",
                )
