"""SRV108."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Node, Scalar, Sequence, at, plain, value_at

REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""Keys each kind is read with (transformers, modeling_rope_utils.py of 4.57 and 5.24; vLLM's yarn needs the original length)."""
FILLED_IN = frozenset({"original_max_position_embeddings"})
"""What transformers 5 takes from the config beside it."""
NESTED = ((), ("text_config",), ("llm_config",), ("language_config",))


class RopeScaling(Rule):
    """A model's rope scaling lacks keys it is read with, or holds numbers it cannot work with.

    transformers ends with "Missing required keys in `rope_scaling`"; vLLM with a KeyError. A ``factor`` that is no number, or below
    1, is warned of and replaced; ``high_freq_factor`` at or below ``low_freq_factor`` turns Llama 3's scaling upside down: long
    contexts come out as nonsense.

    How sure: the keys are those of the readers' own checks. ``original_max_position_embeddings`` alone missing is a warning:
    transformers fills it in.
    """

    code = "SRV108"
    name = "rope-scaling"
    family = "serving"
    severity = "error"
    kinds = ("serve", "train")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/modeling_rope_utils.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_rope_utils.py",
    )
    catalogue = ("mc-rope-yarn-keys", "mc-rope-llama3-keys", "mc-rope-factor-null")
    _CONFIG = '{{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "max_position_embeddings": 131072, "rope_scaling": {rope}}}'
    good = (
        example(
            "config.json",
            _CONFIG.format(
                rope='{"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}'
            ),
        ),
        example(
            "config.json",
            _CONFIG.format(rope='{"type": "mrope", "mrope_section": [16, 24, 24]}'),
            note="a kind with keys of its own",
        ),
    )
    bad = (
        example(
            "config.json",
            _CONFIG.format(rope='{"factor": 32.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}'),
            at="rope_scaling",
            count=1,
        ),
        example("config.json", _CONFIG.format(rope='{"type": "yarn", "factor": null}'), count=2),
        example("config.json", _CONFIG.format(rope='{"type": "linear", "factor": 0.5}'), count=1),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect != "hf-model-config":
            return
        for route in NESTED:
            for key in ("rope_parameters", "rope_scaling"):
                rope = at(reading.root, *route, key)
                if isinstance(rope, Mapping) and len(rope) and not _nested(rope):
                    yield from self._one(reading, (*route, key), rope)
                    break

    def _one(self, reading: Reading, route: tuple[str, ...], rope: Mapping) -> Iterator[Finding]:
        stated = value_at(rope, "rope_type") or value_at(rope, "type")
        kind = stated if isinstance(stated, str) else ""
        required = REQUIRED.get(kind)
        if required is None:
            return
        beside = at(reading.root, *route[:-1])
        missing = [
            key
            for key in required
            if key not in rope and not (isinstance(beside, Mapping) and key in beside and key in FILLED_IN)
        ]
        if missing:
            mild = set(missing) <= FILLED_IN
            yield self.finding(
                f"{route[-1]} of kind {kind} lacks {', '.join(missing)}",
                reading.origin(*route),
                help="copy them from the model this one was made of",
                severity="warning" if mild else "error",
                confidence="medium" if mild else "high",
            )
        factor = rope.get("factor")
        if factor is not None and "factor" in required and not _number(factor, 1):
            yield self.finding(
                f"{route[-1]} factor is {plain(factor)!r}, and must be a number of at least 1",
                reading.origin(*route, "factor"),
                severity="warning",
            )
        low, high = value_at(rope, "low_freq_factor"), value_at(rope, "high_freq_factor")
        if kind == "llama3" and _is_number(low) and _is_number(high) and high <= low:  # type: ignore[operator]
            yield self.finding(
                f"high_freq_factor {high!s} is not above low_freq_factor {low!s}",
                reading.origin(*route, "high_freq_factor"),
                severity="warning",
            )
        for name in ("short_factor", "long_factor"):
            if kind == "longrope" and name in rope and not isinstance(rope.get(name), Sequence):
                yield self.finding(
                    f"{route[-1]} {name} is no list of numbers", reading.origin(*route, name), severity="warning"
                )


def _nested(rope: Mapping) -> bool:
    """Parameters for each kind of layer (``full_attention``, ``sliding_attention``)."""
    return all(isinstance(entry.value, Mapping) for entry in rope.index.values())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(node: Node, least: float) -> bool:
    value = node.value if isinstance(node, Scalar) else None
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least
