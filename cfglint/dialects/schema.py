"""Key tables: which keys a config format has, their types, defaults and life by framework version.

The tables are data in ``data/<name>.json``, read from the frameworks' own sources by ``benchmarks/build_schemas.py``.
Loading one is a plain ``json.load``; pydantic is imported only when a value's type is first checked.

A key's versions are bound to the releases that were sampled: ``since`` is the first sampled release that has the key
(None: the earliest sampled one already had it), ``removed_in`` the first one that no longer has it.
"""

from __future__ import annotations

import json
import re
from collections import ChainMap, abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from cfglint.source.node import Entry, Mapping, Node, Route, Sequence

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

Status = Literal["ok", "deprecated", "removed", "not-yet", "unknown-version", "unknown-key"]

Conversion = Literal["none", "pydantic", "argparse", "omegaconf", "text"]
"""What the framework's reader does to a value before it is used.

``none``: the value of the YAML or JSON reader goes into a dataclass as it is. ``pydantic``: lax pydantic, which turns
``"2e-5"`` into a number. ``argparse``: text goes through the option's type, other values stay. ``omegaconf``: numbers
are read by the YAML 1.2 rules (``2e-5`` is a number), then nothing more. ``text``: every value is written into an
environment variable or a command line and read again.
"""

UnknownKeys = Literal["error", "warning", "ignored", "passed-on"]
"""What the framework does with a key it does not know: it stops, it says so, it drops it, it hands it to another reader."""


class _Missing:
    """The mark of a key without a default (required, or computed by the framework)."""

    def __repr__(self) -> str:
        return "missing"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


class _Inherited:
    """The mark of a default that the base format decides."""

    def __repr__(self) -> str:
        return "inherited"


INHERITED: Final = _Inherited()

DATA: Final = Path(__file__).with_name("data")

_PLACEHOLDER = re.compile(
    r"\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]\w*|\{\{.*?\}\}|\{%.*?%\}"
    r"|<[^<>|\n]*\b(?:your|path|insert|replace|change|fill)(?:\b|_)[^<>|\n]*>"
    r"|(?-i:__[A-Z][A-Z0-9_]*__|<[A-Z][A-Z0-9_ -]+>|@[A-Z][A-Z0-9_]*@|%[A-Z][A-Z0-9_]*%)",  # for sed to fill in
    re.DOTALL | re.IGNORECASE,
)
_EXPONENT_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")


def is_unknown(value: object) -> bool:
    """True for a value that is stated but not known here.

    ``auto`` (settled by the framework), ``???`` (OmegaConf's mandatory value), and text that holds an interpolation or
    a template field: ``${VAR}``, ``${a.b}``, ``$VAR``, ``$(command)``, ``{{ field }}``, ``{% … %}``, ``<your-model>``,
    ``__MODEL__``, ``<MODEL>``, ``@MODEL@``, ``%MODEL%``.
    """
    if not isinstance(value, str):
        return False
    text = value.strip()
    return text.lower() == "auto" or text == "???" or holds_placeholder(text)


def holds_placeholder(text: str) -> bool:
    """True for text in which something has still to be filled in."""
    return _PLACEHOLDER.search(text) is not None


def release(version: str | None) -> tuple[int, ...] | None:
    """The release numbers of a version, at most three (``0.9.1.post1`` → ``(0, 9, 1)``); None where it has none."""
    if not version:
        return None
    found = re.match(r"\s*v?(\d+(?:\.\d+){0,2})", version)
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def _before(left: str, right: str) -> bool:
    """True where ``left`` is an earlier release than ``right``, compared to the precision of ``right``."""
    a, b = release(left), release(right)
    if a is None or b is None:
        return False
    size = len(b)
    return (*a, 0, 0, 0)[:size] < b


