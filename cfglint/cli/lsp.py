"""``cfglint lsp``: the language server, on standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Final

NEEDS_EXTRA: Final = (
    "cfglint lsp: needs the extra `lsp`: pip install 'cfglint-llm[lsp]' (from the checkout or from git)"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``lsp`` to the command line."""
    parser = subparsers.add_parser(
        "lsp",
        help="the language server, on stdio",
        description="Speak the language server protocol on standard input and output. Started by editors; see "
        "docs/editors.md for how to set one up.",
        allow_abbrev=False,
    )
    parser.add_argument("--stdio", action="store_true", help="accepted, as some editors add it; there is no other way")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the client says exit or goes away. Exit code 2 where pygls is not installed, 1 where the client went
    without asking for shutdown, as the protocol has it."""
    try:
        import lsprotocol  # noqa: F401
        import pygls  # noqa: F401
    except ImportError:
        print(NEEDS_EXTRA, file=sys.stderr)
        return 2
    from cfglint.editor.server import serve

    return serve()
