"""PAR006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings

DIALECTS = ("accelerate", "hf-training-args", "trl", "llamafactory", "axolotl")


class SizeBasedWrapWithoutSize(Rule):
    """FSDP is to wrap modules by size without one, or by size and by layer class at once.

    `SIZE_BASED_WRAP` needs `fsdp_min_num_params`. Where it is missing Accelerate takes 0 and, in silence, wraps nothing: the
    whole model becomes a single unit that is gathered at once, which undoes what full sharding saves. A size beside `transformer_layer_cls_to_wrap` made transformers stop with
    "`min_num_params` and `transformer_layer_cls_to_wrap` are mutually exclusive".

    How sure: in Accelerate's source (1.15, `set_auto_wrap_policy`); Axolotl refuses it. For Accelerate it is a warning.
    transformers' check was there from 4.26 to 5.9: an error where the release is stated, information where it is not.
    """

    code = "PAR006"
    name = "size-based-wrap-without-size"
    family = "parallel"
    severity = "warning"
    catalogue = ("par.fsdp-min-params",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/fsdp.py",
        "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/training_args.py",
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
            {
                "train.yaml": """
                model_name_or_path: openai-community/gpt2
                per_device_train_batch_size: 4
                num_train_epochs: 1
                fsdp: full_shard auto_wrap
                fsdp_config:
                  min_num_params: 2000
                  transformer_layer_cls_to_wrap: GPT2Block
                """,
                "requirements.txt": "transformers==4.57.1",
            },
            at="min_num_params",
            count=1,
        ),
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
        if reading.dialect in ("hf-training-args", "trl"):
            yield from self._both(reading, settings, context)
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

    def _both(self, reading: Reading, settings: Settings, context: Context) -> Iterator[Finding]:
        """transformers refused a size and a layer class together."""
        size = settings.number("min_num_params") or settings.number("fsdp_min_num_params")
        named = [key for key in LAYER_CLASSES if settings.has(key) and settings.node(key) is not None]
        stated = context.version(reading, "transformers")
        if not size or not named or always_at_least(stated, EXCLUSIVE_BELOW) or not reading.value("fsdp"):
            return
        sure = always_below(stated, EXCLUSIVE_BELOW) is True
        key = "min_num_params" if settings.has("min_num_params") else "fsdp_min_num_params"
        yield self.finding(
            f"{key} beside {named[0]}: transformers {'' if sure else f'before {EXCLUSIVE_BELOW} '}stops with a ValueError",
            settings.fact(key),
            (settings.fact(named[0]), "another way to wrap"),
            help="keep the layer class",
            severity="error" if sure else "info",
        )


LAYER_CLASSES = ("transformer_layer_cls_to_wrap", "fsdp_transformer_layer_cls_to_wrap")

EXCLUSIVE_BELOW = "5.10"
"""transformers 4.26 to 5.9 refuse the pair (training_args.py, `_process_fsdp_args`), 5.10 does not."""
