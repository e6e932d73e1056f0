"""Finding the rules: every package registered under the entry-point group ``cfglint.rules``, and named plugins."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

from cfglint.lint.rule import Rule

ENTRY_POINT_GROUP = "cfglint.rules"


class PluginError(ValueError):
    """A plugin that cannot be loaded, or that claims a code another one has."""


def load_rules(plugins: Sequence[str] = ()) -> dict[str, type[Rule]]:
    """Rules by code: the built-in ones, those of installed plugin packages, those of modules named in settings.

    Raises:
        PluginError: a plugin does not import, or two rules share a code.
    """
    rules: dict[str, type[Rule]] = {}
    for name in dict.fromkeys([*_entry_points(), *plugins]):
        try:
            package = import_module(name)
            modules = list(_modules(package))
        except (Exception, SystemExit) as error:
            raise PluginError(f"rule plugin {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        for module in modules:
            for rule in _rules_in(module):
                known = rules.get(rule.code)
                if known is not None and known is not rule:
                    raise PluginError(
                        f"rule code {rule.code} is taken twice: {known.__module__}.{known.__name__} and "
                        f"{rule.__module__}.{rule.__name__}"
                    )
                rules[rule.code] = rule
    return dict(sorted(rules.items()))


def _entry_points() -> list[str]:
    from importlib.metadata import entry_points

    names = [point.value.split(":")[0] for point in entry_points(group=ENTRY_POINT_GROUP)]
    # the built-in package first, so that a plugin cannot take one of its codes unnoticed
    return sorted(set(names) | {"cfglint_rules"}, key=lambda name: (name != "cfglint_rules", name))


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for info in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        yield import_module(info.name)


def _rules_in(module: ModuleType) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rule) and value.code and value.__module__ == module.__name__:
            yield value