@dataclass(frozen=True, slots=True, eq=False)
class KeyInfo:
    """One key: its type, default and life.

    ``type`` is a union of ``int``, ``float``, ``bool``, ``str``, ``dict``, ``list[...]``, ``None`` and ``any``.
    ``defaults`` is the history, oldest first: (first release with it, value); a key without a known default has none.
    ``keys`` are the known keys of a mapping value, ``items`` those of the mappings in a list value; both None where any
    key goes. ``open``: keys outside ``keys`` are accepted as well.
    """

    name: str
    type: str = "any"
    defaults: tuple[tuple[str, Any], ...] = ()
    since: str | None = None
    removed_in: str | None = None
    deprecated_in: str | None = None
    renamed_to: str | None = None
    absent_at: str | None = None
    """Where releases were sampled sparsely: the last sample before ``since``. What lies between the two is not known."""
    present_at: str | None = None
    """Likewise the last sample that has a removed key."""
    choices: tuple[str, ...] = ()
    choice_life: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    note: str = ""
    required: bool = False
    owner: str | None = None
    """The other table whose key this is, where the format takes another framework's keys (TRL takes transformers')."""
    ref: str | None = None
    """The table whose keys a mapping value has (``deepspeed`` inline in TrainingArguments)."""
    keys: abc.Mapping[str, KeyInfo] | None = None
    items: dict[str, KeyInfo] | None = None
    open: bool = False
    unknown: UnknownKeys | None = None
    """What becomes of unknown keys inside this key's mapping, where that differs from the top level."""
    unknown_since: str | None = None
    """The first sampled release of which ``unknown`` holds; before it the top level's answer does."""
    conversion: Conversion | None = None
    """How values inside this key's mapping are read, where that differs from the top level."""

    @property
    def default(self) -> Any:
        """The newest default, or :data:`MISSING` (also where the base format decides it)."""
        return MISSING if not self.defaults or self.defaults[-1][1] is INHERITED else self.defaults[-1][1]

    def default_in(self, version: str | None) -> tuple[Any, str] | None:
        """The default in a release, with the range of releases it holds for; the newest where ``version`` is None."""
        if not self.defaults:
            return None
        index = len(self.defaults) - 1
        if release(version) is not None and version is not None:
            while index > 0 and _before(version, self.defaults[index][0]):
                index -= 1
        since = self.defaults[index][0] if index > 0 else None
        until = self.defaults[index + 1][0] if index + 1 < len(self.defaults) else None
        bounds = [f">={since}" if since else "", f"<{until}" if until else ""]
        return self.defaults[index][1], ",".join(bound for bound in bounds if bound)

    def status_in(self, version: str | None, first_sampled: str | None = None) -> Status:
        """The key's standing in a release; ``unknown-version`` where its answer depends on a release not known."""
        always = self.since is None and self.deprecated_in is None
        if release(version) is None or version is None:
            if (
                first_sampled is not None
                and self.removed_in is not None
                and not _before(first_sampled, self.removed_in)
            ):
                return "removed"
            return "ok" if always and self.removed_in is None else "unknown-version"
        if self.removed_in is not None:
            if not _before(version, self.removed_in):
                return "removed"
            if self.present_at is not None and _before(self.present_at, version):
                return "unknown-version"
        if self.since is not None and _before(version, self.since):
            return "unknown-version" if self.absent_at is not None and _before(self.absent_at, version) else "not-yet"
        if self.deprecated_in is not None and not _before(version, self.deprecated_in):
            return "deprecated"
        if first_sampled is not None and self.since is None and _before(version, first_sampled):
            return "unknown-version"
        return "ok"

    def choices_in(self, version: str | None) -> tuple[str, ...]:
        """The values a release takes; all that any sampled release took where the version is not known."""
        if release(version) is None or version is None:
            return self.choices
        kept = []
        for choice in self.choices:
            since, until = self.choice_life.get(choice, (None, None))
            if (since is None or not _before(version, since)) and (until is None or _before(version, until)):
                kept.append(choice)
        return tuple(kept)


