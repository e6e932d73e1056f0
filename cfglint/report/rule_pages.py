"""A rule's page and the table of all rules, made from the rule classes: for ``explain``, ``rules``, docs and README."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any, Final

from cfglint.lint.links import rule_page as page_of
from cfglint.lint.rule import Example, Rule

FENCES: Final = {"yaml": "yaml", "yml": "yaml", "json": "json", "toml": "toml", "sh": "bash", "sbatch": "bash"}
HOW_SURE: Final = "How sure:"
SURE: Final = {
    "high": "high: reported only where every fact it needs is known",
    "medium": "medium: some of what decides it is not in the files",
    "low": "low: a hint to look",
}
FIX: Final = {
    "safe": "`--fix` does it; the job keeps its meaning.",
    "unsafe": "`--fix --unsafe-fixes` does it; the job changes, so look at the result.",
    "no": "Not done automatically.",
}


def rule_as_json(rule: type[Rule]) -> dict[str, Any]:
    """One entry of ``rules --format json`` (CONTRACT.md)."""
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "summary": rule.summary(),
        "fixable": rule.fixable,
        "since": rule.since,
        "preview": rule.preview,
        "persona": rule.persona,
        "kinds": list(rule.kinds),
        "url": page_of(rule.code),
    }


def rules_as_json(rules: Mapping[str, type[Rule]]) -> str:
    content = {"version": 1, "rules": [rule_as_json(rule) for rule in rules.values()]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def rules_as_table(rules: Iterable[type[Rule]], folder: str = "") -> str:
    """A Markdown table with a link to each rule's page in ``folder``."""
    lines = ["| code | name | severity | what it finds | fix |", "| --- | --- | --- | --- | --- |"]
    for rule in rules:
        fix = "" if rule.fixable == "no" else rule.fixable
        preview = " (preview)" if rule.preview else ""
        summary = rule.summary().replace("|", "\\|")
        lines.append(
            f"| [{rule.code}]({folder}{rule.code}.md) | {rule.name} | {rule.severity} | {summary}{preview} | {fix} |"
        )
    return "\n".join(lines) + "\n"


def rule_page(rule: type[Rule]) -> str:
    """A rule's page in Markdown."""
    why, sure = _explanation(rule)
    since = f"since {rule.since}" + (", preview" if rule.preview else "")
    facts = [rule.severity, f"family {rule.family or 'none'}", f"checks {', '.join(rule.kinds)}", since]
    if rule.persona == "strict":
        facts.append("only with --strict")
    parts = [f"# {rule.code} {rule.name}", f"{rule.summary()}.", " · ".join(facts)]
    if why:
        parts += ["## Why", why]
    parts += ["## How sure", sure or f"Confidence {SURE[rule.confidence]}."]
    parts += _examples("Bad", rule.bad) + _examples("Good", rule.good)
    if rule.parameters:
        rows = [f"- `{name}` (default `{json.dumps(p.default)}`): {p.doc}" for name, p in rule.parameters.items()]
        parts += ["## Parameters", f"In `[tool.cfglint.rules.{rule.code}]`:", "\n".join(rows)]
    parts += ["## Fix", FIX[rule.fixable]]
    parts += ["## Silence", _silence(rule)]
    if rule.evidence:
        parts += ["## Evidence", "\n".join(f"- {link}" for link in rule.evidence)]
    return "\n\n".join(parts) + "\n"


def plain_page(page: str) -> str:
    """A page of :func:`rule_page` for a terminal: headings and code without their Markdown signs."""
    lines, inside = [], False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            lines.append(f"    {line}".rstrip())
        elif line.startswith("#"):
            lines.append(line.lstrip("# "))
            if line.startswith("## "):
                lines.append("-" * len(line.lstrip("# ")))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _explanation(rule: type[Rule]) -> tuple[str, str]:
    """The docstring after its first line, and its paragraph on how sure the rule is."""
    why, sure = [], ""
    for paragraph in rule.explanation().split("\n\n"):
        text = paragraph.strip()
        if text.startswith(HOW_SURE):
            sure = text[len(HOW_SURE) :].strip()
            sure = sure[:1].upper() + sure[1:]
        elif text:
            why.append(text)
    return "\n\n".join(why), sure


def _examples(title: str, examples: tuple[Example, ...]) -> list[str]:
    if not examples:
        return []
    parts = [f"## {title}"]
    for example in examples:
        hardware = [f"gpu={example.gpu}"] if example.gpu else []
        hardware += [f"gpus={example.gpus}"] if example.gpus else []
        hardware += [f"nodes={example.nodes}"] if example.nodes else []
        if example.note:
            parts.append(example.note)
        for i, (path, text) in enumerate(example.files.items()):
            on = f", on {' '.join(hardware)}" if hardware and i == 0 else ""
            fence = FENCES.get(path.rsplit(".", 1)[-1], "")
            # examples may hold bytes that are no UTF-8, as surrogates: shown as \xNN
            shown = text.rstrip().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            parts.append(f"`{path}`{on}:\n\n```{fence}\n{shown}\n```")
    return parts


def _silence(rule: type[Rule]) -> str:
    return cleandoc(
        f"""
        - one place: `# cfglint: ignore[{rule.code}] reason` at the end of the line or on the line above
        - one file: `# cfglint: ignore-file[{rule.code}] reason` at its top
        - a place in JSON, which has no comments: `[[tool.cfglint.ignore]]` with `file`, `key`, `rule`, `reason`
        - some files: `per-file-ignores = {{ "old/**" = ["{rule.code}"] }}`
        - everywhere: `ignore = ["{rule.code}"]`
        """
    )
