"""prime-rl's commands."""

from __future__ import annotations

from pathlib import Path

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.shell import parse_shell
from cfglint.source.toml import parse_toml

RL = """
max_steps = 20
seq_len = 2048
[model]
name = "org/m"
[orchestrator]
batch_size = 128
[trainer.optim]
lr = 3e-6
[ckpt]
[deployment]
num_train_gpus = 2
"""


def test_flags_go_over_the_file_behind_the_sign() -> None:
    command = "uv run --extra flash rl @ rl.toml --trainer.model.name org/other --seq-len 4096\n"
    readings, reports = recognise_files([parse_shell("a.sh", command), parse_toml("rl.toml", RL)])
    assert set(reports["a.sh"].dialects) == {"launch", "prime-rl"}
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    expected = {
        "model_id": "org/other",
        "sequence_length": 4096,
        "global_batch_size": 128,
        "gpus_per_node": 2,
        "method": "grpo",
    }
    assert {name: job.value(name) for name in expected} == expected


def test_one_file_for_each_part() -> None:
    command = "uv run rl --trainer @ t.toml --orchestrator @ o.toml --trainer-gpus 2\n"
    readings, _ = recognise_files([parse_shell("a.sh", command)])
    reading = next(r for r in readings if r.dialect == "prime-rl")
    assert [reference.target for reference in reading.references] == ["t.toml", "o.toml"]
    assert reading.facts.value("gpus_per_node") == 2


def test_a_command_without_the_sign_is_not_its() -> None:
    assert recognise_files([parse_shell("a.sh", "uv run sft --config x\n")])[0] == []


def test_an_sft_file_with_its_warmup() -> None:
    text = """
max_steps = 40
[model]
name = "org/m"
[data]
batch_size = 16
seq_len = 1024
[optim]
lr = 1e-5
[scheduler]
type = "linear"
warmup_steps = 40
"""
    (reading,) = recognise_files([parse_toml("sft.toml", text)])[0]
    assert reading.dialect == "prime-rl"
    facts = ("warmup_steps", "max_steps", "sequence_length", "method")
    assert [reading.facts.value(name) for name in facts] == [40, 40, 1024, "full"]
