"""SRC005."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class JsonConstant(ProblemRule):
    """NaN or Infinity in a JSON file.

    Python's ``json`` reads them, so Hugging Face configs with ``Infinity`` load; JSON itself has no such values, and
    other readers (serving engines in Go or Rust, ``jq``, editors) refuse the file.

    How sure: the text is there; whether it hurts depends on who else reads the file, so this is information for a
    strict reader.
    """

    code = "SRC005"
    tip = "write a number, or null"
    name = "json-constant"
    severity = "info"
    persona = "strict"
    evidence = ("https://www.rfc-editor.org/rfc/rfc8259", "https://docs.python.org/3/library/json.html")
    good = (
        example(
            "config.json", """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048}"""
        ),
    )
    bad = (
        example(
            "config.json",
            """{"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 2048, "time_step_limit": [0.0, Infinity]}""",
        ),
    )
