"""MDL002."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import json_argument, runs
from .config_parts import parts, rope_routes, rope_type

REQUIRED: Final = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor"),
}
"""Keys each type is read with (transformers, modeling_rope_utils.py of 4.57 and 5.24; vLLM's YaRN needs the original length)."""
FILLED_IN: Final = frozenset({"original_max_position_embeddings"})
"""What transformers 5 takes from the config beside the block."""


OVERRIDES: Final = ("hf_overrides", "rope_scaling", "json_model_override_args")
"""Arguments of vLLM and SGLang that put a rope block over the config's."""
BLOCKS: Final = ("rope_scaling", "rope_parameters")


class RopeKeys(Rule):
    """Rope scaling lacks a key that its type needs.

    transformers stops with "Missing required keys in `rope_parameters` for 'rope_type'='yarn': {'factor'}"; engines that
    read the config themselves stop with a KeyError.

    How sure: the checks of transformers 4.57 and 5.24 (modeling_rope_utils.py), for the types they know. Where only
    `original_max_position_embeddings` is missing it is a warning: transformers 5 fills it in, transformers 4 (llama3) and vLLM
    (YaRN) stop. Models with code of their own are left out.
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
        example(
            "config.json",
            """
            {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 3584,
             "num_hidden_layers": 28, "num_attention_heads": 28, "max_position_embeddings": 32768,
             "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
            """,
            note="a type with keys of its own",
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
                missing = [
                    key
                    for key in REQUIRED.get(kind or "", ())
                    if not part.has(*route, key) and not (key in FILLED_IN and part.has(key))
                ]
                if not missing:
                    continue
                filled = FILLED_IN.issuperset(missing)
                yield self.finding(
                    f"rope type {kind} needs {' and '.join(missing)}: "
                    + ("not every reader fills it in" if filled else "transformers stops with a KeyError"),
                    part.origin(*route),
                    help="take the whole block from the model's original config",
                    severity="warning" if filled else "error",
                    confidence="medium" if filled else "high",
                )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        """The same block in a server's arguments, which goes over the config's."""
        if not runs(job, "vllm", "sglang"):
            return
        for name in OVERRIDES:
            fact = json_argument(job, name)
            if fact is None:
                continue
            blocks = (fact.value,) if name == "rope_scaling" else (fact.value.get(key) for key in BLOCKS)
            for block in blocks:
                kind = block.get("rope_type", block.get("type")) if isinstance(block, Mapping) else None
                if not isinstance(block, Mapping) or not isinstance(kind, str):
                    continue
                missing = [key for key in REQUIRED.get(kind, ()) if key not in block and key not in FILLED_IN]
                if missing:
                    yield self.finding(
                        f"rope type {kind} needs {' and '.join(missing)}, which {name} does not give",
                        fact,
                        help="give the whole block: it goes over the config's",
                        job=job,
                    )
