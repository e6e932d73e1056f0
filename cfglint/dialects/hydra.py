"""Hydra's composition: a config over the files that its ``defaults`` list names, each in its package.

Read as Hydra 1.1 to 1.3 does: entries ``group: option``, ``group@package: option``, ``optional``, ``override``, absolute groups,
lists of options, ``_self_`` (last where it is left out), the header ``# @package``; choices on the command line
(``group=option``, ``+group@package=option``, ``~group``). Files are looked for below the folder of the primary config, then in
``hydra.searchpath``. Where a file is not at hand, what it and all before it would say counts as not known.

Names: hydra-core 1.3 (``hydra/_internal/defaults_list.py``, ``hydra/core/default_element.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cfglint.dialects.composition import Owners, over, owned
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Scalar, Sequence
from cfglint.source.shell import Word

Load = Callable[[str], Document | None]
"""The document at a normalised path, as paths of readings are written; None where there is no such file at hand."""

MOST_FILES: Final = 64
"""Files that one config may bring in, those they bring in included."""

_HEADER: Final = re.compile(r"\s*#\s*@package\s+(\S+)")
_ENTRY: Final = re.compile(r"(?:(optional|override)\s+)?([^@\s]+?)(?:@(\S*))?")
_CHOICE: Final = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w/-]*)(?:@([\w.]*))?(?:=(.*))?")


@dataclass
class Composed:
    """The merged tree, where each key stands, and the files that were not at hand."""

    root: Mapping
    owners: Owners
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Default:
    """One entry of a defaults list."""

    group: str
    """Empty for a config of the same folder."""
    option: str | None
    package: str | None
    optional: bool = False
    override: bool = False

    @property
    def key(self) -> str:
        return f"{self.group}@{self.package}" if self.package else self.group


SELF: Final = _Default("", "_self_", None)


def has_defaults(root: Mapping) -> bool:
    """True for a ``defaults`` list that brings in other files."""
    return any(entry != SELF for entry in _defaults(root))


def choices(words: Iterable[Word]) -> dict[str, str | None]:
    """Overrides that may pick a config group's option, by ``group`` or ``group@package``; None takes the group away.

    ``a=b`` may be a value as well: it is a choice only where the defaults list has the group ``a``. ``+a=b`` adds the group
    (its key keeps the sign), where there is a file for it.
    """
    found: dict[str, str | None] = {}
    for word in words:
        match = _CHOICE.fullmatch(word.text)
        if match is None or "." in match.group(2):
            continue
        sign, group, package, option = match.groups()
        key = f"{group}@{package}" if package else group
        if sign == "~":
            found[key] = None
        elif option is not None:
            found[f"+{key}" if sign else key] = option.strip("'\"").removesuffix(".yaml")
    return found


def compose(document: Document, root: Mapping, load: Load, chosen: dict[str, str | None]) -> Composed:
    """The primary config ``root`` over its defaults."""
    folder = os.path.dirname(document.path)
    composer = _Composer([folder, *_searchpath(root)], load, dict(chosen))
    return composer.compose(document, root)


def _searchpath(root: Mapping) -> list[str]:
    hydra = root.get("hydra")
    paths = hydra.get("searchpath") if isinstance(hydra, Mapping) else None
    found = []
    for item in paths.items if isinstance(paths, Sequence) else []:
        value = item.value if isinstance(item, Scalar) else None
        if isinstance(value, str) and value.startswith("file://") and "${" not in value:
            found.append(os.path.normpath(value[len("file://") :]))
    return found


def _defaults(root: Mapping) -> list[_Default]:
    listed = root.get("defaults")
    found: list[_Default] = []
    for item in listed.items if isinstance(listed, Sequence) else []:
        if isinstance(item, Scalar) and isinstance(item.value, str):
            if item.value == "_self_":
                found.append(SELF)
                continue
            name, _, package = item.value.partition("@")
            found.append(_Default("", name, package or None))
        elif isinstance(item, Mapping):
            for entry in item.entries:
                match = _ENTRY.fullmatch(entry.name.strip())
                if match is None:
                    continue
                kind, group, package = match.groups()
                for option in _options(entry.value):
                    found.append(_Default(group, option, package, kind == "optional", kind == "override"))
    return found


def _options(node: Node) -> list[str | None]:
    if isinstance(node, Sequence):
        return [option for item in node.items for option in _options(item)]
    value = node.value if isinstance(node, Scalar) else None
    return [None if value is None else str(value)]


class _Composer:
    def __init__(self, folders: list[str], load: Load, chosen: dict[str, str | None]) -> None:
        self.folders = folders
        self.load = load
        self.chosen = chosen
        self.owners: Owners = {}
        self.missing: list[str] = []
        self.files = 0

    def compose(self, document: Document, root: Mapping) -> Composed:
        for key, option in self._overridden(root):
            self.chosen.setdefault(key, option)
        tree = Mapping(root.span)
        for package, found in (*self._expanded(document, root, "", ""), *self._added()):
            if found is None:
                tree = Mapping(root.span)  # what is not at hand may say anything over what came before
            else:
                tree = over(tree, _packaged(found, package))
        return Composed(tree, self.owners, self.missing)

    def _added(self) -> Iterator[tuple[str, Mapping | None]]:
        """Groups that the command line adds behind the primary config's list."""
        for key, option in list(self.chosen.items()):
            group, _, package = key.removeprefix("+").partition("@")
            if key.startswith("+") and option is not None and self._file(f"{group}/{option}") is not None:
                yield from self._default(_Default(group, option, package or None), "", "")

    def _overridden(self, root: Mapping) -> Iterator[tuple[str, str | None]]:
        """``override group: option`` of the primary config, which holds for the groups of every file below it."""
        for default in _defaults(root):
            if default.override:
                yield default.key.lstrip("/"), default.option

    def _expanded(
        self, document: Document, root: Mapping, group: str, package: str
    ) -> Iterator[tuple[str, Mapping | None]]:
        """What a config brings in, in order, each with its package; None for a file that is not at hand."""
        own = Mapping(root.span, [entry for entry in root.entries if entry.name != "defaults"])
        self.owners.update(owned(own, document))
        listed = [default for default in _defaults(root) if not default.override]
        if SELF not in listed:
            listed.append(SELF)
        for default in listed:
            if default == SELF:
                yield package, own
            elif not default.group.lstrip("/").startswith("hydra/"):  # how Hydra itself runs
                yield from self._default(default, group, package)

    def _default(self, default: _Default, group: str, package: str) -> Iterator[tuple[str, Mapping | None]]:
        absolute = default.group.startswith("/") or (not default.group and (default.option or "").startswith("/"))
        name = default.group.lstrip("/")
        below = name if absolute or not group else f"{group}/{name}" if name else group
        option = self._option(default, below)
        if option is None:
            return
        if "${" in option or option == "???":
            self.missing.append(f"{below}/{option}")
            yield package, None
            return
        path = (
            f"{below}/{option.lstrip('/')}"
            if below and default.group
            else f"{group}/{option}"
            if group and not absolute
            else option.lstrip("/")
        )
        found = self._file(path.removesuffix(".yaml"))
        if found is None:
            if not default.optional:
                self.missing.append(path)
                yield package, None
            return
        document, root = found
        inner = os.path.dirname(path.removesuffix(".yaml"))
        yield from self._expanded(
            document, root, inner, _package(default, name, package, document, bool(default.group))
        )

    def _option(self, default: _Default, below: str) -> str | None:
        """The option a group has: what the command line or an ``override`` picks, else what the list says."""
        if default.group:
            for key in (f"{below}@{default.package}" if default.package else below, below, default.key.lstrip("/")):
                if key in self.chosen:
                    return self.chosen[key]
        return default.option

    def _file(self, path: str) -> tuple[Document, Mapping] | None:
        self.files += 1
        if self.files > MOST_FILES:
            return None
        for folder in self.folders:
            document = self.load(os.path.normpath(os.path.join(folder, f"{path}.yaml")))
            if document is not None and (isinstance(document.root, Mapping) or document.root is None):
                root = document.root if isinstance(document.root, Mapping) else Mapping(document.span)
                return document, root
        return None


