"""Settings that are plainly right, checked without pydantic, whose import takes as long as linting a file.

``settings_schema.json`` is the JSON Schema of the settings table that editors use, made from
:class:`cfglint.settings_table.SettingsTable` by ``docs/build_settings.py``. What it does not plainly accept goes to
pydantic, which has the last word and says what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

SCHEMA_FILE: Final = Path(__file__).with_name("settings_schema.json")

GLOB: Final = "gitignore"
"""The schema's ``format`` of patterns."""

_SIMPLE_GLOB: Final = re.compile(r"[\w*/.? @+=,~-]*")
"""Patterns of these characters are never wrong; those with others pathspec has to see."""

_KNOWN: Final = frozenset(
    {
        "$ref", "anyOf", "oneOf", "enum", "type", "format", "pattern", "minimum", "exclusiveMinimum", "minItems", "items",
        "properties", "required", "additionalProperties", "propertyNames", "default", "title", "description", "$defs",
        "$schema",
    }
)  # fmt: skip

Schema = dict[str, Any]


class PlainTable:
    """A table that was accepted, read like its model: an attribute is the value stated, or the default."""

    def __init__(self, content: dict[str, Any], schema: Schema) -> None:
        self._content, self._schema = content, schema

    def __getattr__(self, name: str) -> Any:
        key = name.replace("_", "-")
        schema: Schema = self._schema["properties"][key]
        if key not in self._content:
            return schema["default"] if "default" in schema else {"array": [], "object": {}}[schema["type"]]
        return _converted(schema, self._content[key])


def plain_table(content: dict[str, Any]) -> PlainTable | None:
    """The settings table, or None where only pydantic can tell whether it is one."""
    schema = _schema()
    return PlainTable(content, schema) if _accepts(schema, content) else None


@lru_cache(maxsize=1)
def _schema() -> Schema:
    schema: Schema = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return schema


def _resolved(schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    found: Schema = _schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    return found


def _converted(schema: Schema, value: Any) -> Any:
    """An accepted value as its model has it: whole numbers where numbers are asked for are floats, tables are tables."""
    schema = _resolved(schema)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _converted(next(option for option in options if _accepts(option, value)), value)
    kind = schema.get("type")
    if kind == "number":
        return float(value)
    if kind == "array":
        return [_converted(schema.get("items", {}), item) for item in value]
    if kind == "object" and "properties" in schema:
        return PlainTable(value, schema)
    others = schema.get("additionalProperties")
    if kind == "object" and isinstance(others, dict):
        return {key: _converted(others, inner) for key, inner in value.items()}
    return value


def _accepts(schema: Schema, value: Any) -> bool:
    if not schema.keys() <= _KNOWN:
        return False
    schema = _resolved(schema)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return any(_accepts(option, value) for option in options)
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if kind is None:
        return True
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("integer", "number"):
        return _accepts_number(schema, value, kind)
    if kind == "string":
        return isinstance(value, str) and _accepts_text(schema, value)
    if kind == "array":
        items = schema.get("items", {})
        return (
            isinstance(value, list)
            and len(value) >= schema.get("minItems", 0)
            and all(_accepts(items, item) for item in value)
        )
    return kind == "object" and isinstance(value, dict) and _accepts_table(schema, value)


def _accepts_number(schema: Schema, value: Any, kind: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)):
        return False
    return (
        math.isfinite(value)
        and value >= schema.get("minimum", -math.inf)
        and value > schema.get("exclusiveMinimum", -math.inf)
    )


def _accepts_text(schema: Schema, value: str) -> bool:
    if "pattern" in schema and ("\n" in value or re.search(schema["pattern"], value, re.ASCII) is None):
        return False
    return schema.get("format") != GLOB or _SIMPLE_GLOB.fullmatch(value) is not None


def _accepts_table(schema: Schema, value: dict[str, Any]) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not value.keys() >= set(schema.get("required", ())):
        return False
    for key, inner in value.items():
        if "propertyNames" in schema and not _accepts_text(schema["propertyNames"], key):
            return False
        expected = properties.get(key, others)
        if expected is False or (expected is not True and not _accepts(expected, inner)):
            return False
    return True
