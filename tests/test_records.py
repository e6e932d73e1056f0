"""``cfglint.records.dataclass`` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, Generic, TypeVar

import pytest

from cfglint import records

T = TypeVar("T")
OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]


def made(decorator: Callable[..., Any], **options: bool) -> Any:
    """The same class by either decorator."""

    @decorator(**options)
    class Point(Generic[T]):
        """A point."""

        x: int
        y: float = 0.5
        names: list[str] = field(default_factory=list)
        note: str = field(default="", repr=False)
        cache: Any = field(default=None, compare=False)

        @property
        def twice(self) -> int:
            return 2 * self.x

    return Point


@pytest.fixture(params=OPTIONS, ids=str)
def both(request: pytest.FixtureRequest) -> tuple[Any, Any, dict[str, bool]]:
    return made(dataclasses.dataclass, **request.param), made(records.dataclass, **request.param), request.param


Both = tuple[Any, Any, dict[str, bool]]


def test_construction_and_repr(both: Both) -> None:
    for arguments, named in (((1,), {}), ((1, 2.0), {"names": ["a"]}), ((), {"x": 3, "note": "n", "cache": 4})):
        theirs, ours = (cls(*arguments, **named) for cls in both[:2])
        assert repr(ours) == repr(theirs)
        assert [getattr(ours, f.name) for f in dataclasses.fields(ours)] == [
            getattr(theirs, f.name) for f in dataclasses.fields(theirs)
        ]
    _, cls, _ = both
    assert cls(1).names is not cls(1).names and cls(4).twice == 8 and cls.__doc__ == "A point."
    for wrong in ({}, {"z": 1}):
        with pytest.raises(TypeError):
            cls(**wrong)


def test_equality_and_hash(both: Both) -> None:
    theirs, ours, _ = both
    for one, other in (
        ((1,), (1,)),
        ((1,), (2,)),
        ((1, 2.0, [], "a", 1), (1, 2.0, [], "a", 2)),
        ((1, 2.0, ["b"]), (1,)),
    ):
        assert (ours(*one) == ours(*other)) == (theirs(*one) == theirs(*other))
    assert ours(1) != theirs(1) and ours(1) != 1
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if ours.__hash__ is not None:
        key = (1, 2.0, (), "")
        assert (hash(ours(*key)) == hash(ours(*key))) == (hash(theirs(*key)) == hash(theirs(*key)))


def test_frozen_and_slots(both: Both) -> None:
    theirs, ours, options = both
    assert hasattr(ours(1), "__dict__") == hasattr(theirs(1), "__dict__") == (not options["slots"])
    if not options["frozen"]:
        point = ours(1)
        point.x = 2
        assert point.x == 2
        return
    for cls in (theirs, ours):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            cls(1).x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del cls(1).x


def test_copies(both: Both) -> None:
    _, ours, _ = both
    point = ours(1, names=["a"])
    for other in (copy.copy(point), copy.deepcopy(point), dataclasses.replace(point)):
        assert other is not point and repr(other) == repr(point)
    assert dataclasses.replace(point, x=5).x == 5 and dataclasses.is_dataclass(ours)
    assert dataclasses.asdict(point)["names"] == ["a"]


@records.dataclass(frozen=True, slots=True)
class Pickled:
    value: int
    text: str = "t"


def test_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3, "t")


def test_inheritance_and_methods_of_ones_own() -> None:
    @records.dataclass(frozen=True)
    class Base:
        a: int
        b: int = 2

        def __repr__(self) -> str:
            return f"<{self.a}>"

    @records.dataclass(frozen=True)
    class Derived(Base):
        c: int = 3

    assert Derived(1).c == 3 and Derived(1, 5, 6) == Derived(1, 5, 6) != Base(1, 5)
    assert repr(Base(1)) == "<1>" and repr(Derived(1)).endswith("Derived(a=1, b=2, c=3)")


def test_a_cycle_has_a_repr() -> None:
    @records.dataclass(eq=False)
    class Knot:
        ends: list[Any] = field(default_factory=list)

    knot = Knot()
    knot.ends.append(knot)
    assert repr(knot).endswith("Knot(ends=[...])")


def test_fields_that_are_not_made_are_refused() -> None:
    with pytest.raises(TypeError, match=r"a field that cfglint\.records does not make"):

        @records.dataclass
        class Odd:
            a: int = field(default=1, init=False)


def test_it_is_quicker() -> None:
    """In a process of its own, the quickest of many: at least twice as quick (it is three times)."""
    code = (
        "import dataclasses, time\n"
        "from cfglint import records\n"
        "def quickest(decorator):\n"
        "    best = 1.0\n"
        "    for _ in range(60):\n"
        "        start = time.perf_counter()\n"
        "        @decorator(frozen=True, slots=True)\n"
        "        class A:\n"
        "            '''A.'''\n"
        "            a: int\n            b: int = 1\n            c: int = 2\n            d: int = 3\n            e: int = 4\n"
        "        best = min(best, time.perf_counter() - start)\n"
        "    return best\n"
        "print(quickest(dataclasses.dataclass) / quickest(records.dataclass))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 2, done.stdout
