"""What a terminal can show: colour, width, characters."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Final, TextIO

STYLES: Final = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "bold": "1",
    "dim": "2",
    "help": "1;32",
    "gutter": "1;34",
}
"""SGR codes, by what is shown."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """``text`` with U+FFFD for lone surrogates, which no encoding takes: a JSON escape (``"\\ud800"``) may write one,
    and a file name may hold bytes that are no UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def write_for_machines(text: str) -> None:
    """Write to standard output as UTF-8 with plain line ends, whatever the terminal's encoding is: programs read it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(encodable(text))


def wants_colour(stream: TextIO, choice: str = "auto") -> bool:
    """Colour on a terminal; ``NO_COLOR`` and ``FORCE_COLOR`` (not empty) have their say, the flag above them."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def can_show(stream: TextIO, characters: str) -> bool:
    """True where the stream's encoding has the characters."""
    try:
        characters.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Paint:
    """Puts styles around text, or leaves it as it is."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.on and text else text


def harmless(text: str) -> str:
    """``text`` without characters that steer a terminal or turn the writing direction: configs come from strangers."""
    return _CONTROL.sub("�", text)


def columns(text: str) -> int:
    """Columns that text takes on a terminal: wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