@dataclass(frozen=True, slots=True)
class Reader:
    """How the framework reads the file."""

    loader: str = ""
    conversion: Conversion = "none"
    conversion_life: tuple[tuple[str, Conversion], ...] = ()
    unknown_keys: UnknownKeys = "error"
    unknown_keys_life: tuple[tuple[str, UnknownKeys], ...] = ()
    duplicate_keys: Literal["last-wins", "error"] = "last-wins"
    note: str = ""

    def conversion_in(self, version: str | None) -> Conversion:
        """What a release does to values; the newest answer where the version is not known."""
        answer = self.conversion
        for since, value in self.conversion_life:
            if version is None or release(version) is None or not _before(version, since):
                answer = value
        return answer

    def unknown_keys_in(self, version: str | None) -> UnknownKeys:
        """What a release does with an unknown key; the newest answer where the version is not known."""
        answer = self.unknown_keys
        for since, value in self.unknown_keys_life:
            if version is None or release(version) is None or not _before(version, since):
                answer = value
        return answer


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key that the table does not have, with its place and the nearest known names."""

    route: Route
    entry: Entry
    suggestions: tuple[str, ...]
    effect: UnknownKeys = "error"


NEAR: Final = 0.8
"""How alike two names are (difflib's ratio) for one to be suggested for the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The key table of one format."""

    name: str
    framework: str
    versions: tuple[str, ...]
    source: str
    checked: str
    reader: Reader
    keys: abc.Mapping[str, KeyInfo]
    bases: tuple[Schema, ...] = ()
    open: bool = False
    """Any key is accepted (model configurations)."""
    variants: tuple[str, ...] = ()
    """Classes of the format with key sets of their own (``SFTConfig`` …)."""
    commands: tuple[str, ...] = ()
    """Commands that stand for a variant (``sft``)."""
    title: str = ""
    dashes: bool = False
    """Keys may be written with dashes for underscores (``max-model-len``)."""
    tolerated: frozenset[str] = frozenset()
    """Top-level keys of well-known scripts built on the format: not the format's own, and no fault."""

    def key(self, *route: str | int) -> KeyInfo | None:
        """The key at ``route``; sequence indexes step into the items of a list."""
        info: KeyInfo | None = None
        for depth, step in enumerate(route):
            if isinstance(step, int):
                if info is None or info.items is None:
                    return None
                info = KeyInfo(info.name, "dict", keys=info.items, open=info.open)
            elif depth == 0:
                info = self._top(step)
            else:
                info = (info.keys or {}).get(step) if info is not None else None
            if info is None:
                return None
        return info

    def _top(self, name: str) -> KeyInfo | None:
        found = self.keys.get(name.replace("-", "_") if self.dashes else name)
        if found is not None:
            return found
        for base in self.bases:
            found = base._top(name)
            if found is not None:
                return found
        return None

    def all_keys(self) -> abc.Mapping[str, KeyInfo]:
        """Every top-level key, those of the bases included; the table's own win, then the first base's."""
        # typed for dicts that can be changed; nobody changes these
        return ChainMap(self.keys, *(base.all_keys() for base in self.bases))  # type: ignore[arg-type]

    def owner_of(self, *route: str | int) -> Schema | None:
        """The table whose framework's version a key goes by: this one, a base it takes the key from, or the table of
        the file that may stand inline there (DeepSpeed's inside TrainingArguments)."""
        if not route or not isinstance(route[0], str):
            return self
        first = route[0].replace("-", "_") if self.dashes else route[0]
        owner = self if first in self.keys else None
        for base in self.bases if owner is None else ():
            owner = base.owner_of(route[0])
            if owner is not None:
                break
        for depth in range(1, len(route)):
            info = self.key(*route[:depth])
            if info is not None and info.ref is not None:
                return load_schema(info.ref)
        return owner

    def known(self, name: str) -> bool:
        """True where some sampled release has the top-level key."""
        return self._top(name) is not None

    def suggest(self, name: str, route: Route = ()) -> list[str]:
        """Known names most like ``name`` in the mapping at ``route``, nearest first, names still in use before others."""
        return list(_near_names(self, name, route))

    def typo_of(self, name: str, route: Route = ()) -> str | None:
        """The one known name that ``name`` is a slip of the pen away from, or None.

        Stricter than :meth:`suggest`, for formats whose scripts may have keys of their own: one letter added, lost,
        changed or two neighbours swapped; two such slips in a name of twelve letters or more.
        """
        infos = self._children(route) if route else self.all_keys()
        name = name.replace("-", "_") if self.dashes else name
        if not infos or name in infos:
            return None
        limit = 2 if len(name) >= 12 else 1
        near = [key for key in infos if abs(len(key) - len(name)) <= limit and _slips(name, key, limit) <= limit]
        return near[0] if len(near) == 1 and len(name) >= 4 else None

    def _children(self, route: Route) -> abc.Mapping[str, KeyInfo] | None:
        if not route:
            return None if self.open else self.all_keys()
        info = self.key(*route)
        if info is None or info.open:
            return None
        return info.keys

    def unknown_effect(self, route: Route = (), version: str | None = None) -> UnknownKeys:
        """What the framework does with an unknown key in the mapping at ``route``; the innermost statement counts."""
        for depth in range(len(route), 0, -1):
            info = self.key(*route[:depth])
            if info is not None and info.ref is not None:
                return load_schema(info.ref).unknown_effect(route[depth:], version)
            if info is None or info.unknown is None:
                continue
            if version is None or info.unknown_since is None or not _before(version, info.unknown_since):
                return info.unknown
        return self.reader.unknown_keys_in(version)

    def unknown_keys(self, mapping: Mapping, route: Route = (), version: str | None = None) -> Iterator[UnknownKey]:
        """Keys of ``mapping``, and of the mappings in it whose keys are known, that no sampled release has."""
        infos = self._children(route)
        for name, entry in mapping.index.items():
            here = (*route, name)
            if infos is not None and (name.replace("-", "_") if self.dashes else name) not in infos:
                if not is_unknown(name) and (route or name not in self.tolerated):
                    yield UnknownKey(here, entry, tuple(self.suggest(name, route)), self.unknown_effect(route, version))
                continue
            yield from self._unknown_inside(entry.value, here, version)

    def _unknown_inside(self, node: Node, route: Route, version: str | None) -> Iterator[UnknownKey]:
        info = self.key(*route)
        if info is None:
            return
        if isinstance(node, Mapping) and info.keys is not None:
            yield from self.unknown_keys(node, route, version)
        elif isinstance(node, Sequence) and info.items is not None:
            for index, item in enumerate(node.items):
                if isinstance(item, Mapping):
                    yield from self.unknown_keys(item, (*route, index), version)

    def status(self, route: Route | str, version: str | None) -> Status:
        """The standing of a key in a release of the framework that owns it."""
        steps: Route = (route,) if isinstance(route, str) else route
        info = self.key(*steps)
        if info is None:
            return "unknown-key"
        owner = self.owner_of(*steps) or self
        return info.status_in(version, owner.versions[0] if owner.versions else None)

    def default(self, route: Route | str, version: str | None = None) -> tuple[Any, str] | None:
        """A key's default in a release and the range it holds for (empty: in every release); None where there is none."""
        steps: Route = (route,) if isinstance(route, str) else route
        info = self.key(*steps)
        if info is None:
            return None
        found = info.default_in(version)
        if found is not None and found[0] is INHERITED:
            for base in self.bases:
                inherited = base.default(steps)
                if inherited is not None:
                    return inherited
            return None
        return found

    def check_type(
        self,
        route: Route | str,
        value: object,
        version: str | None = None,
        *,
        quoted: bool = False,
        read_in: str | None = None,
    ) -> str | None:
        """A complaint in words about a value's type or choice, or None.

        ``value`` is the plain value as the file's own reader sees it. Values that are stated but not known
        (:func:`is_unknown`) pass. ``quoted`` says that a text stood in quotes: OmegaConf then leaves it text. ``version`` is
        the release of the key's owner, ``read_in`` that of the program which reads the file.
        """
        steps: Route = (route,) if isinstance(route, str) else route
        info = self.key(*steps)
        if info is None or info.type == "any" or is_unknown(value):
            return None
        conversion = self.reader.conversion_in(read_in)
        for depth in range(1, len(steps)):
            outer = self.key(*steps[:depth])
            if outer is not None and outer.ref is not None:
                return load_schema(outer.ref).check_type(steps[depth:], value, quoted=quoted)
            if outer is not None and outer.conversion is not None:
                conversion = outer.conversion
        return _complaint(info, value, conversion, version, quoted)


@lru_cache(maxsize=16384)
def _near_names(schema: Schema, name: str, route: Route) -> tuple[str, ...]:
    """What :meth:`Schema.suggest` says, kept: several rules ask about every unknown key of a file."""
    import difflib

    infos = schema._children(route) if route else schema.all_keys()
    if not infos:
        return ()
    wanted = name.lower().replace("-", "_")
    n = len(wanted)
    # two names are at most as alike as their lengths; this is much cheaper than difflib's own first look
    alike = (key for key in infos if 2.0 * min(n, len(key)) >= NEAR * (n + len(key)) - 1e-9)
    folded = {key.lower().replace("-", "_"): key for key in alike}
    near = difflib.get_close_matches(wanted, folded, n=4, cutoff=NEAR)
    names = [folded[key] for key in near if folded[key] != name]
    return tuple(sorted(names, key=lambda key: infos[key].removed_in is not None)[:3])


def _slips(left: str, right: str, limit: int) -> int:
    """Edit distance with swapped neighbours as one edit; anything above ``limit`` comes back as ``limit + 1``."""
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for i, char in enumerate(left, 1):
        current = [i]
        for j, other in enumerate(right, 1):
            cost = min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (char != other))
            if before and i > 1 and j > 1 and char == right[j - 2] and left[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return previous[-1]


_WORDS: Final = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "dict": "a mapping",
    "None": "null",
    "list": "a list",
    "any": "any value",
}


