"""MDL004."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .config_parts import Part, parts, rope_routes, rope_type

PLAIN = ("default", "mrope")
"""Types that scale nothing: readers that miss the type lose nothing."""


class RopeTwice(Rule):
    """The kind of rope scaling is stated twice and differently, or only under its newer name.

    `type` became `rope_type` in transformers 4.43 and `rope_scaling` became `rope_parameters` in 5. Readers look for one or
    the other: TensorRT-LLM 0.11 and vLLM before 0.5.5 stop with KeyError 'type'. Where both names are there and differ, two
    readers scale differently.

    How sure: stated in the file. Names that differ are a warning. The newer name alone is information, and only where the
    file does not say by `transformers_version` that a newer release wrote it.
    """

    code = "MDL004"
    name = "rope-type-names"
    family = "model"
    severity = "warning"
    kinds = ("train", "serve")
    catalogue = ("mc-rope-legacy-type",)
    evidence = (
        "https://github.com/NVIDIA/TensorRT-LLM/issues/2052",
        "https://github.com/vllm-project/vllm/pull/7905",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_rope_utils.py",
    )
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
             "transformers_version": "4.57.1",
             "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 8192}}
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 16384,
             "rope_scaling": {"rope_type": "dynamic", "type": "linear", "factor": 2.0}}
            """,
            at="type",
            count=1,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
             "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 8192}}
            """,
            at="rope_type",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            yield from self._blocks(part)
            for route in rope_routes(part):
                newer, older = part.value(*route, "rope_type"), part.value(*route, "type")
                if isinstance(newer, str) and isinstance(older, str):
                    if newer != older and {newer, older} != {"default", "mrope"}:
                        yield self.finding(
                            f"the rope type is {newer} by rope_type and {older} by type",
                            part.origin(*route, "type"),
                            (part.origin(*route, "rope_type"), "newer readers take this one"),
                            help="give both the same value",
                        )
                elif (
                    isinstance(newer, str)
                    and newer not in PLAIN
                    and route == ("rope_scaling",)
                    and reading.value("transformers_version") is None
                ):
                    yield self.finding(
                        f"the rope type {newer} stands under rope_type alone: readers of before August 2024 look for type",
                        part.origin(*route, "rope_type"),
                        help=f'add "type": "{newer}" where such a reader is in use (TensorRT-LLM 0.11, vLLM 0.5.4)',
                        severity="info",
                        confidence="medium",
                    )

    def _blocks(self, part: Part) -> Iterator[Finding]:
        if not all(isinstance(part.node(key), Mapping) for key in ("rope_scaling", "rope_parameters")):
            return
        older, newer = rope_type(part, ("rope_scaling",)), rope_type(part, ("rope_parameters",))
        factors = part.number("rope_scaling", "factor"), part.number("rope_parameters", "factor")
        if older is None or newer is None or (older == newer and factors[0] == factors[1]):
            return
        yield self.finding(
            "rope_scaling and rope_parameters differ: transformers 4 reads the first, 5 the second",
            part.origin("rope_scaling"),
            (part.origin("rope_parameters"), "read by transformers 5"),
            help="keep one of the two, or make them say the same",
        )
