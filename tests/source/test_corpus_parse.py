"""Every file of the corpus parses, or says why not, with the values its own reader gives."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from cfglint.source import read_file
from cfglint.source.node import plain

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus" / "files"


def same(a: Any, b: Any) -> bool:
    """Equal in value and type; the tree's keys are text, so other keys are compared by their values only."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=True) if len(a) == len(b) else None
        return pairs is not None and all((not isinstance(k, str) or k == j) and same(v, w) for (k, v), (j, w) in pairs)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")
def test_corpus_values_equal_those_of_the_usual_readers() -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    paths = sorted(p for p in CORPUS.rglob("*") if p.is_file())
    if not hasattr(yaml, "CSafeLoader"):
        paths = paths[::10]
    compared, slowest = 0, 0.0
    for path in paths:
        started = time.process_time()
        file = read_file(path)
        slowest = max(slowest, time.process_time() - started)
        try:
            if file.format == "yaml":
                expected = [d for d in yaml.load_all(file.text, loader) if d is not None]
            elif file.format == "json":
                expected = [json.loads(file.text)]
            else:
                continue
        except yaml.constructor.ConstructorError:
            continue  # application tags: kept, where PyYAML gives up
        except (ValueError, yaml.YAMLError):
            assert file.problems or file.skipped or file.path.endswith("json"), path
            continue
        assert not file.fatal, path
        assert same(expected, [plain(d.root) for d in file.documents if d.root is not None]), path
        compared += 1
    assert compared > 400
    assert slowest < 3, "seconds of processor time for one file of at most 256 KB"
