"""The catalogue's data files, one row a line, each row with its source. Made by ``benchmarks/build_catalogue.py``."""

from __future__ import annotations

import os

# Beside the code rather than through importlib.resources, whose import alone costs more than reading the file.
_FOLDER = os.path.dirname(__file__)


def read(name: str) -> str:
    """Text of the data file ``name``."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
