"""Reading a ``config.json`` mapping: spellings, defaults of the config class, checks that name what is wrong."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from cfglint.catalog import data
from cfglint.catalog.architecture import ImpossibleArchitecture, UnknownArchitecture

Flag = Union[bool, str, Callable[["Config"], bool]]  # noqa: UP007 (a forward reference)
"""A constant, the name of the config key that switches something on, or a function of the config."""

STATED = frozenset(
    {
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "intermediate_size",
        "encoder_layers",
        "decoder_layers",
        "d_ff",
        "d_kv",
        "ffn_dim",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "moe_intermediate_size",
        "num_experts",
        "num_local_experts",
        "n_routed_experts",
        "moe_num_experts",
        "kv_lora_rank",
        "embedding_size",
    }
)
"""Dimensions that a file must state itself at the top level: the class default there is some other checkpoint's size.
Inside ``text_config`` and the like the defaults count, since published checkpoints leave them out on purpose."""

LAYER_COUNTS = frozenset(
    {"num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "depth", "num_global_layers"}
)
MOST_LAYERS = 4096
"""Ten times the deepest model published; more is a typing error, and would make as many objects."""

LARGEST = 2**40
"""No dimension of any model is larger; what is comes from a typing error."""


@functools.lru_cache(maxsize=1)
def class_defaults() -> dict[str, dict[str, dict[str, Any]]]:
    """Defaults and spellings of the transformers config classes by ``model_type``: ``{"names": …, "defaults": …}``."""
    text = data.read("config_defaults.json")
    loaded: dict[str, dict[str, dict[str, Any]]] = json.loads(text)["classes"]
    return loaded


class Config:
    """A config mapping with the standard names: ``hidden_size`` finds ``n_embd`` or ``d_model`` too.

    ``nested`` marks a part of a larger config (``text_config``), whose absent dimensions take the class defaults.
    """

    def __init__(self, raw: Mapping[str, Any], model_type: str, *, nested: bool = False) -> None:
        known = class_defaults().get(model_type, {})
        self.raw = raw
        self.model_type = model_type
        self.nested = nested
        self._names: Mapping[str, str] = known.get("names", {})
        self._defaults: Mapping[str, Any] = known.get("defaults", {})

    def stated(self, key: str) -> Any:
        """The value the file gives, under the standard or the family's own spelling; None where it gives none."""
        value = self.raw.get(key)
        if value is None and key in self._names:
            value = self.raw.get(self._names[key])
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The stated value, else the config class's default, else ``default``.

        A key stated as null is not absent: transformers then derives the value, so the class default does not count.
        """
        value = self.stated(key)
        if value is None and not self.is_null(key) and (self.nested or key not in STATED):
            value = self._defaults.get(self._names.get(key, key), self._defaults.get(key))
        return default if value is None else value

    def is_null(self, key: str) -> bool:
        return key in self.raw or self._names.get(key, key) in self.raw

    def size(self, key: str, default: int | None = None) -> int:
        """A dimension: a whole number above zero.

        Raises:
            UnknownArchitecture: it is missing and has no default, or is not such a number.
        """
        value = self.get(key, default)
        if value is None:
            raise UnknownArchitecture(f"the config does not state {self.spelled(key)} (model_type {self.model_type!r})")
        size = whole(self.spelled(key), value, at_least=1)
        if key in LAYER_COUNTS and size > MOST_LAYERS:
            raise ImpossibleArchitecture(f"{self.spelled(key)} is {size}, more layers than any model has")
        return size

    def count(self, key: str, default: int = 0) -> int:
        """A number that may be zero."""
        return whole(self.spelled(key), self.get(key, default), at_least=0)

    def flag(self, flag: Flag, default: bool = False) -> bool:
        if callable(flag):
            return flag(self)
        return flag if isinstance(flag, bool) else bool(self.get(flag, default))

    def sequence(self, key: str) -> Sequence[Any] | None:
        value = self.get(key)
        return value if isinstance(value, (list, tuple)) else None

    def indexes(self, key: str) -> frozenset[int] | None:
        """Layer indexes that a list names; None where the config has none."""
        listed = self.sequence(key)
        if listed is None:
            return None
        return frozenset(item for item in listed if isinstance(item, int) and not isinstance(item, bool))

    def part(self, key: str, model_type: str) -> Config:
        """A nested config (``text_config``, ``vision_config``); empty where the file has none."""
        inner = self.raw.get(key)
        if inner is None:
            inner = {}
        if not isinstance(inner, Mapping):
            raise UnknownArchitecture(f"{key} is not a mapping")
        stated = inner.get("model_type")
        return Config(inner, stated if isinstance(stated, str) and stated else model_type, nested=True)

    def spelled(self, key: str) -> str:
        """The key as this family writes it, for messages."""
        own = self._names.get(key, key)
        return own if own in self.raw or key not in self.raw else key


def whole(name: str, value: Any, *, at_least: int) -> int:
    """``value`` as a whole number.

    Raises:
        UnknownArchitecture: it is not one, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        else:
            raise UnknownArchitecture(f"{name} is {value!r}, expected a whole number")
    if value < at_least:
        raise ImpossibleArchitecture(f"{name} is {value}, expected at least {at_least}")
    if value > LARGEST:
        raise ImpossibleArchitecture(f"{name} is {value}, larger than any model's")
    return int(value)


def divide(whole_name: str, total: int, part_name: str, parts: int) -> int:
    """``total / parts``, which must come out even."""
    if total % parts:
        raise ImpossibleArchitecture(f"{whole_name} {total} does not divide by {part_name} {parts}")
    return total // parts
