"""Finding the rules: every package registered under the entry-point group ``cfglint.rules``, and named plugins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

from cfglint.lint.rule import Rule
from cfglint.lint.rule_index import RuleHead, head_of, read_index

ENTRY_POINT_GROUP: Final = "cfglint.rules"
BUILT_IN: Final = "cfglint_rules"


class PluginError(ValueError):
    """A plugin that cannot be loaded, or that claims a code another one has."""


class RuleSet(Mapping[str, type[Rule]]):
    """Rules by code, sorted. ``heads`` says what choosing needs of all of them; a rule's module is imported when the
    rule is asked for."""

    def __init__(self, rules: Mapping[str, type[Rule]], unread: Mapping[str, RuleHead] | None = None) -> None:
        heads = {**(unread or {}), **{code: head_of(rule) for code, rule in rules.items()}}
        self.heads: dict[str, RuleHead] = dict(sorted(heads.items()))
        self._rules = dict(rules)

    def __getitem__(self, code: str) -> type[Rule]:
        rule = self._rules.get(code)
        if rule is None:
            head = self.heads[code]
            rule = self._rules[code] = getattr(import_module(head.module), head.class_name)
        return rule

    def __contains__(self, code: object) -> bool:
        return code in self.heads

    def __iter__(self) -> Iterator[str]:
        return iter(self.heads)

    def __len__(self) -> int:
        return len(self.heads)


def find_rules(plugins: Sequence[str] = (), own: Mapping[str, type[Rule]] | None = None) -> RuleSet:
    """The built-in rules, those of installed plugin packages, those of modules named in settings; ``own`` besides.

    Raises:
        PluginError: a plugin does not import, or two rules share a code.
    """
    unread: dict[str, RuleHead] = {}
    rules = dict(own or {})
    for name in dict.fromkeys([*_entry_points(), *plugins]):
        try:
            package = import_module(name)
            index = read_index(name, package.__path__[0]) if name == BUILT_IN else None
            if index is None:
                modules = list(_modules(package))
            else:
                unread = {head.code: head for head in index.heads}
                modules = [import_module(changed) for changed in index.changed]
        except (Exception, SystemExit) as error:
            raise PluginError(f"rule plugin {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        for module in modules:
            for rule in _rules_in(module):
                known = rules.get(rule.code)
                taken = unread.get(rule.code) if known is None else head_of(known)
                if taken is not None and known is not rule:
                    raise PluginError(
                        f"rule code {rule.code} is taken twice: {taken.module}.{taken.class_name} and "
                        f"{rule.__module__}.{rule.__name__}"
                    )
                rules[rule.code] = rule
    return RuleSet(rules, unread)


def load_rules(plugins: Sequence[str] = ()) -> dict[str, type[Rule]]:
    """The same with every module imported: for those who look at all rules."""
    return dict(find_rules(plugins))


def _entry_points() -> list[str]:
    names = set()
    for folder in dict.fromkeys(sys.path):
        names |= _entry_points_in(folder or ".")
    # the built-in package first, so that a plugin cannot take one of its codes unnoticed
    return [BUILT_IN, *sorted(names - {BUILT_IN})]


def _entry_points_in(folder: str) -> set[str]:
    """Packages of our group among the distributions on one entry of the import path.

    What ``importlib.metadata.entry_points`` reads of a folder, read here: importing that costs as much as a run.
    """
    names: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            found = [e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:  # an archive: importlib.metadata can look into it
        from importlib.metadata import distributions

        points = [point for distribution in distributions(path=[folder]) for point in distribution.entry_points]
        return {point.value.split(":")[0] for point in points if point.group == ENTRY_POINT_GROUP}
    except OSError:
        return names
    for path in found:
        try:
            with open(os.path.join(path, "entry_points.txt"), encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, ValueError):
            continue
        if ENTRY_POINT_GROUP not in text:
            continue
        section = ""
        for line in map(str.strip, text.splitlines()):
            if line.startswith("["):
                section = line.strip("[] ")
            elif section == ENTRY_POINT_GROUP and "=" in line and not line.startswith(("#", ";")):
                names.add(line.split("=", 1)[1].split("[")[0].split(":")[0].strip())
    return names


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    from pkgutil import walk_packages

    yield package
    for info in walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        yield import_module(info.name)


def _rules_in(module: ModuleType) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rule) and value.code and value.__module__ == module.__name__:
            yield value
