"""A micro-batch of a billion once made the search for what fits count down from there."""

from __future__ import annotations

import time

from cfglint.testing import lint_files

JOB = """\
cfglint: 1
kind: train
model: Qwen/Qwen2.5-7B
gpu: H100
gpus_per_node: 8
fsdp: full_shard
sequence_length: 8192
micro_batch_size: 1000000000
gradient_accumulation_steps: 1
"""


def test_what_fits_is_searched_where_it_can_be() -> None:
    start = time.monotonic()
    result = lint_files({"job.yaml": JOB})
    assert [f.severity for f in result.findings if f.code == "MEM001"] == ["error"]
    assert time.monotonic() - start < 20
