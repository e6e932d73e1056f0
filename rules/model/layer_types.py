"""MDL005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence

from .config_parts import parts


class LayerTypes(Rule):
    """The list of layer types is not as long as the model has layers.

    transformers stops with "`num_hidden_layers` (…) must be equal to the number of layer types". It comes of cutting a model
    to fewer layers by hand.

    How sure: a check of transformers from 4.56 on (configuration_utils.py; read in 4.57 and 5.24). Models with code of their
    own are left out.
    """

    code = "MDL005"
    name = "layer-types"
    family = "model"
    severity = "error"
    kinds = ("train", "serve")
    catalogue = ("mc-layer-types",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/configuration_utils.py",)
    good = (
        example(
            "config.json",
            """
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 2,
             "num_attention_heads": 16, "head_dim": 128, "layer_types": ["full_attention", "full_attention"]}
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
             "num_attention_heads": 16, "head_dim": 128, "layer_types": ["full_attention", "full_attention"]}
            """,
            at="layer_types",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            layers, types = part.integer("num_hidden_layers"), part.node("layer_types")
            if layers is None or not isinstance(types, Sequence) or len(types.items) == layers:
                continue
            yield self.finding(
                f"layer_types has {len(types.items)} entries for {layers} layers: transformers stops with a ValueError",
                part.origin("layer_types"),
                (part.origin("num_hidden_layers"), f"{layers} layers"),
                help="give each layer its type, or leave layer_types out: most models derive it",
            )
