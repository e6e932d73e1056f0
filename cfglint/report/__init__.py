"""Reports: one module per output format, each with ``render(result, options) -> str``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

RENDERERS: Final[dict[str, str]] = {
    "text": "cfglint.report.text",
    "concise": "cfglint.report.concise",
    "json": "cfglint.report.json",
    "sarif": "cfglint.report.sarif",
    "github": "cfglint.report.github",
    "gitlab": "cfglint.report.gitlab",
    "junit": "cfglint.report.junit",
    "markdown": "cfglint.report.markdown",
}


@dataclass(frozen=True)
class Options:
    """How to show a result. ``width``: columns of the terminal; ``fixed``: fixes applied before this report."""

    colour: bool = False
    quiet: bool = False
    statistics: bool = False
    show_files: bool = False
    fixed: int = 0
    width: int = 120


def render(format: str, result: RunResult, options: Options | None = None) -> str:
    """The report as text that ends with a line end, or empty where there is nothing to say."""
    module = import_module(RENDERERS[format])
    text: str = module.render(result, options or Options())
    from cfglint.report.terminal import encodable

    return encodable(text)