def type_members(expression: str) -> list[str]:
    """The members of a union type expression; brackets are not split (``list[int | str] | None`` has two)."""
    members, depth, start = [], 0, 0
    for i, char in enumerate(expression):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "|" and depth == 0:
            members.append(expression[start:i].strip())
            start = i + 1
    members.append(expression[start:].strip())
    return members


def type_in_words(expression: str) -> str:
    """``float | None`` → ``a number or null``."""
    words = []
    for member in type_members(expression):
        if member.startswith("list["):
            inner = [_WORDS.get(m, m).removeprefix("an ").removeprefix("a ") for m in type_members(member[5:-1])]
            words.append("a list" if "any value" in inner else f"a list of {' or '.join(inner)}")
        else:
            words.append(_WORDS.get(member, member))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


DIGITS_SHOWN: Final = 40
"""Digits of the longest number that a message repeats; text is cut there too."""


def value_in_words(value: object) -> str:
    """How a value is named in a message: the value, and its kind where that is not plain to see."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{value if len(value) <= DIGITS_SHOWN else value[: DIGITS_SHOWN - 3] + "…"}"'
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**DIGITS_SHOWN:
        return f"a number of more than {DIGITS_SHOWN} digits"
    return repr(value) if isinstance(value, (int, float)) else f"the {type(value).__name__} {value}"


def annotation(expression: str) -> Any:
    """The Python type of a type expression, for pydantic."""
    from typing import Union

    simple: dict[str, Any] = {
        "int": int, "float": float, "bool": bool, "str": str, "dict": dict[str, Any], "list": list[Any], "any": Any,
        "None": None,
    }  # fmt: skip
    members = []
    for member in type_members(expression):
        if member.startswith("list["):
            members.append(_list_of([annotation(member[5:-1])]))
        else:
            members.append(simple[member])
    return Union[tuple(members)]  # noqa: UP007


@lru_cache(maxsize=256)
def _adapter(expression: str, strict: bool) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(annotation(expression), config=ConfigDict(strict=strict))


def _plainly_of(expression: str, value: object) -> bool:
    """True where a value is of the type as it stands: most are, and then pydantic need not be imported."""
    members = type_members(expression)
    if isinstance(value, list):
        inner = [member[5:-1] for member in members if member.startswith("list[")]
        return "list" in members or any(all(_plainly_of(kind, item) for item in value) for kind in inner)
    name = "None" if value is None else type(value).__name__
    return "any" in members or name in members or (name == "int" and "float" in members)


_LAX_BOOLS: Final = frozenset({"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"})
_SIMPLE_NUMBER: Final = re.compile(r"[-+]?(?:(?P<whole>[0-9]{1,15})|[0-9]{1,15}(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?)")
_WORD: Final = re.compile(r"[A-HJ-MO-Za-hj-mo-z/][\w./ -]*")
"""Text that is no number, whatever follows: no number begins with a letter but ``inf`` and ``nan``."""


def _lax_member(member: str, value: object) -> bool | None:
    """Whether lax pydantic takes a value, not of the type as it stands, for a member; None where it has to be asked."""
    if member in ("int", "float", "bool"):
        if isinstance(value, str):
            if member == "bool":
                return value.lower() in _LAX_BOOLS if value.strip() == value else None
            number = _SIMPLE_NUMBER.fullmatch(value)
            if number is not None:
                return True if member == "float" or number["whole"] else None
            return False if _WORD.fullmatch(value) else None
        return False if value is None or isinstance(value, (list, dict)) else None
    if member.startswith("list[") and isinstance(value, list):
        return None
    return False if value is None or isinstance(value, (str, bool, int, float, list, dict)) else None


def _accepts(expression: str, value: object, *, strict: bool) -> bool:
    if _plainly_of(expression, value):
        return True
    plain = value is None or isinstance(value, (str, bool, int, float, list, dict))
    if strict and plain:
        return False
    answers = [_lax_member(member, value) for member in type_members(expression)]
    if True in answers:
        return True
    if None not in answers:
        return False
    from pydantic import ValidationError

    try:
        _adapter(expression, strict).validate_python(value)
    except ValidationError:
        return False
    return True


def _as_read(value: object, conversion: Conversion, quoted: bool) -> object:
    """The value after the reader's own number rules."""
    if conversion == "omegaconf" and isinstance(value, str) and not quoted:
        text = value.strip().replace("_", "")
        if text and _EXPONENT_NUMBER.fullmatch(text):
            return float(text)
    return value


