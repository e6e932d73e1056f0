"""MEM015."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings, shown


class ParameterOffloadStage(Rule):
    """An offload setting of DeepSpeed needs ZeRO stage 3, and the file has another stage.

    `offload_param` is valid with stage 3 only: with stage 2 DeepSpeed keeps the parameters on the GPU and says nothing, so
    the memory it was meant to save is not there. `offload_optimizer.ratio` below 1 stops with "Partial offloading only
    supported for ZeRO Stage 3".

    How sure: documented in DeepSpeed's zero/config.py and run with 0.19.8. An `offload_param` with device `none` is left
    alone, as is a stage that is not stated.
    """

    code = "MEM015"
    name = "parameter-offload-stage"
    family = "memory"
    severity = "warning"
    catalogue = ("mem.offload-param-not-stage3", "mem.offload-ratio-stage")
    evidence = (
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/config.py",
        "https://www.deepspeed.ai/docs/config-json/",
    )
    good = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
            """,
        ),
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 2, "offload_param": {"device": "none"}}}
            """,
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
            """,
            at="device",
            count=1,
        ),
        example(
            "ds.json",
            """
            {"train_micro_batch_size_per_gpu": 1,
             "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
            """,
            at="ratio",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "deepspeed":
            return
        settings = Settings(reading, ("zero_optimization",))
        stage = settings.integer("stage")
        if stage not in (0, 1, 2):
            return
        device = settings.value("offload_param", "device")
        if device in ("cpu", "nvme"):
            yield self.finding(
                f"offload_param has no effect with ZeRO stage {stage}: parameters stay on the GPU",
                settings.fact("offload_param", "device"),
                (settings.fact("stage"), f"stage {stage}"),
                help="use stage 3, or take offload_param out",
            )
        ratio = settings.number("offload_optimizer", "ratio")
        if ratio is not None and ratio < 1:
            yield self.finding(
                f"offload_optimizer.ratio {shown(ratio)} needs ZeRO stage 3: DeepSpeed stops with an assertion",
                settings.fact("offload_optimizer", "ratio"),
                (settings.fact("stage"), f"stage {stage}"),
                help="use stage 3, or take the ratio out",
                severity="error",
            )
