"""Signs that a file is a template, which only becomes YAML or JSON once something has been filled in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_QUOTED: Final = re.compile(r"\"(?:[^\"\\\r\n]|\\.)*\"|'[^'\r\n]*'")
_MARKER: Final = re.compile(
    r"\{\{|\{%|<%|\$\{\{"
    r"|(?<![\w@])@[A-Za-z_]\w*@(?!\w)"  # configure-style
    r"|(?<![\w%])%[A-Z_][A-Z0-9_]*%(?!\w)"
    r"|^[ \t]*#\s*%\s*(?:if|for|endif|endfor)\b",
    re.MULTILINE,
)
_PLACEHOLDER: Final = re.compile(r"\$\{?[A-Z][A-Z0-9_]*\}?|<[A-Z][A-Z0-9_]*>|__[A-Z][A-Z0-9_]*__")


def placeholder_near(text: str, at: int) -> bool:
    """Whether the line of a fault holds a placeholder outside quotes that ``envsubst`` or ``sed`` is to fill in."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    return _PLACEHOLDER.search(_QUOTED.sub("", line)) is not None


def template_marker(text: str, literal: Sequence[tuple[int, int]] = ()) -> int | None:
    """Offset of the first template marker outside quotes, or None.

    ``literal``: ranges already read as quoted or block scalars, where ``{{`` is content (a chat template, say); in
    order, not overlapping.
    """
    if not _MARKER.search(text):
        return None
    kept: list[str] = []
    at = 0
    for start, end in literal:
        kept.append(text[at:start])
        kept.append(" " * (end - start))
        at = end
    kept.append(text[at:])
    found = _MARKER.search(_QUOTED.sub(lambda m: " " * len(m.group()), "".join(kept)))
    return found.start() if found else None
