"""``cfglint schema``: the JSON Schema of a config format, for editors."""

from __future__ import annotations

import argparse
import sys

SETTINGS = "settings"
"""Asks for the schema of cfglint's own settings."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``schema`` to the command line."""
    parser = subparsers.add_parser(
        "schema",
        help="JSON Schema of a config format",
        description="Print the JSON Schema (draft 2020-12) of a config format: keys, types, defaults by version, "
        "deprecated and removed keys. Without a format, list those that have one.",
    )
    parser.add_argument(
        "dialect", metavar="DIALECT", nargs="?", help="deepspeed, axolotl, trl …, or `settings` for cfglint's own"
    )
    parser.add_argument("--variant", metavar="NAME", help="one class of the format: sft, DPOConfig, LoraConfig …")
    parser.add_argument("--output", metavar="FILE", help="write to a file instead of standard output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print or write the schema. Exit code 2 for an unknown format or variant, or a file that cannot be written."""
    from cfglint.dialects.schema import load_schema, schema_names

    if args.dialect == SETTINGS:
        return _write(args)
    if args.dialect is None:
        sys.stdout.write(f"{SETTINGS:<22}cfglint.toml and [tool.cfglint]\n")
        for name in schema_names():
            schema = load_schema(name)
            sampled = f"{schema.framework} {schema.versions[0]} to {schema.versions[-1]}"
            sys.stdout.write(f"{name:<22}{sampled}\n")
        return 0
    if args.dialect not in schema_names():
        return _refused(args.dialect, "format", schema_names())
    variants = variant_names(args.dialect)
    if args.variant is not None and args.variant not in variants:
        return _refused(args.variant, f"variant of {args.dialect}", variants)
    return _write(args)


def variant_names(dialect: str) -> tuple[str, ...]:
    """The classes of a format and the commands that read them."""
    from cfglint.dialects.schema import load_schema

    schema = load_schema(dialect)
    return (*schema.commands, *schema.variants)


def _write(args: argparse.Namespace) -> int:
    import json

    from cfglint.dialects.schema import json_schema

    if args.dialect == SETTINGS:
        from cfglint.settings import settings_json_schema

        content = settings_json_schema()
    else:
        content = json_schema(args.dialect, args.variant)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if args.output is None:
        from cfglint.report.terminal import write_for_machines

        write_for_machines(text)
        return 0
    try:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        sys.stderr.write(f"cfglint schema: {args.output}: {error.strerror or error}\n")
        return 2
    return 0


def _refused(name: str, what: str, known: tuple[str, ...]) -> int:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    sys.stderr.write(f"cfglint schema: {name}: no such {what}; {hint}\n")
    return 2
