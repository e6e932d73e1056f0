"""SRC006."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class NotUtf8(ProblemRule):
    """The file is not UTF-8.

    PyYAML and ``json`` as the frameworks call them read UTF-8; a Latin-1 letter in a comment is enough to stop them with
    a ``UnicodeDecodeError``.

    How sure: the bytes are no UTF-8.
    """

    code = "SRC006"
    name = "not-utf8"
    severity = "error"
    evidence = ("https://docs.python.org/3/library/json.html", "https://pyyaml.org/wiki/PyYAMLDocumentation")
    good = (
        example(
            "axolotl.yaml",
            """base_model: Qwen/Qwen2.5-0.5B  # größer\nsequence_len: 2048\nmicro_batch_size: 2\ndatasets: []""",
        ),
    )
    bad = (
        # the surrogate stands for the byte 0xF6, which Latin-1 writes for the letter
        example(
            "axolotl.yaml",
            "base_model: Qwen/Qwen2.5-0.5B  # gr\udcf6\udcdfer\nsequence_len: 2048\nmicro_batch_size: 2\ndatasets: []",
        ),
    )