def _complaint(info: KeyInfo, value: object, conversion: Conversion, version: str | None, quoted: bool) -> str | None:
    value = _as_read(value, conversion, quoted)
    members = type_members(info.type)
    if value is None and (conversion != "pydantic" or "None" in members or info.default is None):
        return None  # most readers take null as "not set"; only one that validates objects to it
    lax = conversion == "pydantic" or (conversion == "argparse" and isinstance(value, str)) or conversion == "text"
    if info.choices and "str" in members and isinstance(value, (str, bool)):
        others = " | ".join(member for member in members if member != "str")
        if not others or not _accepts(others, value, strict=not lax):
            return _choice_complaint(info, value, version)
        return None
    if value is False and "None" in members and conversion != "pydantic":
        return None  # such code asks whether the value is set, and false is as good as null
    if conversion == "argparse" and isinstance(value, str) and any(member.startswith("list") for member in members):
        return None  # argparse leaves the text of a default of a list option alone
    if conversion == "text" and isinstance(value, (int, float)):
        value = str(value)
    if _accepts(info.type, value, strict=not lax):
        return None
    if isinstance(value, str) and "float" in members and _EXPONENT_NUMBER.fullmatch(value.strip()):
        return f'expected {type_in_words(info.type)}, but "{value}" is read as text'
    return f"expected {type_in_words(info.type)}, found {value_in_words(value)}"


