"""Where a rule's page is."""

from __future__ import annotations

from typing import Final

HOME: Final[str | None] = None
"""The project's public address. None until it has one: then pages are named by their path in the checkout."""


def rule_page(code: str) -> str:
    """The page of a rule: its address, or its path from the checkout's root where the project has no address yet."""
    path = f"docs/rules/{code}.md"
    return f"{HOME}/blob/main/{path}" if HOME else path


def is_address(page: str) -> bool:
    """True for a page that a reader can open from anywhere."""
    return page.startswith("https://")
