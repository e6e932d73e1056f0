"""MDL001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .config_parts import Part, parts

WIDTHS_OF_THEIR_OWN = ("head_dim", "kv_channels", "d_kv", "attention_hidden_size", "kv_lora_rank")
"""Parts of key names with which a model states the width of its heads apart from its hidden size."""


class Heads(Rule):
    """The attention heads do not divide the model's hidden size, or its key-value heads the attention heads.

    Without a `head_dim` of its own a model's heads are `hidden_size / num_attention_heads` wide; transformers stops with
    "The hidden size (…) is not a multiple of the number of attention heads". Grouped-query attention shares each key-value
    head among `num_attention_heads / num_key_value_heads` heads; where that is no whole number the shapes do not fit.

    How sure: arithmetic of the file, and a check of transformers' configs (5.24). Models that state the width of their heads
    under any name, and models with code of their own, are left out of the first.
    """

    code = "MDL001"
    name = "heads"
    family = "model"
    severity = "error"
    kinds = ("train", "serve")
    catalogue = ("mc-hidden-heads", "mc-kv-heads-divide")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/llama/configuration_llama.py",
    )
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}
            """,
        ),
        example(
            "config.json",
            """
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 5000, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000}
            """,
            note="the heads' width is stated",
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4000, "num_hidden_layers": 32,
             "num_attention_heads": 48, "num_key_value_heads": 8, "vocab_size": 32000}
            """,
            at="num_attention_heads",
            count=1,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 6, "vocab_size": 32000}
            """,
            at="num_key_value_heads",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            yield from self._part(part)

    def _part(self, part: Part) -> Iterator[Finding]:
        hidden, heads, shared = (
            part.integer(key) for key in ("hidden_size", "num_attention_heads", "num_key_value_heads")
        )
        if heads is None or heads < 1:
            return
        node = part.reading.at(*part.route) if part.route else part.reading.root
        keys = [str(key) for key in getattr(node, "index", ())]
        own_width = any(word in key for key in keys for word in WIDTHS_OF_THEIR_OWN)
        if hidden is not None and hidden > 0 and hidden % heads and not own_width:
            yield self.finding(
                f"hidden_size {hidden} is no multiple of num_attention_heads {heads}, and there is no head_dim",
                part.origin("num_attention_heads"),
                (part.origin("hidden_size"), f"{hidden} / {heads} = {hidden / heads:.2f}"),
                help="state the head_dim the weights have, or correct the two numbers",
            )
        elif shared is not None and shared > 0 and heads % shared:
            yield self.finding(
                f"num_attention_heads {heads} is no multiple of num_key_value_heads {shared}",
                part.origin("num_key_value_heads"),
                (part.origin("num_attention_heads"), f"{heads} heads share {shared}"),
                help="take both numbers from the model's original config",
            )
