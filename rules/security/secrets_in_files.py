"""What counts as a secret, and what is a placeholder or a reference."""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(
    r"^(x+|\*+|\.+|<.*>|\[.*\]|\{.*\}|.*(example|your|changeme|change[-_]me|replace|placeholder|dummy|secret[-_]?key|my[-_]|insert|todo|xxx|none|null|empty).*|token|test|key|api[-_]?key|sk-?(xxx.*|test|1234)?|sk-[a-z]+|abc\w{0,6}|token-abc\w*|1234\w*|local|vllm|admin|password)$",
    re.IGNORECASE,
)
"""Words people write where a key is to be put, or where any word will do."""
HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9]{30,}")
"""A Hugging Face user access token: ``hf_`` and 34 letters or digits."""


def is_reference(text: str) -> bool:
    """A variable, a template's placeholder or a file, not the value itself."""
    return not text or "$" in text or "{{" in text or text.startswith(("file:", "/run/secrets", "@"))


def is_placeholder(text: str) -> bool:
    return bool(PLACEHOLDER.match(text.strip()))


def shown(text: str) -> str:
    """The first letters of a secret: enough to find it, too few to use it."""
    return f"{text[:4]}…" if len(text) > 8 else "…"
