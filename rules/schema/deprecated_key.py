"""SCH007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least, always_below, exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .removed_key import NOTHING_SAID, advice
from .standing import StatedKey, stated_keys, title, written


class DeprecatedKey(Rule):
    """A key that still works, with a warning, and is on its way out.

    How sure: the tables say from which release on the framework calls a key deprecated. It is shown to strict readers; a key
    that is gone in a stated release is SCH005's.
    """

    code = "SCH007"
    name = "deprecated-key"
    family = "schema"
    severity = "info"
    persona = "strict"
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
        keys = [key for key in stated_keys(reading, context) if _deprecated(key)]
        if not keys:
            return
        words = [f"{written(k.route)} (since {title(k.owner)} {k.info.deprecated_in})" for k in keys]
        shown = ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")
        edits = [
            edit
            for key in keys
            if key.new_name and key.renamed and exact(key.stated) is not None
            if (edit := rename_key(reading, key.route, key.new_name)) is not None
        ]
        yield self.finding(
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
