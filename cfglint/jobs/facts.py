"""Facts and where they came from.

A fact is a typed value with an origin. When two files state the same fact differently both are kept, in order of
precedence: that is what the consistency rules look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, overload

from cfglint.source.node import Document, Entry, Mapping, Node, Position, Route, Scalar, Span, at

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class FileOrigin:
    """A key and its value in a file; for command lines the flag and its argument."""

    document: Document
    route: Route
    key_span: Span
    value_span: Span

    @property
    def position(self) -> Position:
        return self.document.file.position(self.key_span.start)

    def describe(self) -> str:
        return f"{self.document.path}:{self.position.line}"


@dataclass(frozen=True, slots=True)
class DefaultOrigin:
    """A framework's default. ``version`` is the range it holds for, in words (``5.x``, ``>=0.17``), empty if always."""

    framework: str
    version: str = ""
    note: str = ""

    def describe(self) -> str:
        return f"{self.framework}{' ' + self.version if self.version else ''} default"


@dataclass(frozen=True, slots=True)
class CatalogueOrigin:
    source: str

    def describe(self) -> str:
        return "catalogue"


@dataclass(frozen=True, slots=True)
class FlagOrigin:
    """A flag of the cfglint command line."""

    flag: str

    def describe(self) -> str:
        return self.flag


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """cfglint's own settings: ``path`` of the settings file and the key in it."""

    path: str
    key: str

    def describe(self) -> str:
        return f"{self.path} ({self.key})"


@dataclass(frozen=True, slots=True)
class DerivedOrigin:
    """Worked out from other facts; ``how`` shows the working (``8 GPUs / (tp 2 × pp 1)``)."""

    how: str
    inputs: tuple[Origin, ...] = ()

    def describe(self) -> str:
        return self.how


Origin = FileOrigin | DefaultOrigin | CatalogueOrigin | FlagOrigin | SettingOrigin | DerivedOrigin


class _Unknown:
    """A value that is stated but not known here: ``auto``, ``${VAR}``, ``???``."""

    def __repr__(self) -> str:
        return "unknown"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()

LARGEST: Final = 2**63
"""Numbers from here on are no sizes or counts of anything (2^63 tokens are more than were ever written)."""


def beyond_counting(value: object) -> bool:
    """True for numbers that nothing can be worked out with: infinite, or too large for any count."""
    return isinstance(value, (int, float)) and (value >= LARGEST or value <= -LARGEST)


@dataclass(frozen=True, slots=True, eq=False)
class Fact(Generic[T]):
    """``value`` with where it came from. ``via``: the file that led here, where it is not the origin itself."""

    value: T
    origin: Origin
    certain: bool = True
    """False where files were put together by guess (sole neighbours in a folder)."""

    def describe(self) -> str:
        return self.origin.describe()


def _countable(value: Any) -> Any:
    """A stated value; one that is :func:`beyond_counting` is stated but not known."""
    return UNKNOWN if beyond_counting(value) else value


class FactSet:
    """Facts by name, each with every statement of it, the winning one first."""

    def __init__(self) -> None:
        self._facts: dict[str, list[Fact[Any]]] = {}

    def state(self, name: str, value: Any, origin: Origin, *, certain: bool = True) -> None:
        """Add a statement after those already made: earlier statements win."""
        self._facts.setdefault(name, []).append(Fact(_countable(value), origin, certain))

    def state_first(self, name: str, value: Any, origin: Origin, *, certain: bool = True) -> None:
        """Add a statement that wins over those already made."""
        self._facts.setdefault(name, []).insert(0, Fact(_countable(value), origin, certain))

    def extend(self, other: FactSet, *, certain: bool = True) -> None:
        """Take over another set's statements behind one's own."""
        for name, facts in other._facts.items():
            for fact in facts:
                self._facts.setdefault(name, []).append(fact if certain else Fact(fact.value, fact.origin, False))

    def fact(self, name: str) -> Fact[Any] | None:
        """The winning statement whose value is known."""
        for fact in self._facts.get(name, ()):
            if fact.value is not UNKNOWN:
                return fact
        return None

    def value(self, name: str, default: Any = None) -> Any:
        fact = self.fact(name)
        return default if fact is None else fact.value

    def statements(self, name: str) -> tuple[Fact[Any], ...]:
        """Every statement of a fact, unknown ones included."""
        return tuple(self._facts.get(name, ()))

    def stated(self, name: str) -> bool:
        """True where something states the fact, even with a value not known here."""
        return bool(self._facts.get(name))

    def undecided(self, name: str) -> bool:
        """True where the fact is stated, but only as unknown."""
        return self.stated(name) and self.fact(name) is None

    def names(self) -> Iterator[str]:
        return iter(self._facts)


