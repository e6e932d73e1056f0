"""Unsloth's command line, its studio's files, and flat files of scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import DefaultOrigin, Reading
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml

FLAT = """
model_name: unsloth/llama-3-8b-bnb-4bit
max_seq_length: 2048
load_in_4bit: true
r: 16
lora_alpha: 32
use_gradient_checkpointing: unsloth
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 2.0e-4
optim: adamw_8bit
"""
STUDIO = """
model: org/m
data: {dataset: org/d}
training:
  training_type: lora
  max_seq_length: 4096
  load_in_4bit: false
  batch_size: 3
  gradient_accumulation_steps: 2
  learning_rate: 0.0002
  gradient_checkpointing: none
lora: {lora_r: 64, lora_alpha: 16, use_rslora: false, target_modules: "q_proj,v_proj"}
"""


def test_a_flat_file_trains_adapters(read: Callable[..., Reading]) -> None:
    reading = read(FLAT)
    expected = {
        "model_id": "unsloth/llama-3-8b-bnb-4bit", "method": "qlora", "quantization": "nf4", "lora_rank": 16,
        "lora_alpha": 32.0, "sequence_length": 2048, "micro_batch_size": 2, "gradient_accumulation_steps": 4,
        "gradient_checkpointing": "full", "optimizer": "adamw_8bit", "learning_rate": 2e-4, "framework": "unsloth",
        "lora_targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    }  # fmt: skip
    assert reading.dialect == "unsloth"
    assert {name: reading.facts.value(name) for name in expected} == expected
    fact = reading.facts.fact("lora_targets")
    assert fact is not None
    assert isinstance(fact.origin, DefaultOrigin)


def test_the_studio_names_its_keys_otherwise(read: Callable[..., Reading]) -> None:
    facts = read(STUDIO).facts
    expected = {
        "model_id": "org/m", "method": "lora", "quantization": None, "lora_rank": 64, "lora_targets": ["q_proj", "v_proj"],
        "sequence_length": 4096, "micro_batch_size": 3, "gradient_accumulation_steps": 2, "gradient_checkpointing": "none",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected


def test_full_training_is_not_quantized(read: Callable[..., Reading]) -> None:
    facts = read(STUDIO.replace("training_type: lora", "training_type: full").replace("false", "true")).facts
    assert (facts.value("method"), facts.value("quantization")) == ("full", None)


def test_a_preset_without_a_model_is_part_of_a_run(read: Callable[..., Reading]) -> None:
    assert read(STUDIO.replace("model: org/m\n", "")).role == "part"


@pytest.mark.parametrize(("more", "method"), [("--load_in_4bit", "qlora"), ("", "lora"), ("--use_dora", "dora")])
def test_the_script_quantizes_where_it_is_told_to(more: str, method: str) -> None:
    found, _ = recognise_files([parse_shell("a.sh", f"python unsloth-cli.py --model_name org/m --r 8 {more}\n")])
    facts = next(r for r in found if r.dialect == "unsloth").facts
    assert (facts.value("method"), facts.value("lora_rank"), facts.value("micro_batch_size")) == (method, 8, 2)


def test_flags_of_the_command_go_over_the_file() -> None:
    files = [parse_shell("a.sh", "unsloth train -c studio.yaml --batch-size 5\n"), parse_yaml("studio.yaml", STUDIO)]
    readings, _ = recognise_files(files)
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    assert (job.value("micro_batch_size"), job.value("gradient_accumulation_steps")) == (5, 2)
    assert (job.value("method"), job.value("lora_rank")) == ("lora", 64)


def test_a_file_of_plain_trainer_arguments_is_not_its(recognised: Callable[..., str | None]) -> None:
    text = (
        "model_name: org/m\nper_device_train_batch_size: 1\nr: 8\nlora_alpha: 16\nload_in_4bit: true\noutput_dir: o\n"
    )
    assert recognised(text) == "hf-training-args"
    readings, _ = recognise_files([parse_yaml("a.yaml", text)])
    assert readings[0].facts.value("method") == "qlora", "a rank with alpha beside it are adapters"
