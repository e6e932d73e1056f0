"""Writes ``docs/rules/*.md``, the README's rule table and ``rules/index.json`` from the rule classes.

``python docs/build_rules.py`` writes, ``--check`` only says what is stale and returns 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cfglint.lint.engine_rules import ENGINE_RULES
from cfglint.lint.registry import load_rules
from cfglint.lint.rule import Rule
from cfglint.lint.rule_index import INDEX_FILE, index_text
from cfglint.report.rule_pages import rule_page, rules_as_table

ROOT = Path(__file__).resolve().parent.parent
SHOWN_OF_A_FAMILY = 4
"""Rules that README names of each family."""
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def built_in_rules() -> dict[str, type[Rule]]:
    """The rules of this repository, without plugins that happen to be installed."""
    ours = {c: r for c, r in load_rules().items() if r.__module__.split(".")[0] == "cfglint_rules"}
    return dict(sorted({**ENGINE_RULES, **ours}.items()))


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    rules = built_in_rules()
    folder = ROOT / "docs" / "rules"
    made = {folder / f"{code}.md": rule_page(rule) for code, rule in rules.items()}
    made[folder / "README.md"] = f"# Rules\n\n{_by_family(rules)}"
    made[ROOT / "rules" / INDEX_FILE] = index()
    readme = ROOT / "README.md"
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        if BEGIN in text and END in text:
            before, rest = text.split(BEGIN, 1)
            after = rest.split(END, 1)[1]
            made[readme] = f"{before}{BEGIN}\n{_families(rules)}{END}{after}"
    return made


def index() -> str:
    """The index of the built-in rules, by which only those that run are imported."""
    ours = (rule for code, rule in built_in_rules().items() if code not in ENGINE_RULES)
    return index_text("cfglint_rules", str(ROOT / "rules"), ours)


def _families(rules: dict[str, type[Rule]]) -> str:
    """README's table: a line for each family, with its errors by name. All rules stand in docs/rules/README.md."""
    families: dict[str, list[type[Rule]]] = {}
    for rule in rules.values():
        families.setdefault(rule.family or "other", []).append(rule)
    lines = [
        f"{len(rules)} rules in {len(families)} families; [docs/rules](docs/rules/README.md) has a page for each.",
        "",
        "| family | codes | rules | among them |",
        "| --- | --- | --- | --- |",
    ]
    for family, members in sorted(families.items()):
        codes = sorted({rule.code[:3] for rule in members})
        shown = sorted(members, key=lambda rule: (rule.severity != "error", rule.code))[:SHOWN_OF_A_FAMILY]
        names = ", ".join(f"[{rule.name}](docs/rules/{rule.code}.md)" for rule in shown)
        lines.append(f"| {family} | {', '.join(codes)} | {len(members)} | {names} |")
    return "\n".join(lines) + "\n"


def _by_family(rules: dict[str, type[Rule]]) -> str:
    families: dict[str, list[type[Rule]]] = {}
    for rule in rules.values():
        families.setdefault(rule.family or "other", []).append(rule)
    return "\n".join(f"## {family}\n\n{rules_as_table(members)}" for family, members in sorted(families.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; return 1 where a file is stale")
    check = parser.parse_args().check
    made = pages()
    gone = [p for p in (ROOT / "docs" / "rules").glob("*.md") if p not in made]
    stale = [p for p, text in made.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in (*stale, *gone):
        print(f"{'stale' if check else 'written' if path in made else 'removed'}: {path.relative_to(ROOT)}")
    if check:
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