def _choice_complaint(info: KeyInfo, value: str | bool, version: str | None) -> str | None:
    choices = info.choices_in(version)
    if isinstance(value, bool):
        if {"on", "off", "yes", "no", "true", "false"} & {choice.lower() for choice in choices}:
            read = "yes and on as true" if value else "no and off as false"
            return f"expected one of {_listed(choices)}; without quotes YAML reads {read}"
        return f"expected one of {_listed(choices)}, found {'true' if value else 'false'}"
    if value in choices:
        return None
    return f'expected one of {_listed(choices)}, found "{value}"'


def _listed(choices: tuple[str, ...]) -> str:
    shown = ", ".join(f'"{choice}"' for choice in choices[:12])
    return shown if len(choices) <= 12 else f"{shown} … ({len(choices)} values)"


def _read_key(name: str, row: dict[str, Any], first: str) -> KeyInfo:
    defaults: tuple[tuple[str, Any], ...] = ()
    if "defaults" in row:
        defaults = tuple((since, INHERITED if value == {"$base": True} else value) for since, value in row["defaults"])
    elif "default" in row:
        defaults = ((row.get("since") or first, row["default"]),)
    keys, items = row.get("keys"), row.get("items")
    inner_keys: abc.Mapping[str, KeyInfo] | None = None if keys is None else _Keys(keys, first)
    if "ref" in row:
        inner_keys = load_schema(row["ref"]).keys
    return KeyInfo(
        name=name,
        type=row.get("type", "any"),
        defaults=defaults,
        since=row.get("since"),
        removed_in=row.get("removed_in"),
        deprecated_in=row.get("deprecated_in"),
        renamed_to=row.get("renamed_to"),
        choices=tuple(row.get("choices", ())),
        choice_life={choice: (life[0], life[1]) for choice, life in row.get("choice_life", {}).items()},
        note=row.get("note", ""),
        required=row.get("required", False),
        owner=row.get("owner"),
        ref=row.get("ref"),
        keys=inner_keys,
        items=None if items is None else {key: _read_key(key, inner, first) for key, inner in items.items()},
        open=row.get("open", False),
        unknown=row.get("unknown"),
        unknown_since=row.get("unknown_since"),
        conversion=row.get("conversion"),
    )