def _package(default: _Default, name: str, parent: str, document: Document, grouped: bool) -> str:
    """Where a file's keys go: the entry's package, the file's own header, or the group's path, below the parent's package."""
    if default.package is not None:
        stated = default.package
        if stated == "_here_":
            return parent
        if stated == "_global_" or stated.startswith("_global_."):
            return stated[len("_global_") :].lstrip(".")
        stated = stated.replace("_group_", name.replace("/", "."))
        return f"{parent}.{stated}" if parent and stated else stated or parent
    header = _HEADER.match(document.file.text)
    if header is not None and header.group(1) != "_group_":
        stated = header.group(1)
        return "" if stated == "_global_" else stated.removeprefix("_global_.")
    relative = name.replace("/", ".") if grouped else ""
    return f"{parent}.{relative}" if parent and relative else relative or parent


def _packaged(root: Mapping, package: str) -> Mapping:
    """``root`` below the keys of its package."""
    made = root
    for step in reversed(package.split(".") if package else []):
        made = Mapping(root.span, [Entry(Scalar(root.span, step, step), made)])
    return made


Reread = Callable[[Composed], Reading]
"""A reading of the composed config, in place of that of the file alone."""

CONTEXT: Final = "hydra"
"""Key of a reading's context that holds what the linker calls to have it composed."""


def attach(reading: Reading, reread: Reread) -> None:
    """Let the linker compose the config of ``reading`` from the files at hand, under a command's choices and overrides."""
    root, document = reading.root, reading.document
    if not isinstance(root, Mapping):
        return
    whole = root

    def composed(load: Load, chosen: dict[str, str | None], overrides: Reading | None = None) -> Reading:
        found = compose(document, whole, load, chosen)
        if overrides is not None and isinstance(overrides.root, Mapping):
            found.owners.update(owned(overrides.root, overrides.document))
            found.root = over(found.root, overrides.root)
        return reread(found)

    if has_defaults(root):
        reading.context[CONTEXT] = composed
