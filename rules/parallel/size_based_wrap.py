"""PAR006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings

DIALECTS = ("accelerate", "hf-training-args", "trl", "llamafactory", "axolotl")


class SizeBasedWrapWithoutSize(Rule):
    """FSDP is to wrap modules by size, and no size is given, so the model is one unit.

    `SIZE_BASED_WRAP` needs `fsdp_min_num_params`. Where it is missing Accelerate takes 0 and, in silence, wraps nothing: the
    whole model becomes a single unit that is gathered at once, which undoes what full sharding saves.

    How sure: in Accelerate's source (1.15, `set_auto_wrap_policy`); Axolotl refuses it. For Accelerate it is a warning.
    """

    code = "PAR006"
    name = "size-based-wrap-without-size"
    family = "parallel"
    severity = "warning"
    catalogue = ("par.fsdp-min-params",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/fsdp.py",
    )
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_auto_wrap_policy: SIZE_BASED_WRAP
              fsdp_min_num_params: 100000000
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_processes: 8
            fsdp_config:
              fsdp_auto_wrap_policy: SIZE_BASED_WRAP
            """,
            at="fsdp_auto_wrap_policy",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect not in DIALECTS or not isinstance(reading.at("fsdp_config"), Mapping):
            return
        if reading.dialect == "accelerate" and reading.context.get("distributed_type") not in ("FSDP", ""):
            return
        settings = Settings(reading, ("fsdp_config",))
        for key in ("fsdp_auto_wrap_policy", "auto_wrap_policy"):
            if str(settings.value(key) or "").strip().upper() != "SIZE_BASED_WRAP":
                continue
            sizes = [settings.value(name) for name in ("fsdp_min_num_params", "min_num_params")]
            if any(size is not None and size != 0 for size in sizes):
                return
            yield self.finding(
                "SIZE_BASED_WRAP without fsdp_min_num_params wraps nothing: the whole model is gathered at once",
                settings.fact(key),
                help="give fsdp_min_num_params (100000000 is usual), or use TRANSFORMER_BASED_WRAP",
            )
            return