class _Keys(abc.Mapping[str, KeyInfo]):
    """The keys of a table, each read when it is asked for: a file has few of the hundreds there are."""

    def __init__(self, rows: dict[str, dict[str, Any]], first: str) -> None:
        self._rows, self._first = rows, first
        self._read: dict[str, KeyInfo] = {}

    def __getitem__(self, key: str) -> KeyInfo:
        info = self._read.get(key)
        if info is None:
            info = self._read[key] = _read_key(key, self._rows[key], self._first)
        return info

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def schema_names() -> tuple[str, ...]:
    """The formats that have a table, in alphabetical order; the serving engines' tables are the catalogue's."""
    from cfglint.dialects.engine_schema import ENGINES

    return tuple(sorted([*(path.stem for path in DATA.glob("*.json")), *ENGINES]))


@cache
def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return table


@cache
def load_schema(name: str, variant: str | None = None) -> Schema:
    """The key table of a format; with ``variant`` only the keys of one of its classes (``trl``, ``SFTConfig``).

    Raises KeyError for a name without a table or an unknown variant.
    """
    if not (DATA / f"{name}.json").is_file():
        from cfglint.dialects.engine_schema import engine_schema

        if variant is not None:
            raise KeyError(variant)
        return engine_schema(name)
    table = _table(name)
    rows: dict[str, Any] = dict(table["keys"])
    classes: dict[str, Any] = table.get("classes", {})
    bases: list[str] = table.get("bases", [])
    if variant is not None:
        variant = table.get("commands", {}).get(variant, variant)
        own = classes[variant]
        without = frozenset(own.get("without", ()))
        rows = own["keys"] if "keys" in own else {key: row for key, row in rows.items() if key not in without}
        bases = own.get("bases", bases)
    rows = {**table.get("shared", {}), **rows}
    versions = tuple(table["versions"])
    reader = dict(table["reader"])
    for life in ("unknown_keys_life", "conversion_life"):
        reader[life] = tuple((since, value) for since, value in reader.get(life, ()))
    first = versions[0] if versions else ""
    return Schema(
        name=name if variant is None else f"{name}:{variant}",
        framework=table["framework"],
        versions=versions,
        source=table["source"],
        checked=table["checked"],
        reader=Reader(**reader),
        keys=_Keys(rows, first),
        bases=tuple(_load_base(base) for base in bases),
        open=table.get("open", False),
        variants=tuple(classes),
        commands=tuple(table.get("commands", ())),
        title=table.get("title", name),
        tolerated=frozenset(table.get("tolerated", ())),
    )


