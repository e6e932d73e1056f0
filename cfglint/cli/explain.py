"""``cfglint explain CODE``: one rule's page."""

from __future__ import annotations

import argparse
import sys

from cfglint.cli.arguments import add_settings
from cfglint.cli.rules import known_rules


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``explain`` to the command line."""
    parser = subparsers.add_parser(
        "explain", help="one rule's page", description="What a rule finds, why, how sure it is, bad and good, evidence."
    )
    parser.add_argument("rule", metavar="RULE", help="a rule's code or name")
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: text")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the page. Returns 2 for a rule nobody knows."""
    from cfglint.lint.selection import suggestion
    from cfglint.report.rule_pages import plain_page, rule_as_json, rule_page

    rules = known_rules(args)
    wanted = args.rule
    rule = rules.get(wanted.upper()) or next((r for r in rules.values() if r.name == wanted.lower()), None)
    if rule is None:
        hint = suggestion(wanted, rules) or "see `cfglint rules`"
        print(f"cfglint explain: no rule is called `{wanted}`; {hint}", file=sys.stderr)
        return 2
    if args.format == "json":
        import json

        content = {**rule_as_json(rule), "page": rule_page(rule), "evidence": list(rule.evidence)}
        from cfglint.report.terminal import write_for_machines

        write_for_machines(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    else:
        page = rule_page(rule)
        sys.stdout.write(page if args.format == "markdown" else plain_page(page))
    return 0
