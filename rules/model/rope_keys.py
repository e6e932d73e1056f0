"""MDL002."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .config_parts import parts, rope_routes, rope_type

REQUIRED: Final = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
"""Keys that every release from transformers 4.45 to 5.24 asks for. ``original_max_position_embeddings`` is filled in by 5."""


class RopeKeys(Rule):
    """Rope scaling lacks a key that its type needs.

    transformers stops with "Missing required keys in `rope_parameters` for 'rope_type'='yarn': {'factor'}"; engines that
    read the config themselves stop with a KeyError.

    How sure: the checks of transformers 4.57 and 5.24 (modeling_rope_utils.py), for the types they know. Models with code of
    their own are left out.
    """

    code = "MDL002"
    name = "rope-keys"
    family = "model"
    severity = "error"
    kinds = ("train", "serve")
    catalogue = ("mc-rope-yarn-keys", "mc-rope-llama3-keys")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_rope_utils.py",
        "https://github.com/NVIDIA-NeMo/Automodel/pull/2652",
    )
    good = (
        example(
            "config.json",
            """
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 28,
             "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 28,
             "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768,
             "rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 32768}}
            """,
            at="rope_scaling",
            count=1,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
             "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}
            """,
            at="rope_scaling",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            for route in rope_routes(part):
                kind = rope_type(part, route)
                missing = [key for key in REQUIRED.get(kind or "", ()) if not part.has(*route, key)]
                if missing:
                    yield self.finding(
                        f"rope type {kind} needs {' and '.join(missing)}: transformers stops with a KeyError",
                        part.origin(*route),
                        help="take the whole block from the model's original config",
                    )