class FactField(Generic[T]):
    """A typed attribute of a job that reads the winning fact of its name."""

    def __init__(self, doc: str = "") -> None:
        self.__doc__ = doc
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, obj: None, owner: type) -> FactField[T]: ...
    @overload
    def __get__(self, obj: FactSet, owner: type) -> Fact[T] | None: ...
    def __get__(self, obj: FactSet | None, owner: type) -> FactField[T] | Fact[T] | None:
        return self if obj is None else obj.fact(self.name)


PROCESSES: Final = "processes"
"""Key in a launch reading's context: processes of all machines with their origin, where another file says how many machines."""


@dataclass(slots=True, eq=False)
class Reference:
    """One file or model named by another. ``base`` says what a relative path starts from."""

    role: str
    """``config``, ``deepspeed``, ``accelerate``, ``model``, ``adapter``, ``fsdp`` …"""
    target: str
    origin: FileOrigin
    base: str = "unknown"
    """``file`` (the folder of the file that names it), ``cwd`` (working directory or repository root) or ``unknown``."""


@dataclass(slots=True, eq=False)
class Reading:
    """What one dialect reads in one document: the settings node, the facts, and the other files it names.

    ``role``: ``run`` is a whole run's settings (trainer arguments, an engine's command line); ``launch`` starts runs
    (torchrun, accelerate launch …); ``part`` completes a run that names it (DeepSpeed JSON, Accelerate YAML);
    ``model`` describes a model (config.json, adapter_config.json).
    """

    dialect: str
    document: Document
    root: Node
    """The node that holds this dialect's keys; for command lines a mapping made of the flags."""
    role: str = "run"
    kind: str = "train"
    """``train``, ``serve`` or ``both``."""
    facts: FactSet = field(default_factory=FactSet)
    references: list[Reference] = field(default_factory=list)
    base: Route = ()
    """Route of ``root`` inside the document."""
    carrier: str | None = None
    why: str = ""
    name: str = ""
    """Job name part after ``#``, where a document holds several."""
    context: dict[str, Any] = field(default_factory=dict)
    """What a dialect or carrier wants its rules to see besides facts (image, environment, container node …)."""
    framework: str | None = None

    def at(self, *route: str | int) -> Node | None:
        return at(self.root, *route)

    def value(self, *route: str | int) -> Any:
        """The scalar at ``route`` relative to this reading's root, or None."""
        found = at(self.root, *route)
        return found.value if isinstance(found, Scalar) else None

    def entry(self, *route: str | int) -> Entry | None:
        """The key and value at ``route``, whose last step is a key."""
        parent = at(self.root, *route[:-1]) if route else None
        last = route[-1] if route else None
        return parent.entry(last) if isinstance(parent, Mapping) and isinstance(last, str) else None

    def origin(self, *route: str | int) -> FileOrigin:
        """Where ``route`` stands; the document's beginning for the empty route."""
        found = at(self.root, *route)
        entry = self.entry(*route)
        if entry is not None:
            return FileOrigin(self.document, (*self.base, *route), entry.key.span, entry.value.span)
        if found is not None:
            return FileOrigin(self.document, (*self.base, *route), found.span, found.span)
        return FileOrigin(self.document, (*self.base, *route), self.root.span, self.root.span)
