"""MDL009."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import number, scalar
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

SETTINGS: Final = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 50.0, "repetition_penalty": 1.0, "num_beams": 1.0, "max_new_tokens": None,
    "length_penalty": 1.0, "no_repeat_ngram_size": 0.0, "do_sample": 0.0, "min_new_tokens": None,
}  # fmt: skip
"""Generation settings, each with the value at which older releases wrote it into every config."""


class GenerationInConfig(Rule):
    """Generation settings stand in the model's `config.json`, where they are no longer read.

    They belong in `generation_config.json`. transformers 4 moves them with a warning, transformers 5 refuses to save the
    model ("Some generation parameters are set in the model config"), which a training run does at its first checkpoint;
    engines such as vLLM never look for them here.

    How sure: transformers' save_pretrained (4.57 warns, 5.24 raises). Default values that older releases wrote into every
    config are left out; models of speech and translation declare some of these as their own: information.
    """

    code = "MDL009"
    name = "generation-in-config"
    family = "model"
    severity = "info"
    kinds = ("train", "serve")
    catalogue = ("mc-gen-in-config",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/configuration_utils.py",)
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "temperature": 1.0, "do_sample": false}
            """,
            note="defaults of older releases",
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "temperature": 0.6, "top_p": 0.9}
            """,
            at="temperature",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "hf-model-config" or reading.at("auto_map") is not None:
            return
        if reading.value("is_encoder_decoder") is True:
            return
        found = []
        for key, default in SETTINGS.items():
            value = scalar(reading.at(key))
            figure = float(value) if isinstance(value, bool) else number(value)
            if figure is not None and figure != default:
                found.append(key)
        if found:
            yield self.finding(
                f"{', '.join(found)} in config.json: transformers 5 does not save a model whose config has them",
                *(reading.origin(key) for key in found),
                help="move them to generation_config.json",
            )
