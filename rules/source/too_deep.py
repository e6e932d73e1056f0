"""SRC007."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class NestedTooDeep(ProblemRule):
    """Values are nested deeper than the readers go.

    Python's own readers recurse and stop with a ``RecursionError`` near a thousand levels; cfglint reads two hundred. A
    real config stays below twenty, so this is a generated or damaged file.

    How sure: counted.
    """

    code = "SRC007"
    name = "nested-too-deep"
    severity = "error"
    evidence = ("https://docs.python.org/3/library/json.html",)
    good = (
        example(
            "config.json", """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048}"""
        ),
    )
    bad = (
        example(
            "config.json",
            '{"model_type": "llama",\n"architectures": ["LlamaForCausalLM"],\n"hidden_size": 2048,\n"vocab_size": 32000,\n'
            '"num_hidden_layers": 16,\n"x": ' + "[" * 300 + "]" * 300 + "}",
        ),
    )
