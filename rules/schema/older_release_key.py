"""SCH006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, route_text
from cfglint.lint.rule import Rule, example

from .removed_key import advice
from .standing import LLAMAFACTORY_TRANSFORMERS, StatedKey, stated_keys, title


class OlderReleaseKey(Rule):
    """Keys that newer releases of the framework no longer have, in a project that states no release.

    The file runs where an old release is installed and stops, or is silently read otherwise, where a new one is: after the
    next ``pip install``. State the release in a requirements or lock file, or use the new names.

    How sure: the tables say when each key went. Which release is installed is not known, so this is information; with a
    stated release SCH005 decides.
    """

    code = "SCH006"
    name = "older-release-key"
    family = "schema"
    severity = "info"
    evidence = (
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
    )
    catalogue = (
        "hf.removed-args",
        "trl.max-seq-length",
        "trl.dpo-removed-args",
        "trl.grpo-removed-args",
        "axolotl.deprecated",
        "axolotl.train-on-split",
    )
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                warmup_ratio: 0.1
                """,
                "requirements.txt": """
                transformers<5
                """,
            },
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            eval_strategy: epoch
            warmup_steps: 100
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            evaluation_strategy: epoch
            warmup_ratio: 0.1
            """,
            at="evaluation_strategy",
            count=1,
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            max_prompt_length: 512
            learning_rate: 1.0e-6
            """,
            at="max_prompt_length",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        gone = [
            key for key in stated_keys(reading, context) if key.standing == "unknown" and _may_be_gone(reading, key)
        ]
        if not gone:
            return
        first = gone[0]
        words = [f"{route_text(k.route)} (gone since {title(k.owner)} {k.info.removed_in})" for k in gone]
        shown = ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")
        yield self.finding(
            f"newer releases do not have {shown}",
            reading.origin(*first.route),
            *((reading.origin(*key.route), f"gone since {title(key.owner)} {key.info.removed_in}") for key in gone[1:]),
            help="state the release it is meant for, or: "
            + "; ".join(f"{key.name}: {advice(key)}" for key in gone[:4]),
        )


def _may_be_gone(reading: Reading, key: StatedKey) -> bool:
    removed = key.info.removed_in
    if removed is None or always_below(key.stated, removed):
        return False
    if reading.dialect == "axolotl" and key.owner.framework != "axolotl":
        return False  # Axolotl pins its libraries
    if reading.dialect == "llamafactory" and key.owner.framework == "transformers":
        return always_below(removed, LLAMAFACTORY_TRANSFORMERS)
    # a key that only some releases between had is told by SCH011 where it matters
    return True
