"""``cfglint rules``: all rules that are installed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from cfglint.cli.arguments import add_settings, settings_resolver

if TYPE_CHECKING:
    from cfglint.lint.rule import Rule


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``rules`` to the command line."""
    parser = subparsers.add_parser(
        "rules", help="list the rules", description="List the rules, built-in and of plugins."
    )
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the rules."""
    from cfglint.report.rule_pages import rules_as_json, rules_as_table

    rules = known_rules(args)
    if args.format == "json":
        from cfglint.report.terminal import write_for_machines

        write_for_machines(rules_as_json(rules))
    elif args.format == "markdown":
        sys.stdout.write(rules_as_table(rules.values()))
    else:
        width = max(len(rule.name) for rule in rules.values())
        for rule in rules.values():
            preview = " (preview)" if rule.preview else ""
            sys.stdout.write(f"{rule.code:<8} {rule.severity:<7} {rule.name:<{width}}  {rule.summary()}{preview}\n")
        sys.stdout.write(f"\n{len(rules)} rules; `cfglint explain CODE` shows one\n")
    return 0


def known_rules(args: argparse.Namespace) -> dict[str, type[Rule]]:
    """Rules by code: the engine's own, built-in ones, plugins of the settings in force in the working directory."""
    from cfglint.lint.engine_rules import ENGINE_RULES
    from cfglint.lint.registry import load_rules

    settings = settings_resolver(args).for_folder(".")
    return dict(sorted({**ENGINE_RULES, **load_rules(settings.plugins)}.items()))
