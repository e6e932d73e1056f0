"""What frameworks' own recipes hold that only their name shows: NeMo 2's ``llama31_8b``, with its parallel sizes and batch.

The rows are in ``data/recipes.json``, each framework's with its source.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from cfglint.catalog import data


@functools.lru_cache(maxsize=1)
def _recipes() -> dict[str, dict[str, Any]]:
    rows = json.loads(data.read("recipes.json"))
    return {framework: row["recipes"] for framework, row in rows.items()}


def recipe(framework: str, name: str) -> Mapping[str, Any] | None:
    """Facts by name that a recipe for pretraining states; None where the name is not in the table."""
    found: Mapping[str, Any] | None = _recipes().get(framework, {}).get(name)
    return found
