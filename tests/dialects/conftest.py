"""Reading a small config the way a run does: parse, ask every dialect, take the highest score."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.source.json import parse_json
from cfglint.source.yaml import parse_yaml


@pytest.fixture
def read() -> Callable[..., Reading]:
    """``read(text, name="config.yaml")``: the one reading of a config."""

    def read_one(text: str, name: str = "config.yaml") -> Reading:
        text = dedent(text).lstrip("\n")
        file = parse_json(name, text) if name.endswith(".json") else parse_yaml(name, text)
        readings, _ = recognise_files([file])
        assert len(readings) == 1, [r.dialect for r in readings]
        return readings[0]

    return read_one


@pytest.fixture
def recognised() -> Callable[..., str | None]:
    """``recognised(text, name)``: the name of the dialect that claims a config, None where none does."""

    def name_of(text: str, name: str = "config.yaml") -> str | None:
        text = dedent(text).lstrip("\n")
        file = parse_json(name, text) if name.endswith(".json") else parse_yaml(name, text)
        readings, _ = recognise_files([file])
        return readings[0].dialect if readings else None

    return name_of
