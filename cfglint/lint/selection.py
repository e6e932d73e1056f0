"""Which rules run and how loud they are: selectors from settings and command line, severities, rule parameters.

A selector is a code (``MEM001``), the beginning of codes (``MEM``), a rule's name, or ``ALL``. Of two selectors that
speak of a rule the longer one wins, so ``select = ["MEM"]`` with ``ignore = ["MEM003"]`` and the reverse both do what
they say; between equals, ignoring wins. What the command line says counts over settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final, Protocol

from cfglint.jobs.facts import beyond_counting
from cfglint.lint.finding import Finding, Persona, Severity
from cfglint.settings import Settings, SettingsError

if TYPE_CHECKING:
    from cfglint.lint.registry import RuleSet

EXACT: Final = 1000
"""Weight of a selector that names one rule; the beginning of a code weighs its length."""

CODE: Final = re.compile(r"[A-Z]{2,}[0-9]{2,}")
_CODE_START: Final = re.compile(r"[A-Z]{2,}[0-9]*")


class Selectable(Protocol):
    """What selectors look at: a rule, or what an index says of it."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def persona(self) -> Persona: ...
    @property
    def preview(self) -> bool: ...
    @property
    def parameters(self) -> Collection[str]: ...


@dataclass(frozen=True)
class RuleSelection:
    """Selectors given on the command line. ``strict`` also wants what only a careful reader wants to hear of."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    strict: bool = False
    preview: bool = False

    def chosen(self, rules: Mapping[str, Selectable], settings: Settings) -> frozenset[str]:
        """Codes of the rules that run where ``settings`` are in force."""
        return frozenset(code for code, rule in rules.items() if self._runs(rule, settings))

    def check(self, rules: Mapping[str, Selectable]) -> None:
        """Raise :class:`SettingsError` for a flag that names no known rule."""
        for flag, selectors in (
            ("--select", self.select or ()),
            ("--ignore", self.ignore),
            ("--extend-select", self.extend_select),
        ):
            check_selectors(flag, selectors, rules)

    def wants(self, finding: Finding, settings: Settings) -> bool:
        """False for a finding that only strict readers want, where nobody asked to be strict or named its rule."""
        if finding.persona == "default" or self.strict or settings.strict:
            return True
        named = (*(self.select or ()), *self.extend_select, *(settings.select or ()), *settings.extend_select)
        return any(weight(selector, finding.code, finding.name) == EXACT for selector in named)

    def _runs(self, rule: Selectable, settings: Settings) -> bool:
        ignored = _strongest(self.ignore, rule)
        if self.select is not None:
            wanted = _strongest(self.select, rule)
            on = wanted > ignored and wanted >= _strongest(settings.ignore, rule)
        else:
            start = settings.select if settings.select is not None else ("ALL",)
            wanted = _strongest((*start, *settings.extend_select), rule)
            on = wanted > _strongest(settings.ignore, rule) and not ignored
        if _strongest(self.extend_select, rule) > ignored:
            on = True
        if not on:
            return False
        exact = self._named(rule, settings)
        if rule.preview and not (self.preview or settings.preview or exact):
            return False
        return not (rule.persona == "strict" and not (self.strict or settings.strict or exact))

    def _named(self, rule: Selectable, settings: Settings) -> bool:
        named = (*(self.select or ()), *self.extend_select, *(settings.select or ()), *settings.extend_select)
        return _strongest(named, rule) == EXACT


def weight(selector: str, code: str, name: str) -> int:
    """How exactly a selector speaks of a rule: 0 not at all, 1 for ``ALL``, more the more of the code it holds."""
    if selector in (code, name):
        return EXACT
    if selector == "ALL":
        return 1
    if _CODE_START.fullmatch(selector) and code.startswith(selector):
        return 1 + len(selector)
    return 0


def selected(selectors: Iterable[str], code: str, name: str) -> bool:
    """True where any selector speaks of the rule."""
    return any(weight(selector, code, name) for selector in selectors)


def suggestion(selector: str, rules: Mapping[str, Selectable]) -> str:
    """The known codes or names nearest to one that is not known, as words for a message; empty where none is near."""
    from difflib import get_close_matches

    names = [*rules, *(rule.name for rule in rules.values())]
    close = get_close_matches(selector, names, n=1, cutoff=0.6) or get_close_matches(selector.upper(), names, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def unknown_selectors(selectors: Iterable[str], rules: Mapping[str, Selectable]) -> list[str]:
    """Those selectors that speak of no known rule."""
    return [s for s in selectors if not any(weight(s, code, rule.name) for code, rule in rules.items())]


def check_selectors(where: str, selectors: Iterable[str], rules: Mapping[str, Selectable]) -> None:
    """Raise :class:`SettingsError` for the first selector that speaks of no known rule. ``where`` begins the message."""
    for selector in unknown_selectors(selectors, rules):
        hint = suggestion(selector, rules)
        raise SettingsError(f"{where}: no rule is called `{selector}`; {hint or 'see `cfglint rules`'}")


def check_settings(settings: Settings, rules: Mapping[str, Selectable]) -> None:
    """Raise :class:`SettingsError` where settings name rules or rule parameters that do not exist."""
    if settings.path is None:
        return
    lists: list[tuple[str, Collection[str]]] = [
        ("select", settings.select or ()),
        ("extend-select", settings.extend_select),
        ("ignore", settings.ignore),
        ("severity", tuple(settings.severity)),
        *((f"per-file-ignores.{glob}", codes) for glob, codes in settings.per_file_ignores.items()),
        *(("ignore", place.rules) for place in settings.ignored_places),
    ]
    for key, selectors in lists:
        check_selectors(f"{settings.path}: `{key}`", selectors, rules)
    for code, options in settings.rules.items():
        rule = rules.get(code) or next((r for r in rules.values() if r.name == code), None)
        if rule is None:
            check_selectors(f"{settings.path}: `rules.{code}`", (code,), rules)
            raise SettingsError(f"{settings.path}: `rules.{code}`: name one rule, by its code or name")
        for name in options:
            if name not in rule.parameters:
                from difflib import get_close_matches

                close = get_close_matches(name, rule.parameters, n=1)
                known = ", ".join(rule.parameters) or "none"
                hint = f"did you mean `{close[0]}`?" if close else f"it has: {known}"
                raise SettingsError(f"{settings.path}: `rules.{code}`: {rule.code} has no parameter `{name}`; {hint}")


def check_options(settings: Settings, rules: RuleSet) -> None:
    """Raise :class:`SettingsError` where a rule's parameter is set to something of another kind than its default.

    Call it after :func:`check_settings`. It imports the rules that the settings have parameters of, no others.
    """
    by_name = {head.name: code for code, head in rules.heads.items()} if settings.rules else {}
    for key, options in settings.rules.items():
        parameters = rules[by_name.get(key, key)].parameters
        for name, value in options.items():
            default = parameters[name].default
            if not _alike(value, default):
                kind = next((words for kind, words in _KINDS if isinstance(default, kind)), "another value")
                raise SettingsError(f"{settings.path}: `rules.{key}.{name}`: {kind} is needed (is {value!r})")


def severity_of(finding: Finding, settings: Settings) -> Severity:
    """The finding's severity with what settings say of its rule; the selector that speaks of it most exactly counts."""
    best, level = 0, str(finding.severity)
    for selector, stated in settings.severity.items():
        strength = weight(selector, finding.code, finding.name)
        if strength > best:
            best, level = strength, stated
    return "error" if level == "error" else "warning" if level == "warning" else "info"


def rule_options(rule: Selectable, settings: Settings) -> dict[str, object]:
    """A rule's parameters as settings state them, under its code or its name."""
    return {**settings.rules.get(rule.name, {}), **settings.rules.get(rule.code, {})}


_KINDS: Final = (
    (bool, "`true` or `false`"), (int, "a number"), (float, "a number"), (str, "text"), (list, "a list"), (dict, "a table"),
)  # fmt: skip
"""What a parameter takes, by its default; the first that applies counts."""


def _alike(value: object, default: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float)) and not beyond_counting(value) and isfinite(value)
    if isinstance(default, (list, tuple)):
        return isinstance(value, list) and all(_alike(item, default[0]) for item in value if default)
    return default is None or isinstance(value, type(default))


def _strongest(selectors: Iterable[str], rule: Selectable) -> int:
    return max((weight(selector, rule.code, rule.name) for selector in selectors), default=0)
