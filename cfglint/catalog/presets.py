"""Frameworks' own names of models: torchtune's builders, torchtitan's flavors, MaxText's ``model_name`` …

The rows are in ``data/presets.json``, each framework's with its source. A name stands for the Hub id of a checkpoint
with the same dimensions, or for a ``config.json`` where nothing of these dimensions was published.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from cfglint.catalog import data


@functools.lru_cache(maxsize=1)
def _presets() -> dict[str, dict[str, Any]]:
    rows = json.loads(data.read("presets.json"))
    return {framework: row["models"] for framework, row in rows.items()}


def preset(framework: str, name: str) -> str | None:
    """The Hub id that a framework's own name of a model stands for; None where the name is not in the table."""
    found = shape(framework, name)
    return found if isinstance(found, str) else None


def shape(framework: str, name: str) -> str | Mapping[str, Any] | None:
    """The Hub id, or the config, that a framework's own name of a model stands for."""
    found: str | Mapping[str, Any] | None = _presets().get(framework, {}).get(name)
    return found


def preset_names(framework: str) -> list[str]:
    return list(_presets().get(framework, {}))