def _load_base(name: str) -> Schema:
    table, _, variant = name.partition(":")
    return load_schema(table, variant or None)


def _describe(info: KeyInfo, framework: str) -> str:
    parts = [info.note] if info.note else []
    if info.default is not MISSING:
        history = [f"{json.dumps(value)} from {since}" for since, value in info.defaults if value is not INHERITED]
        parts.append(f"Default {json.dumps(info.default)}." if len(history) == 1 else f"Default {', '.join(history)}.")
    if info.since:
        parts.append(f"Since {framework} {info.since}.")
    if info.deprecated_in:
        parts.append(f"Deprecated in {framework} {info.deprecated_in}.")
    if info.removed_in:
        parts.append(f"Removed in {framework} {info.removed_in}.")
    if info.renamed_to:
        parts.append(f"Use {info.renamed_to}.")
    return " ".join(parts)


def pydantic_model(name: str, variant: str | None = None) -> type[BaseModel]:
    """A pydantic model of a format's mapping, made from its table; every key is optional unless required."""
    schema = load_schema(name, variant)
    title = schema.title if variant is None else variant
    return _model(
        title, schema.all_keys(), schema.framework, open_=schema.open or schema.reader.unknown_keys != "error"
    )


def _model(title: str, keys: abc.Mapping[str, KeyInfo], framework: str, *, open_: bool) -> type[BaseModel]:
    from typing import Union

    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for number, (key, info) in enumerate(keys.items()):
        kind = _field_type(title, info, framework)
        extra: dict[str, Any] = {}
        if info.deprecated_in or info.removed_in:
            extra["deprecated"] = True
        description = _describe(info, framework)
        default = ... if info.required else (None if info.default is MISSING else info.default)
        settings = Field(default, alias=key, description=description or None, json_schema_extra=extra or None)
        # keys need not be Python names (``defaults``-like words and dotted keys occur), so the alias carries them
        fields[f"field_{number}"] = (kind if info.required else Union[kind, None], settings)  # noqa: UP007
    config = ConfigDict(extra="allow" if open_ else "forbid", title=title)
    model: type[BaseModel] = create_model(re.sub(r"\W", "_", title), __config__=config, **fields)
    return model


def _field_type(title: str, info: KeyInfo, framework: str) -> Any:
    from typing import Literal, Union

    members: list[Any] = []
    for member in type_members(info.type):
        if member == "dict" and info.keys is not None:
            members.append(_model(f"{title} {info.name}", info.keys, framework, open_=info.open))
        elif member.startswith("list[") and info.items is not None and "dict" in type_members(member[5:-1]):
            item = _model(f"{title} {info.name} item", info.items, framework, open_=info.open)
            others = [annotation(m) for m in type_members(member[5:-1]) if m != "dict"]
            members.append(_list_of([item, *others]))
        elif member == "str" and info.choices and info.type in ("str", "str | None"):
            members.append(Literal[info.choices])
        else:
            members.append(annotation(member))
    return Union[tuple(members)]  # noqa: UP007


def _list_of(members: list[Any]) -> Any:
    from typing import Union

    return list.__class_getitem__(Union[tuple(members)])  # noqa: UP007


def json_schema(name: str, variant: str | None = None) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a format, for editors."""
    schema = load_schema(name, variant)
    model = pydantic_model(name, variant)
    result: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(by_alias=True),
    }
    sampled = f"{schema.versions[0]} to {schema.versions[-1]}" if schema.versions else "any version"
    result["description"] = f"Keys of {schema.title}, {schema.framework} {sampled}."
    return result
