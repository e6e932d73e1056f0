"""Accumulation that follows from a stated global batch."""

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import DerivedOrigin
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.yaml import parse_yaml

BASE = """
cfglint: 1
kind: train
model: org/m
gpus_per_node: 8
nodes: 2
tensor_parallel_size: 2
micro_batch_size: 4
"""


@pytest.mark.parametrize(
    ("more", "accumulation"),
    [
        ("global_batch_size: 256", 8),
        ("global_batch_size: 32", 1),
        ("global_batch_size: 100", None),
        ("global_batch_size: 8", None),
        ("global_batch_size: 256\ngradient_accumulation_steps: 3", 3),
        ("global_batch_size: 256\ndata_parallel_size: 4", 16),
        ("epochs: 1", None),
    ],
)
def test_accumulation_of_a_global_batch(more: str, accumulation: int | None) -> None:
    readings, _ = recognise_files([parse_yaml("job.yaml", f"{BASE}{more}\n")])
    for reading in readings:
        if "global_batch_size" in more and not reading.facts.stated("global_batch_size"):
            size = int(more.split(":")[1].split("\n")[0])
            reading.facts.state("global_batch_size", size, reading.origin())
    job = link(readings, HardwareOptions(), Surroundings()).training[0]
    fact = job.gradient_accumulation_steps
    assert (fact.value if fact is not None else None) == accumulation
    if accumulation is not None and "gradient_accumulation_steps" not in more:
        assert fact is not None
        assert isinstance(fact.origin, DerivedOrigin)
