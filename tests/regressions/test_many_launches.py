"""Thousands of launch lines took quadratic time: each looked through all readings for its own arguments."""

from __future__ import annotations

from typing import Any

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source import parse_text

LINE = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed ds.json"


class Counted(dict[str, Any]):
    """A reading's context that counts how often it is asked who launched it."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.asked += key == "launched_by"
        return super().get(key, default)


def test_each_launch_looks_at_its_own_arguments_only() -> None:
    readings, _ = recognise_files([parse_text("run.sh", f"# cfglint: gpu=T4\n{LINE}\n" * 300)])
    for reading in readings:
        reading.context = Counted(reading.context)
    Counted.asked = 0
    jobs = link(readings, HardwareOptions(), Surroundings())
    assert len(jobs.training) == 300
    assert Counted.asked <= 2 * len(readings)


def test_jobs_that_share_a_line_get_names_of_their_own() -> None:
    readings, _ = recognise_files([parse_text("run.sh", "; ".join([LINE] * 3))])
    names = [job.name for job in link(readings, HardwareOptions(), Surroundings()).training]
    assert len(set(names)) == 3
    assert [name.removeprefix(names[0]) for name in names] == ["", "-2", "-3"]
