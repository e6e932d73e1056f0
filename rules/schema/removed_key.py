"""SCH005."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.schema import Schema
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_below, exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .standing import StatedKey, stated_keys, table_of, title

_TRL_REFUSES_SINCE: Final = "0.19"
"""First TRL release whose parser refuses unknown keys of a config file again; those from 0.13 on dropped them."""

_HARMLESS: Final = frozenset({
    "overwrite_output_dir", "logging_dir", "save_safetensors", "use_mps_device", "push_to_hub_token", "report_to",
    "push_to_hub_model_id", "push_to_hub_organization", "tpu_metrics_debug", "include_tokens_per_second", "ray_scope",
    "mp_parameters", "exp_name", "sanity_check", "dataset_batch_size", "wandb_entity", "wandb_project", "wandb_run_group",
    "hub_model_revision", "push_to_hub_revision", "overwrite_hub_revision",
})  # fmt: skip
"""Keys without which a run trains as it would with them."""


class RemovedKey(Rule):
    """A key that the stated release of the framework no longer has.

    ``TrainingArguments`` raises "unexpected keyword argument", HfArgumentParser "Some keys are not used", Axolotl and
    DeepSpeed name the removed feature. Where a format drops unknown keys, the setting is silently without effect.

    How sure: the key tables are read from the frameworks' releases, minor by minor. Reported only where requirements, lock
    files, image tags or settings state a release that surely comes after the removal, or where no release read has the key
    (Axolotl's max_packed_sequence_len went before 0.5). TRL's parser stops at such keys, its own scripts pass over them where
    they are started without the ``trl`` command: an error there only for keys that change the training. A script's flags may
    be its own: a warning there, but for LLaMA-Factory's.
    """

    code = "SCH005"
    name = "removed-key"
    family = "schema"
    severity = "error"
    fixable = "safe"
    evidence = (
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/sft_config.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/deprecated.py",
    )
    catalogue = (
        "hf.removed-args",
        "trl.max-seq-length",
        "trl.dpo-removed-args",
        "trl.grpo-removed-args",
        "axolotl.deprecated",
        "ckpt.safetensors-v5",
    )
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                evaluation_strategy: epoch
                warmup_ratio: 0.1
                """,
                "requirements.txt": """
                transformers==4.44.2
                """,
            },
            note="both keys are fine in 4.44",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            evaluation_strategy: epoch
            """,
            note="no release is stated: SCH006 says it as information",
        ),
    )
    bad = (
        example(
            {
                "run.sh": """
                llamafactory-cli train --stage sft --do_train --model_name_or_path Qwen/Qwen3-4B --dataset identity \\
                  --template qwen3 --finetuning_type lora --output_dir out --evaluation_strategy steps --val_size 0.1
                """,
                "requirements.txt": """
                transformers>=4.51.0
                """,
            },
            at="evaluation_strategy",
            count=1,
        ),
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                evaluation_strategy: epoch
                """,
                "requirements.txt": """
                transformers>=5.2
                """,
            },
            at="evaluation_strategy",
            count=1,
        ),
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/Capybara
                per_device_train_batch_size: 4
                learning_rate: 2.0e-5
                max_seq_length: 4096
                """,
                "requirements.txt": """
                trl==0.24.0
                """,
            },
            at="max_seq_length",
            count=1,
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 2,
                  "steps_per_print": 100,
                  "zero_optimization": {"stage": 1},
                  "sparse_attention": {"mode": "fixed"}
                }
                """,
                "requirements.txt": """
                deepspeed==0.19.8
                """,
            },
            at="sparse_attention",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        schema = table_of(reading, commands=True)
        for key in stated_keys(reading, context, commands=True):
            if reading.context.get("command_line") and key.stated is None:
                continue
            if schema is not None and key.standing == "removed":
                yield self._finding(reading, schema, key, context)

    def _finding(self, reading: Reading, schema: Schema, key: StatedKey, context: Context) -> Finding:
        stops = _stops(schema, key)
        framework, gone, where = title(key.owner), key.info.removed_in, route_text(key.route)
        effect = "stops at it" if stops else "passes over it without a word"
        if reading.dialect == "trl":
            stops = not always_below(context.version(reading, "trl"), _TRL_REFUSES_SINCE)
            effect = "stops at it or passes over it, by how it is started" if stops else effect
            stops = stops and key.name not in _HARMLESS
        command = bool(reading.context.get("command_line"))
        if command and reading.dialect == "hf-training-args":
            stops, effect = False, "stops at it, unless the script has an argument of that name"
        new_name = key.new_name if key.renamed and not command else None
        edit = rename_key(reading, key.route, new_name) if new_name else None
        return self.finding(
            f"{where} is gone since {framework} {gone}; {_release(key.stated)} {effect}"
            if key.stated
            else f"{where} is gone since {framework} {gone} or before; every release read {effect}",
            reading.origin(*key.route),
            help=advice(key),
            fixes=(Fix(f"rename to {key.new_name}", (edit,)),) if edit else (),
            # with no release stated, the file may be meant for one older than any that was read
            severity="error" if stops and key.stated else "warning",
        )


def _stops(schema: Schema, key: StatedKey) -> bool:
    if "stops" in key.info.note:
        return True
    return schema.unknown_effect(key.route[:-1], exact(key.stated)) in ("error", "passed-on")


def _release(stated: str | None) -> str:
    return f"the stated release ({(stated or '').strip()})"


NOTHING_SAID: Final = "remove it"
"""Advice on a key of which the tables say no more than that it is gone."""

AXOLOTL_ATTENTION: Final = {
    "flash_attention": "flash_attention_2", "sdp_attention": "sdpa", "xformers_attention": "xformers",
    "flex_attention": "flex_attention", "sage_attention": "sage", "eager_attention": "eager",
}  # fmt: skip
"""What Axolotl's older switches say in ``attn_implementation`` (LEGACY_ATTN_FLAG_TO_IMPL in its schemas/enums.py, 0.19)."""


def advice(key: StatedKey) -> str:
    """What to do with a removed or deprecated key."""
    if key.owner.name == "axolotl" and key.name in AXOLOTL_ATTENTION:
        return f"attn_implementation: {AXOLOTL_ATTENTION[key.name]}"
    note = "" if "stops" in key.info.note or "without a word" in key.info.note else key.info.note
    if key.new_name is None:
        return note or NOTHING_SAID
    if key.renamed:
        return f"call it {key.new_name}" + (f" ({note[:1].lower()}{note[1:].rstrip('.')})" if note else "")
    return note or f"{key.new_name} has taken its place"
