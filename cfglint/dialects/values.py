"""What scalars mean to the frameworks, and stating them as facts.

Frameworks take numbers and switches in several spellings: a command line gives ``"2"`` and ``"True"``, YAML 1.1 reads
``2e-5`` as text that the framework itself turns into a number. The converters here take them all, and answer None
where a value is of another kind: such a value is the schema rules' matter, it is simply not stated as a fact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from cfglint.dialects.schema import is_unknown
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, FactSet, Origin, Reading, Reference, beyond_counting
from cfglint.source.node import Mapping, Node, Route, Scalar, Sequence, Value

_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
_NULL = frozenset({"none", "null", ""})

_DTYPES = {
    "float32": "fp32", "fp32": "fp32", "float": "fp32", "32": "fp32", "32-true": "fp32",
    "bfloat16": "bf16", "bf16": "bf16",
    "float16": "fp16", "fp16": "fp16", "half": "fp16", "16": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "fp8": "fp8",
}  # fmt: skip

_ATTENTION = {
    "flash_attention_2": "flash2", "fa2": "flash2", "flash2": "flash2", "flash_attn": "flash2",
    "kernels-community/flash-attn": "flash2", "kernels-community/flash-attn2": "flash2",
    "flash_attention_3": "flash3", "fa3": "flash3", "kernels-community/flash-attn3": "flash3",
    "kernels-community/vllm-flash-attn3": "flash3",
    "sdpa": "sdpa", "flex_attention": "flex", "eager": "eager", "disabled": "eager", "xformers": "xformers",
}  # fmt: skip
"""Names frameworks give attention kernels to the names jobs use."""

_OPTIMIZERS = {"adamw_bnb_8bit": "adamw_8bit", "paged_adamw": "paged_adamw_32bit", "lion_32bit": "lion"}
"""Hugging Face's own aliases (``OptimizerNames`` in transformers/training_args.py)."""


def scalar(node: Node | None) -> Value:
    """The value of a scalar; None for everything else and for the spellings of null."""
    if not isinstance(node, Scalar):
        return None
    value = node.value
    return None if isinstance(value, str) and value.strip().lower() in _NULL else value


def number(value: Value) -> float | None:
    """A finite number, or text that Python's ``float`` takes. Booleans are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def integer(value: Value) -> int | None:
    """A whole number, ``5e8`` and ``"8"`` included; one that is beyond counting is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return None if beyond_counting(value) else value
    result = number(value)
    return int(result) if result is not None and result.is_integer() and not beyond_counting(result) else None


def boolean(value: Value) -> bool | None:
    """A switch as YAML, JSON and ``HfArgumentParser`` take it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return bool(value) if value in (0, 1) else None
    if isinstance(value, str):
        text = value.strip().lower()
        return True if text in _TRUE else False if text in _FALSE else None
    return None


def text(value: Value) -> str | None:
    """Text that is not empty."""
    return value if isinstance(value, str) and value.strip() else None


def word(node: Node | None) -> str | None:
    """Text as it is written, ``none`` included: a choice that is called so is no null."""
    return (
        node.value.strip() if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.strip() else None
    )


def dtype(value: Value) -> str | None:
    """``torch.bfloat16``, ``bfloat16``, ``bf16`` … to ``fp32``, ``bf16``, ``fp16``, ``fp8``."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    return _DTYPES.get(value.strip().lower().removeprefix("torch."))


def attention(value: Value) -> str | None:
    return _ATTENTION.get(value.strip().lower()) if isinstance(value, str) else None


def optimizer(value: Value) -> str | None:
    """An optimizer's Hugging Face name."""
    if not isinstance(value, str) or not value.strip():
        return None
    name = value.strip().lower().removeprefix("optimizernames.")
    return _OPTIMIZERS.get(name, name)


def texts(node: Node | None) -> list[str] | None:
    """A list of names; one text is split at commas and blanks, as frameworks do."""
    if isinstance(node, Sequence):
        found = [item.value for item in node.items if isinstance(item, Scalar) and isinstance(item.value, str)]
        return found if found and len(found) == len(node.items) else None
    value = scalar(node)
    if isinstance(value, str):
        return [part for part in value.replace(",", " ").split() if part] or None
    return None


