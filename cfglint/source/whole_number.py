"""Counts that stand in a text: GPUs, nodes, ports."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 18
"""Digits of the longest number that counts anything; Python refuses to read text of more than 4,300."""


def whole_number(value: object) -> int | None:
    """A number from 0, or text of ASCII digits alone; None for everything else, and for what is too long for a count.

    ``str.isdigit`` alone lets through what ``int`` does not read: a superscript two, ten thousand nines.
    """
    if isinstance(value, str):
        return int(value) if len(value) <= LONGEST and value.isascii() and value.isdigit() else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10**LONGEST else None
    return None
