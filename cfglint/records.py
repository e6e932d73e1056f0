"""``dataclass`` as the standard library has it, made in a fourth of the time.

The standard library compiles up to six functions for each class, 0.35 ms in all; a run imports 130 such classes, and that
was a third of its time. Here one function is compiled, ``__init__``; the others are shared or closed over the fields'
names. Type checkers see the standard library's own, ``dataclasses.replace`` and ``dataclasses.fields`` work as ever.
Options are ``frozen``, ``slots`` and ``eq``, those of a field ``default``, ``default_factory``, ``repr`` and ``compare``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    _NOT_GIVEN = object()
    """Stands for a default that a factory makes."""

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True):
        def make(cls):
            own = cls.__dict__
            cls.__doc__ = cls.__doc__ or cls.__name__  # the standard library would work a signature out
            made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
            fields = dataclasses.fields(made)
            for method in _methods(made, fields, frozen, slots, eq):
                if method.__name__ not in own:
                    setattr(made, method.__name__, method)
            if eq and not frozen and "__hash__" not in own:
                made.__hash__ = None
            return made

        return make if cls is None else make(cls)

    def _methods(cls, fields, frozen, slots, eq):
        yield _init(cls, fields, frozen)
        yield _repr([f.name for f in fields if f.repr])
        if eq:
            values = _values([f.name for f in fields if f.compare])

            def __eq__(self, other):
                return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

            def __hash__(self):
                return hash(values(self))

            yield __eq__
            if frozen:
                yield __hash__
        if frozen:
            yield from (_setattr, _delattr)
            if slots:
                yield from (_getstate, _setstate)

    def _init(cls, fields, frozen):
        names = {"_not_given": _NOT_GIVEN, "_set": object.__setattr__}
        parameters, body = [], []
        for field in fields:
            name = field.name
            if not field.init or field.kw_only:
                raise TypeError(f"{cls.__name__}.{name}: a field that {__name__} does not make")
            if field.default is not dataclasses.MISSING:
                names[f"_default_{name}"] = field.default
                parameters.append(f"{name}=_default_{name}")
            elif field.default_factory is not dataclasses.MISSING:
                names[f"_make_{name}"] = field.default_factory
                parameters.append(f"{name}=_not_given")
                body.append(f"if {name} is _not_given: {name} = _make_{name}()")
            else:
                parameters.append(name)
            body.append(f"_set(self, {name!r}, {name})" if frozen else f"self.{name} = {name}")
        exec(f"def __init__(self, {', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), names)
        return names["__init__"]

    def _repr(names):
        @recursive_repr("...")
        def __repr__(self):
            return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return __repr__

    def _values(names):
        """A function from an instance to the tuple of these attributes."""
        if len(names) > 1:
            return attrgetter(*names)
        return lambda self: tuple([getattr(self, name) for name in names])

    def _setattr(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    # what copying an instance without a dictionary goes through, as its attributes cannot be assigned
    def _getstate(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _setstate(self, state):
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    for _function in (_setattr, _delattr, _getstate, _setstate):
        _function.__name__ = f"__{_function.__name__[1:]}__"
