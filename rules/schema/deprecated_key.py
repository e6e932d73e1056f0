"""SCH007."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below, exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .removed_key import AXOLOTL_ATTENTION, NOTHING_SAID, advice
from .standing import StatedKey, stated_keys, title


class DeprecatedKey(Rule):
    """A key that still works, with a warning, and is on its way out.

    How sure: the tables say from which release on the framework calls a key deprecated. Where no release is stated, it is
    shown to strict readers only, but for keys that every release read calls deprecated, and Axolotl's attention switches
    where they are on. A key that is gone in a stated release is SCH005's.
    """

    code = "SCH007"
    name = "deprecated-key"
    family = "schema"
    severity = "info"
    fixable = "safe"
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = (
        "hf.deprecated-args",
        "trl.deprecated-v2",
        "axolotl.deprecated",
        "axolotl.fsdp-prefix",
        "axolotl.legacy-attn-flags",
        "ds.deprecated-cpu-offload",
        "ds.deprecated-gather-fp16",
    )
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                evaluation_strategy: epoch
                """,
                "requirements.txt": """
                transformers==4.40.2
                """,
            },
            note="the new name came with 4.41",
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            xformers_attention:
            attn_implementation: flash_attention_2
            """,
            note="a switch that is not on",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                evaluation_strategy: epoch
                """,
                "requirements.txt": """
                transformers==4.44.2
                """,
            },
            at="evaluation_strategy",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            flash_attention: true
            """,
            at="flash_attention",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        keys = [key for key in stated_keys(reading, context) if _deprecated(key) and not _off(reading, key)]
        for_all = [key for key in keys if key.stated is not None or _long_since(key) or _attention(key)]
        if for_all:
            yield self._finding(reading, for_all)
        rest = [key for key in keys if key not in for_all]
        if rest:
            yield replace(self._finding(reading, rest), persona="strict")

    def _finding(self, reading: Reading, keys: list[StatedKey]) -> Finding:
        words = [f"{route_text(k.route)} (since {title(k.owner)} {k.info.deprecated_in})" for k in keys]
        shown = ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")
        edits = [
            edit
            for key in keys
            if key.new_name and key.renamed and exact(key.stated) is not None
            if (edit := rename_key(reading, key.route, key.new_name)) is not None
        ]
        return self.finding(
            f"deprecated: {shown}",
            reading.origin(*keys[0].route),
            *(
                (reading.origin(*k.route), f"deprecated since {title(k.owner)} {k.info.deprecated_in}")
                for k in keys[1:]
            ),
            help="; ".join(
                f"{k.name}: {advice(k) if advice(k) != NOTHING_SAID else 'see the release notes'}" for k in keys[:4]
            ),
            fixes=(Fix("use the new names", tuple(edits)),) if edits else (),
        )


def _long_since(key: StatedKey) -> bool:
    """Whether every release read calls it deprecated."""
    return key.info.deprecated_in in key.owner.versions[:1]


def _attention(key: StatedKey) -> bool:
    return key.owner.name == "axolotl" and key.name in AXOLOTL_ATTENTION


def _off(reading: Reading, key: StatedKey) -> bool:
    """Whether it is a switch of Axolotl's that says nothing: null or false."""
    return _attention(key) and not reading.value(*key.route)


def _deprecated(key: StatedKey) -> bool:
    since, gone = key.info.deprecated_in, key.info.removed_in
    if since is None or key.standing in ("ok", "removed", "not-yet"):
        return False
    if key.standing == "deprecated":
        return True
    # no release is stated: a key that later releases lack is SCH006's
    return (gone is None and key.stated is None) or (
        always_at_least(key.stated, since) is True and always_below(key.stated, gone or "9999")
    )
