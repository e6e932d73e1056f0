"""MDL003."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route, Sequence

from .config_parts import Part, parts, rope_routes, rope_type

SCALED = ("linear", "dynamic", "yarn", "llama3")


class RopeValues(Rule):
    """Rope scaling has values that do not fit together: another context is in force than the file says.

    transformers warns and goes on: a factor that is null or below 1 (vLLM then takes 1.0), a `factor` of YaRN that is not
    `max_position_embeddings / original_max_position_embeddings`, llama3 frequencies in the wrong order or an original length
    that is not below the new one, `short_factor` and `long_factor` of longrope that are not half as long as a head is wide.
    The model runs, and is worse beyond its original length, or the shapes do not fit.

    How sure: the checks of transformers 5.24 (modeling_rope_utils.py). A ratio of 1 is how some publishers write YaRN, and
    Llama 4 was published with equal frequencies: both count as right.
    """

    code = "MDL003"
    name = "rope-values"
    family = "model"
    severity = "warning"
    kinds = ("train", "serve")
    catalogue = ("mc-rope-factor-null", "mc-rope-yarn-factor", "mc-rope-llama3-keys", "mc-rope-longrope-len")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_rope_utils.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
    )
    good = (
        example(
            "config.json",
            """
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 28,
             "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
            """,
        ),
        example(
            "config.json",
            """
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 28,
             "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
            """,
            note="max_position_embeddings left at the original length, as Qwen's cards have it",
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 28,
             "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 65536,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
            """,
            at="factor",
            count=1,
        ),
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 16384,
             "rope_scaling": {"type": "linear", "factor": null}}
            """,
            at="factor",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            for route in rope_routes(part):
                kind = rope_type(part, route)
                if kind in SCALED and part.has(*route, "factor"):
                    yield from self._factor(part, route, kind)
                if kind == "llama3":
                    yield from self._llama3(part, route)
                if kind == "longrope":
                    yield from self._longrope(part, route)

    def _factor(self, part: Part, route: Route, kind: str | None) -> Iterator[Finding]:
        factor = part.number(*route, "factor")
        if factor is None or factor < 1:
            shown = part.value(*route, "factor")
            yield self.finding(
                f"the rope factor is {'null' if shown is None else repr(shown)}, not a number of 1 or more: "
                "engines take it as 1, or fail",
                part.origin(*route, "factor"),
                help="state the factor as a number, or leave rope scaling out",
            )
            return
        longest = part.integer("max_position_embeddings")
        original = part.integer(*route, "original_max_position_embeddings")
        if kind != "yarn" or not longest or not original or part.has("original_max_position_embeddings"):
            return
        ratio = longest / original
        if ratio not in (1, factor):
            yield self.finding(
                f"YaRN's factor is {factor:g}, max_position_embeddings / original_max_position_embeddings is {ratio:g}",
                part.origin(*route, "factor"),
                (part.origin("max_position_embeddings"), f"{longest:,} tokens"),
                (part.origin(*route, "original_max_position_embeddings"), f"{original:,} tokens"),
                help=f"factor: {ratio:g}, or max_position_embeddings: {round(original * factor)}",
            )

    def _llama3(self, part: Part, route: Route) -> Iterator[Finding]:
        low, high = part.number(*route, "low_freq_factor"), part.number(*route, "high_freq_factor")
        if low is not None and high is not None and high < low:
            yield self.finding(
                f"high_freq_factor {high:g} is below low_freq_factor {low:g}",
                part.origin(*route, "high_freq_factor"),
                help="Llama 3.1 has 4 and 1",
            )
        longest = part.integer("max_position_embeddings")
        original = part.integer(*route, "original_max_position_embeddings")
        if longest and original and original >= longest:
            yield self.finding(
                f"original_max_position_embeddings {original:,} is not below max_position_embeddings {longest:,}",
                part.origin(*route, "original_max_position_embeddings"),
                help="the first is the length before scaling, 8192 for Llama 3.1",
            )

    def _longrope(self, part: Part, route: Route) -> Iterator[Finding]:
        hidden, heads, width = (part.integer(key) for key in ("hidden_size", "num_attention_heads", "head_dim"))
        if width is None and hidden and heads and hidden % heads == 0:
            width = hidden // heads
        share = part.number("partial_rotary_factor") or part.number(*route, "partial_rotary_factor") or 1.0
        if not width:
            return
        wanted = int(width * share) // 2
        for key in ("short_factor", "long_factor"):
            node = part.node(*route, key)
            if node is not None and not isinstance(node, Sequence):
                yield self.finding(
                    f"{key} is no list of numbers",
                    part.origin(*route, key),
                    help="take it from the model's original config",
                )
            elif isinstance(node, Sequence) and len(node.items) != wanted:
                yield self.finding(
                    f"{key} has {len(node.items)} values, half a head's rotary width is {wanted}",
                    part.origin(*route, key),
                    help="take the lists from the model's original config",
                )