class FactReader:
    """States the facts of one reading, each from the first of its keys that says anything.

    Routes are relative to the reading's root. Every method gives back what it stated, None where it stated nothing,
    and :data:`~cfglint.jobs.facts.UNKNOWN` where a key is there but its value is not known here.
    """

    def __init__(self, reading: Reading, prefix: Route = ()) -> None:
        self.reading = reading
        self.prefix = prefix

    def under(self, *route: str | int) -> FactReader:
        """The same reading, with keys looked up below ``route``."""
        return FactReader(self.reading, (*self.prefix, *route))

    def node(self, *route: str | int) -> Node | None:
        return self.reading.at(*self.prefix, *route)

    def value(self, *route: str | int) -> Value:
        return scalar(self.node(*route))

    def has(self, *keys: str) -> bool:
        """True where one of the keys is there with a value other than null."""
        return any(self.given(key) for key in keys)

    def given(self, *route: str | int) -> bool:
        found = self.node(*route)
        return found is not None and (not isinstance(found, Scalar) or scalar(found) is not None)

    def on(self, *route: str | int) -> bool:
        """True where a switch is on; a switch whose value is not known counts as off."""
        return boolean(self.value(*route)) is True

    def origin(self, *route: str | int) -> Origin:
        return self.reading.origin(*self.prefix, *route)

    def mapping(self, *route: str | int) -> Mapping | None:
        found = self.node(*route)
        return found if isinstance(found, Mapping) else None

    def state(self, fact: str, value: Any, *route: str | int) -> Any:
        """State ``value`` as said by the key at ``route``."""
        self.reading.facts.state(fact, value, self.origin(*route))
        return value

    def weighed_reference(self, *key: str) -> bool:
        """State where the reference's scores come from by the weight of the divergence from it: 0 needs none."""
        weight = number(self.value(*key))
        if weight is None:
            return False
        adapters = "+" in (text(self.reading.facts.value("method")) or "")
        self.state("reference", "none" if weight == 0 else "adapter" if adapters else "model", *key)
        return True

    def default(self, fact: str, value: Any, framework: str, version: str = "", note: str = "") -> None:
        """State a framework's default behind everything the file says."""
        self.reading.facts.state(fact, value, DefaultOrigin(framework, version, note))

    def _convert(self, fact: str, keys: Iterable[str | Route], convert: Any, low: float | None = None) -> Any:
        for key in keys:
            route: Route = (key,) if isinstance(key, str) else key
            value = self.value(*route)
            if value is None:
                continue
            if is_unknown(value) or beyond_counting(value):
                return self.state(fact, UNKNOWN, *route)
            result = convert(value)
            if result is not None and (low is None or result >= low):
                return self.state(fact, result, *route)
        return None

    def integer(self, fact: str, *keys: str | Route, low: int | None = None) -> Any:
        return self._convert(fact, keys, integer, low)

    def number(self, fact: str, *keys: str | Route, low: float | None = None) -> Any:
        return self._convert(fact, keys, number, low)

    def boolean(self, fact: str, *keys: str | Route) -> Any:
        return self._convert(fact, keys, boolean)

    def text(self, fact: str, *keys: str | Route) -> Any:
        return self._convert(fact, keys, text)

    def dtype(self, fact: str, *keys: str | Route) -> Any:
        return self._convert(fact, keys, dtype)

    def attention(self, fact: str, *keys: str | Route) -> Any:
        return self._convert(fact, keys, attention)

    def optimizer(self, fact: str, *keys: str | Route) -> Any:
        return self._convert(fact, keys, optimizer)

    def names(self, fact: str, *keys: str | Route) -> Any:
        """A list of names; ``all-linear`` and its spellings become ``["all-linear"]``. A command's word may hold several."""
        for key in keys:
            route: Route = (key,) if isinstance(key, str) else key
            if is_unknown(self.value(*route)):
                return self.state(fact, UNKNOWN, *route)
            found = texts(self.node(*route))
            if found is not None:
                if self.reading.document.file.format == "shell":
                    found = [part for name in found for part in name.split(",") if part]
                if [name.lower().replace("_", "-") for name in found] in (["all-linear"], ["all"]):
                    found = ["all-linear"]
                return self.state(fact, found, *route)
        return None

    def reference(self, role: str, *route: str | int, base: str = "unknown") -> str | None:
        """The file or model named at ``route``."""
        value = text(self.value(*route))
        if value is None or is_unknown(value):
            return None
        origin = self.reading.origin(*self.prefix, *route)
        self.reading.references.append(Reference(role, value, origin, base))
        return value

    def model(self, *keys: str) -> Any:
        """The model a run trains or serves: the fact, and a reference, since it may be a folder on disk."""
        for key in keys:
            if self.text("model_id", key) is not None:
                self.reference("model", key, base="cwd")
                return self.value(key)
        return None


def without_defaults(facts: FactSet) -> FactSet:
    """The statements that are no defaults: for arguments that may go on where they cannot be seen."""
    kept = FactSet()
    for name in facts.names():
        for fact in facts.statements(name):
            if not isinstance(fact.origin, DefaultOrigin):
                kept.state(name, fact.value, fact.origin, certain=fact.certain)
    return kept


def evidence(root: Mapping, keys: Iterable[str], most: int = 3) -> list[str]:
    """Those of ``keys`` that ``root`` has, in their order, ``most`` of them."""
    found = [key for key in keys if key in root]
    return found[:most]


def because(keys: Iterable[str]) -> str:
    """The words ``--show-files`` gives for a recognition."""
    return " + ".join(keys)
