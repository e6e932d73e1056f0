"""The ``cfglint`` command: finds the command's module, runs it, turns what may go wrong into an exit code.

Only the module of the command asked for is imported: ``cfglint --version`` and shell completion stay quick.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from cfglint import __version__

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "check": ("cfglint.cli.check", "lint files and folders (`cfglint PATH…` is the same)"),
    "estimate": ("cfglint.cli.estimate", "memory, batch and compute of each job, with where every number came from"),
    "fit": ("cfglint.cli.fit", "what would fit: largest batch or context, cheapest changes, smallest accelerator"),
    "diff": ("cfglint.cli.diff", "what a change does to every job: between two git revisions, or two folders"),
    "rules": ("cfglint.cli.rules", "list the rules"),
    "explain": ("cfglint.cli.explain", "one rule's page"),
    "models": ("cfglint.cli.models", "the catalogue of models"),
    "gpus": ("cfglint.cli.gpus", "the catalogue of accelerators"),
    "calc": ("cfglint.cli.calc", "the core formulas as a calculator"),
    "schema": ("cfglint.cli.schema", "JSON Schema of a config format"),
    "lsp": ("cfglint.cli.lsp", "the language server, on stdio"),
}
"""Command to its module, imported when it is asked for, and one line of help."""

_WRITE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})
"""What a write to a full or broken device gives."""

EXIT_USAGE: Final = 2
EXIT_FAULT: Final = 3
EXIT_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report it."""


def entry() -> NoReturn:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` and return its exit code. Usage errors raise SystemExit(2), as argparse does."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # a terminal without a character still gets the report
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except OSError as error:
        sys.stderr.write(f"cfglint: the working directory: {error.strerror}\n")
        return EXIT_USAGE
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()  # whoever read our output has enough
        return 0
    except SystemExit:
        raise
    except OSError as error:
        if error.filename is not None or error.errno not in _WRITE_ERRORS:
            return _failed(error)
        _silence_stdout()
        sys.stderr.write(f"cfglint: standard output: cannot be written: {error.strerror}\n")
        return EXIT_USAGE
    except Exception as error:
        return _failed(error)


def _open_standard_streams() -> None:
    """Python leaves None for a stream that the caller closed (``>&-``); ours read nothing and write nowhere then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the process ends)


def _silence_stdout() -> None:
    """Send the rest nowhere: Python writes what is left once more while closing, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"cfglint {__version__}\n")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        if not name.startswith("-") and not os.path.exists(name) and "/" not in name and "." not in name:
            from difflib import get_close_matches

            close = get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean `cfglint {close[0]}`?" if close else "see `cfglint --help`"
            sys.stderr.write(f"cfglint: {name}: no such command, file or folder; {hint}\n")
            return EXIT_USAGE
        name, arguments = "check", ["check", *arguments]
    parser = _Parser(prog="cfglint", add_help=False, allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="command", prog="cfglint")  # else argparse imports what formats help
    try:
        module = import_module(COMMANDS[name][0])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("cfglint"):
            raise
        sys.stderr.write(f"cfglint {name}: needs the Python package {error.name}\n{_extra(name)}")
        return EXIT_USAGE
    module.add_parser(subparsers)
    parsed = parser.parse_args(arguments)
    code: int = parsed.run(parsed) if hasattr(parsed, "run") else module.run(parsed)
    sys.stdout.flush()
    return code


class _Parser(argparse.ArgumentParser):
    """argparse makes a formatter for every flag it is told of, and one without a width imports shutil and what that needs."""

    def __init__(self, **rest: Any) -> None:
        rest.setdefault("formatter_class", lambda prog: argparse.HelpFormatter(prog, width=_width()))
        super().__init__(**rest)


def _width() -> int:
    """Columns for help: those of the terminal, as argparse has it."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns > 0:
        return columns - 2
    try:
        return (os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80) - 2
    except (OSError, ValueError):
        return 78


def _overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {help}" for name, (_, help) in COMMANDS.items())
    return (
        "usage: cfglint COMMAND …  |  cfglint PATH…\n\n"
        "A linter for the configuration of LLM training and serving.\n\n"
        f"commands:\n{commands}\n\n"
        "`cfglint COMMAND --help` shows a command's flags; `cfglint --version` the version.\n"
        "A path that is called like a command is written with ./ in front.\n"
    )


def _extra(name: str) -> str:
    extra = {"lsp": "lsp", "models": "hub"}.get(name)
    return f'install it with: pip install "cfglint-llm[{extra}]"\n' if extra else ""


def _failed(error: Exception) -> int:
    if type(error).__name__ in ("SettingsError", "PluginError", "BaselineError"):
        sys.stderr.write("".join(f"cfglint: {line}\n" for line in str(error).splitlines()))
        return EXIT_USAGE
    if os.environ.get("CFGLINT_TRACEBACK") == "1":
        import traceback

        traceback.print_exc()
    sys.stderr.write(
        f"cfglint: internal fault: {type(error).__name__}: {error}\n"
        f"This is a fault of cfglint {__version__}, not of your files. Please report it\n"
        "with the command you ran and what CFGLINT_TRACEBACK=1 prints.\n"
    )
    return EXIT_FAULT
