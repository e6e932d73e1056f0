"""CON013."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import Settings


class Zero3InitWithoutZero3(Rule):
    """Accelerate's `zero3_init_flag` is on and the ZeRO stage is not 3, so it has no effect.

    The flag makes ZeRO-3 partition a model while it is made. With another stage Accelerate warns and switches it off; it is
    mostly a stage that was changed and a flag that was forgotten.

    How sure: in Accelerate's source (1.15). Harmless, so it is information for strict readers.
    """

    code = "CON013"
    name = "zero3-init-without-zero3"
    family = "consistency"
    severity = "info"
    persona = "strict"
    catalogue = ("accel.zero3-init-flag",)
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",)
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            num_processes: 8
            deepspeed_config:
              zero_stage: 3
              zero3_init_flag: true
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            num_processes: 8
            deepspeed_config:
              zero_stage: 2
              zero3_init_flag: true
            """,
            at="zero3_init_flag",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "accelerate" or reading.context.get("distributed_type") != "DEEPSPEED":
            return
        settings = Settings(reading, ("deepspeed_config",))
        stage = integer(settings.value("zero_stage"))
        if boolean(settings.value("zero3_init_flag")) is not True or stage not in (0, 1, 2):
            return
        if settings.value("deepspeed_config_file") is not None:
            return
        yield self.finding(
            f"zero3_init_flag has no effect with ZeRO stage {stage}: Accelerate switches it off",
            settings.fact("zero3_init_flag"),
            (settings.fact("zero_stage"), f"stage {stage}"),
            help="set zero3_init_flag: false",
        )
