"""PFT020."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import on


class LoadInArgument(Rule):
    """`load_in_4bit` or `load_in_8bit` for `from_pretrained`, which no longer takes them in transformers 5.

    The argument goes on to the model's constructor: "got an unexpected keyword argument 'load_in_4bit'". Quantization is
    asked for with ``quantization_config``.

    How sure: transformers' migration guide. Only ``model_init_kwargs``, which go to ``from_pretrained`` as they are; the
    frameworks' own keys of these names are fine. An error where the stated release is 5 or later, else information.
    """

    code = "PFT020"
    name = "load-in-argument"
    family = "peft"
    severity = "error"
    evidence = ("https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",)
    catalogue = ("quant.load-in-kwarg-v5",)
    good = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/Capybara
                per_device_train_batch_size: 4
                learning_rate: 2.0e-4
                use_peft: true
                load_in_4bit: true
                """,
                "requirements.txt": """
                transformers==5.2.0
                """,
            },
            note="TRL's own key",
        ),
    )
    bad = (
        example(
            {
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/Capybara
                per_device_train_batch_size: 4
                learning_rate: 2.0e-4
                use_peft: true
                model_init_kwargs:
                  load_in_4bit: true
                """,
                "requirements.txt": """
                transformers==5.2.0
                """,
            },
            at="load_in_4bit",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for key in ("load_in_4bit", "load_in_8bit"):
            if not on(reading, "model_init_kwargs", key):
                continue
            gone = always_at_least(context.version(reading, "transformers"), "5")
            if gone is False:
                continue
            yield self.finding(
                f"from_pretrained takes no {key} since transformers 5",
                reading.origin("model_init_kwargs", key),
                help=f"quantization_config: {{{key}: true}}",
                severity="error" if gone else "info",
            )
