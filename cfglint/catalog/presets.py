"""Frameworks' own names of published models: torchtune's builders, torchtitan's flavors, MaxText's ``model_name`` …

The rows are in ``data/presets.json``, each framework's with its source. A name stands for the Hub id of a checkpoint
with the same dimensions.
"""

from __future__ import annotations

import functools
import json

from cfglint.catalog import data


@functools.lru_cache(maxsize=1)
def _presets() -> dict[str, dict[str, str]]:
    rows = json.loads(data.read("presets.json"))
    return {framework: row["models"] for framework, row in rows.items()}


def preset(framework: str, name: str) -> str | None:
    """The Hub id that a framework's own name of a model stands for; None where the name is not in the table."""
    return _presets().get(framework, {}).get(name)


def preset_names(framework: str) -> list[str]:
    return list(_presets().get(framework, {}))
