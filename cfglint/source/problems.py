"""The ``SRC`` family: what can be wrong with a file before anyone looks at what it says."""

from __future__ import annotations

from typing import Final

NOT_PARSED: Final = "SRC001"
DUPLICATE_KEY: Final = "SRC002"
JSON_COMMENT: Final = "SRC003"
TRAILING_COMMA: Final = "SRC004"
JSON_CONSTANT: Final = "SRC005"
NOT_UTF8: Final = "SRC006"
TOO_DEEP: Final = "SRC007"
ARGUMENTS_LOST: Final = "SRC008"
JSON_LENIENCY: Final = "SRC009"
OPEN_QUOTE: Final = "SRC010"

PROBLEMS: Final[dict[str, str]] = {
    NOT_PARSED: "the file does not parse",
    DUPLICATE_KEY: "a key stands twice in one mapping",
    JSON_COMMENT: "a comment in JSON",
    TRAILING_COMMA: "a comma before a closing bracket in JSON",
    JSON_CONSTANT: "NaN or Infinity in JSON",
    NOT_UTF8: "the file is not UTF-8",
    TOO_DEEP: "values are nested too deep",
    ARGUMENTS_LOST: "arguments of a continued shell command are lost",
    JSON_LENIENCY: "text that only lenient JSON readers take",
    OPEN_QUOTE: "shell text ends inside quotes",
}
"""Code to one-line meaning. A code keeps its meaning for ever; new ones are added at the end."""

MAX_DEPTH: Final = 200
"""Levels of nesting that are read. Python's own readers recurse and give up near 1,000; real configs stay below 20."""

MAX_REPEATED: Final = 100
"""Problems of one kind that one file reports: a person needs the first few, a generated file may hold a million."""
