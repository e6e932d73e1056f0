"""PFT012."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .adapter_facts import given, on

_INITIALISERS: Final = (("loftq_config", "loftq"), ("eva_config", "eva"), ("corda_config", "corda"))


@dataclass(frozen=True)
class _Clash:
    key: str
    other: str
    message: str
    help: str
    severity: Severity = "error"


class AdapterSettings(Rule):
    """LoRA settings that do not go together.

    ``LoraConfig`` raises for ``layers_to_transform`` with a regular expression as target, for ``layers_pattern`` without
    ``layers_to_transform``, for ``lora_bias`` with DoRA or a special initialization. A ``loftq_config``, ``eva_config`` or
    ``corda_config`` beside another ``init_lora_weights`` is passed over with a warning.

    How sure: checks of ``LoraConfig.__post_init__``, read in PEFT 0.21; Axolotl hands the same settings on. Where PEFT only
    warns, so does this rule.
    """

    code = "PFT012"
    name = "adapter-settings"
    family = "peft"
    severity = "error"
    kinds = ("train", "serve")
    evidence = (
        "https://github.com/huggingface/peft/blob/v0.21.2/src/peft/tuners/lora/config.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = ("peft.layers-args", "peft.loftq-eva-ignored", "peft.lora-bias", "peft.moe-target-params-dropout")
    good = (
        example(
            "adapter_config.json",
            """
            {
              "peft_type": "LORA",
              "task_type": "CAUSAL_LM",
              "base_model_name_or_path": "Qwen/Qwen2.5-7B",
              "r": 16,
              "target_modules": ["q_proj", "v_proj"],
              "layers_to_transform": [0, 1, 2],
              "layers_pattern": "layers",
              "init_lora_weights": true,
              "loftq_config": {},
              "eva_config": null
            }
            """,
        ),
    )
    bad = (
        example(
            "adapter_config.json",
            """
            {
              "peft_type": "LORA",
              "task_type": "CAUSAL_LM",
              "base_model_name_or_path": "Qwen/Qwen2.5-7B",
              "r": 16,
              "target_modules": ".*\\\\.(q|v)_proj",
              "layers_to_transform": [0, 1, 2]
            }
            """,
            at="layers_to_transform",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            peft_layers_pattern: [layers]
            """,
            at="peft_layers_pattern",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect == "peft-adapter" and reading.context.get("peft_type") == "LORA":
            clashes = _saved_clashes(reading)
        elif reading.dialect == "axolotl":
            clashes = _axolotl_clashes(reading)
        else:
            return
        for clash in clashes:
            related = ((reading.origin(clash.other), "stated here"),) if reading.entry(clash.other) else ()
            yield self.finding(
                clash.message, reading.origin(clash.key), *related, help=clash.help, severity=clash.severity
            )


def _saved_clashes(reading: Reading) -> Iterator[_Clash]:
    target = reading.at("target_modules")
    text = target.value if isinstance(target, Scalar) and isinstance(target.value, str) else None
    for key in ("layers_to_transform", "layers_pattern"):
        if text is not None and given(reading, key):
            what = "all-linear" if text == "all-linear" else "a regular expression"
            yield _Clash(
                key, "target_modules", f"{key} does not go with {what} as target_modules: PEFT takes a list there",
                "list the target modules" + ("" if text == "all-linear" else ", or put the layers into the expression"),
            )  # fmt: skip
            return
    if given(reading, "layers_pattern") and not _stated(reading, "layers_to_transform"):
        yield _Clash(
            "layers_pattern", "layers_to_transform", "layers_pattern needs layers_to_transform",
            "add layers_to_transform, or remove layers_pattern",
        )  # fmt: skip
    start = reading.value("init_lora_weights")
    if on(reading, "lora_bias"):
        if on(reading, "use_dora"):
            yield _Clash("lora_bias", "use_dora", "lora_bias is not supported with DoRA", "switch one of them off")
        elif isinstance(start, str) and start.lower() not in ("true", "false"):
            yield _Clash(
                "lora_bias", "init_lora_weights", f"lora_bias does not go with init_lora_weights {start}",
                "set init_lora_weights to true or false",
            )  # fmt: skip
    for key, word in _INITIALISERS:
        if given(reading, key) and str(start).lower() != word and not (word == "loftq" and start is None):
            yield _Clash(
                key, "init_lora_weights", f"{key} is passed over: init_lora_weights is not {word}",
                f"set init_lora_weights to {word}, or remove {key}", "info",
            )  # fmt: skip


def _axolotl_clashes(reading: Reading) -> Iterator[_Clash]:
    if given(reading, "peft_layers_pattern") and not _stated(reading, "peft_layers_to_transform"):
        yield _Clash(
            "peft_layers_pattern", "peft_layers_to_transform", "peft_layers_pattern needs peft_layers_to_transform",
            "add peft_layers_to_transform, or remove peft_layers_pattern",
        )  # fmt: skip
    if (
        given(reading, "adapter")
        and given(reading, "peft_layers_to_transform")
        and given(reading, "unfrozen_parameters")
    ):
        yield _Clash(
            "peft_layers_to_transform", "unfrozen_parameters",
            "peft_layers_to_transform and unfrozen_parameters are both set: Axolotl takes one of them",
            "keep one of them",
        )  # fmt: skip
    if given(reading, "lora_target_parameters") and reading.value("lora_dropout") not in (None, 0, 0.0):
        yield _Clash(
            "lora_dropout", "lora_target_parameters", "lora_dropout must be 0 with lora_target_parameters",
            "set lora_dropout: 0: PEFT's wrapper of parameters has no dropout",
        )  # fmt: skip
    if given(reading, "lr_groups") and given(reading, "loraplus_lr_ratio"):
        yield _Clash(
            "loraplus_lr_ratio", "lr_groups", "lr_groups and loraplus_lr_ratio are both set", "keep one of them"
        )


def _stated(reading: Reading, key: str) -> bool:
    node = reading.at(key)
    return node is not None and not (isinstance(node, Scalar) and node.value is None)
