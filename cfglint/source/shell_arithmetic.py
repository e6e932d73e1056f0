"""``$(( … ))``: integer arithmetic over what is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(r"\s*(?:([0-9]{1,18})(?![\w#.])|\$?\{?([A-Za-z_]\w*)\}?|(\*\*|[-+*/%()]))")
_BINARY: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "**": 3}
_LIMIT: Final = 2**63
"""Shell integers have 64 bits; what goes beyond is called unknown."""
_MAX_TOKENS: Final = 200


def evaluate(text: str, lookup: Callable[[str], int | None]) -> int | None:
    """The value of an expression, None where a name is unknown or the expression is more than plain arithmetic."""
    tokens: list[str | int] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if not found or len(tokens) >= _MAX_TOKENS:
            return None
        if found.group(1):
            digits = found.group(1)
            if len(digits) > 1 and digits[0] == "0":  # octal
                return None
            tokens.append(int(digits))
        elif found.group(2):
            value = lookup(found.group(2))
            if value is None:
                return None
            tokens.append(value)
        else:
            tokens.append(found.group(3))
        at = found.end()
    result, rest = _expression(tokens, 0, 1, 0)
    return result if rest == len(tokens) else None


def _operand(tokens: list[str | int], at: int, depth: int) -> tuple[int | None, int]:
    if at >= len(tokens) or depth > 50:
        return None, -1
    token = tokens[at]
    if isinstance(token, int):
        return token, at + 1
    if token in ("-", "+"):
        value, at = _operand(tokens, at + 1, depth + 1)
        return (None if value is None else -value if token == "-" else value), at
    if token == "(":
        value, at = _expression(tokens, at + 1, 1, depth + 1)
        if value is not None and 0 <= at < len(tokens) and tokens[at] == ")":
            return value, at + 1
    return None, -1


def _expression(tokens: list[str | int], at: int, lowest: int, depth: int) -> tuple[int | None, int]:
    left, at = _operand(tokens, at, depth)
    while left is not None and at < len(tokens):
        operator = tokens[at]
        if not isinstance(operator, str) or _BINARY.get(operator, 0) < lowest:
            break
        # ** groups to the right, the others to the left
        right, at = _expression(tokens, at + 1, _BINARY[operator] + (operator != "**"), depth + 1)
        left = None if right is None else _apply(operator, left, right)
    return left, at


def _apply(operator: str, left: int, right: int) -> int | None:
    if operator in ("/", "%"):
        if right == 0:
            return None
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        return quotient if operator == "/" else left - right * quotient
    if operator == "**":
        if not 0 <= right <= 63 or (abs(left) > 1 and abs(left) ** right >= _LIMIT):
            return None
        return int(left**right)
    result = left + right if operator == "+" else left - right if operator == "-" else left * right
    return result if -_LIMIT <= result < _LIMIT else None
