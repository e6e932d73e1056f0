"""Interpolation inside one file: OmegaConf's ``${a.b}``, its resolvers, and Primus' ``${VARIABLE:default}``.

A value that refers to another value of the same file is read as that value, at its own place. What the file alone does
not settle (an environment variable, a resolver that is not known here, a key that stands in a parent file) stays the
text it is, which counts as stated but not known.

Grammar and built-in resolvers: omegaconf 2.3 (``grammar``, ``resolvers/oc``); ``mul``, ``multiply``, ``div``, ``add`` and
``sum`` as NeMo, NeMo-RL and NeMo Aligner register them; Primus ``core/config/yaml_loader.py``.
"""

from __future__ import annotations

import re
from typing import Final

from cfglint.dialects.values import FactReader, integer, number
from cfglint.jobs.facts import Origin
from cfglint.source.node import Mapping, Node, Route, Scalar, Sequence, Value, at
from cfglint.source.whole_number import whole_number
from cfglint.source.yaml import plain_value

DEPTH: Final = 16
"""Interpolations that may lead to one another before one is taken to be a cycle."""

LENGTH: Final = 512
"""Characters up to which a value is searched for interpolations."""

_REFERENCE = re.compile(r"\.*[A-Za-z_][\w-]*(?:\[?\.?[\w-]+\]?)*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def resolve(root: Node, node: Node | None, route: Route = (), depth: int = DEPTH) -> Node | None:
    """What a node of ``root`` that may be an interpolation stands for; the node itself where it is none, or not known."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return node
    text = node.value
    if "${" not in text or len(text) > LENGTH or depth <= 0:
        return node
    parts = _split(text.strip())
    if parts is None:
        return node
    if len(parts) == 1 and parts[0][0]:
        found = _expression(root, parts[0][1], route, depth - 1)
        if found is None:
            return node
        if isinstance(found, Scalar):
            return Scalar(node.span, found.value, node.raw, node.style)
        return found
    made = ""
    for inside, part in parts:
        if not inside:
            made += part
            continue
        found = _expression(root, part, route, depth - 1)
        if not isinstance(found, Scalar) or (isinstance(found.value, str) and "${" in found.value):
            return node
        made += str(found.value)
    return Scalar(node.span, plain_value(made), node.raw, node.style)


def _split(text: str) -> list[tuple[bool, str]] | None:
    """``a${b}c`` as ``(False, a), (True, b), (False, c)``; None where braces do not match."""
    parts: list[tuple[bool, str]] = []
    start = 0
    while (begin := text.find("${", start)) >= 0:
        if begin > start:
            parts.append((False, text[start:begin]))
        level, i = 1, begin + 2
        while i < len(text) and level:
            level += (text[i] == "{") - (text[i] == "}")
            i += 1
        if level:
            return None
        parts.append((True, text[begin + 2 : i - 1].strip()))
        start = i
    if start < len(text):
        parts.append((False, text[start:]))
    return parts


def _expression(root: Node, text: str, route: Route, depth: int) -> Node | None:
    """What stands between ``${`` and ``}``: a reference, or a resolver with its arguments."""
    name, colon, rest = text.partition(":")
    if not colon:
        return _reference(root, text, route, depth)
    arguments = _arguments(rest)
    if name == "oc.select":
        found = _reference(root, arguments[0], route, depth) if arguments else None
        return found or (_literal(root, arguments[1], route, depth) if len(arguments) > 1 else None)
    if name == "oc.env":
        # as with a shell's ``${VARIABLE:-8}``: nothing at hand sets the variable, so the default holds
        return _literal(root, ",".join(arguments[1:]), route, depth) if len(arguments) > 1 else None
    if name == "oc.decode":
        return _literal(root, rest, route, depth)
    if name in _ARITHMETIC:
        return _computed(root, name, arguments, route, depth)
    if _VARIABLE.fullmatch(name):
        return _literal(root, rest, route, depth) if rest else None
    return None


def _reference(root: Node, text: str, route: Route, depth: int) -> Node | None:
    """``a.b``, ``a.0``, ``a[b]``, and ``.b`` or ``..b`` from the place where the interpolation stands."""
    if not _REFERENCE.fullmatch(text):
        return None
    dots = len(text) - len(text.lstrip("."))
    if dots > len(route):
        return None
    steps: list[str | int] = list(route[: len(route) - dots]) if dots else []
    for step in re.split(r"[.\[\]]+", text.lstrip(".").rstrip("]")):
        if step:
            steps.append(step)
    here: Node | None = root
    done: Route = ()
    for step in steps:
        index = whole_number(step) if isinstance(here, Sequence) else None
        found = at(here, step if index is None else index)
        done = (*done, step)
        here = resolve(root, found, done, depth)
        if here is None:
            return None
    if isinstance(here, Scalar) and isinstance(here.value, str) and ("${" in here.value or here.value == "???"):
        return None
    return here


def _arguments(text: str) -> list[str]:
    """A resolver's arguments, split at the commas outside nested braces."""
    found, level, part = [], 0, ""
    for sign in text:
        level += (sign in "{[") - (sign in "}]")
        if sign == "," and level == 0:
            found.append(part.strip())
            part = ""
        else:
            part += sign
    return [*found, part.strip()] if part.strip() or found else []


def _literal(root: Node, text: str, route: Route, depth: int) -> Node | None:
    node = Scalar(root.span, plain_value(text.strip("\"'")), text)
    if "${" in text:
        made = resolve(root, Scalar(root.span, text, text), route, depth)
        return None if isinstance(made, Scalar) and isinstance(made.value, str) and "${" in made.value else made
    return node


_ARITHMETIC = frozenset({"mul", "multiply", "div", "int_div", "add", "sum", "sub"})


def _computed(root: Node, name: str, arguments: list[str], route: Route, depth: int) -> Node | None:
    values: list[float] = []
    for argument in arguments:
        node = _literal(root, argument, route, depth)
        value = number(node.value) if isinstance(node, Scalar) else None
        if value is None:
            return None
        values.append(value)
    if len(values) < 2 or (name in ("div", "int_div", "sub") and len(values) != 2):
        return None
    result = values[0]
    for value in values[1:]:
        if name in ("mul", "multiply"):
            result *= value
        elif name in ("add", "sum"):
            result += value
        elif name == "sub":
            result -= value
        elif value == 0:
            return None
        else:
            result = result // value if name == "int_div" else result / value
    whole = integer(result)
    shown: Value = whole if whole is not None else result
    return Scalar(root.span, shown, str(shown))


class ResolvingReader(FactReader):
    """A :class:`FactReader` that reads through interpolations of the reading's own file."""

    def node(self, *route: str | int) -> Node | None:
        root = self.reading.root
        here: Node | None = root
        done: Route = ()
        for step in (*self.prefix, *route):
            here = at(here, step)
            done = (*done, step)
            if here is None:
                return None
            here = resolve(root, here, done)
        return here

    def under(self, *route: str | int) -> ResolvingReader:
        return type(self)(self.reading, (*self.prefix, *route))

    def origin(self, *route: str | int) -> Origin:
        """The key at ``route``; where the way leads through an interpolated mapping, the key that names it."""
        full = (*self.prefix, *route)
        while full and self.reading.at(*full) is None:
            full = full[:-1]
        return self.reading.origin(*full)

    def mapping(self, *route: str | int) -> Mapping | None:
        found = self.node(*route)
        return found if isinstance(found, Mapping) else None
