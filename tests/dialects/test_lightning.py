"""Lightning's command line: files of trainer, model and data, and flags over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml

CONFIG = """
seed_everything: 42
trainer:
  devices: 8
  num_nodes: 2
  precision: PRECISION
  strategy: STRATEGY
  accumulate_grad_batches: 4
  gradient_clip_val: 1.0
  max_steps: 1000
model:
  class_path: my.Module
  init_args: {model_name: org/m, lr: 2.0e-5}
data:
  class_path: my.Data
  init_args: {batch_size: 2, max_length: 2048}
"""


def config(precision: str = "bf16-mixed", strategy: str = "ddp") -> str:
    return CONFIG.replace("PRECISION", precision).replace("STRATEGY", strategy)


def test_what_a_file_says(read: Callable[..., Reading]) -> None:
    reading = read(config())
    facts = reading.facts
    expected = {
        "model_id": "org/m", "gpus_per_node": 8, "nodes": 2, "gradient_accumulation_steps": 4, "max_grad_norm": 1.0,
        "max_steps": 1000, "learning_rate": 2e-5, "micro_batch_size": 2, "sequence_length": 2048, "framework": "lightning",
    }  # fmt: skip
    assert reading.dialect == "lightning"
    assert {name: facts.value(name) for name in expected} == expected
    assert [fact.value for fact in facts.statements("method")] == [UNKNOWN], "a module of the user's own"
    assert reading.context["held_elsewhere"][0] == "model", "nor is it known what it recomputes"


@pytest.mark.parametrize(
    ("precision", "stored", "computed"),
    [
        ("bf16-mixed", "fp32", "bf16"),
        ("bf16-true", "bf16", "none"),
        ("16-mixed", "fp32", "fp16"),
        ("32", "fp32", "none"),
    ],
)
def test_precision_holds_or_casts(read: Callable[..., Reading], precision: str, stored: str, computed: str) -> None:
    facts = read(config(precision)).facts
    assert (facts.value("weight_dtype"), facts.value("compute_dtype")) == (stored, computed)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("fsdp", {"fsdp": "full_shard", "fsdp_version": 1}),
        ("deepspeed_stage_3_offload", {"zero_stage": 3, "offload_optimizer": "cpu", "offload_parameters": "cpu"}),
        ("deepspeed_stage_2", {"zero_stage": 2, "offload_optimizer": "none"}),
        ("ddp", {"fsdp": "none"}),
        ("{class_path: lightning.pytorch.strategies.FSDPStrategy, init_args: {sharding_strategy: SHARD_GRAD_OP}}",
         {"fsdp": "shard_grad_op"}),
        ("{class_path: lightning.pytorch.strategies.DeepSpeedStrategy, init_args: {stage: 3}}", {"zero_stage": 3}),
        ("{class_path: lightning.pytorch.strategies.ModelParallelStrategy, init_args: {tensor_parallel_size: 2}}",
         {"fsdp": "full_shard", "fsdp_version": 2, "tensor_parallel_size": 2}),
    ],
)  # fmt: skip
def test_strategies(read: Callable[..., Reading], strategy: str, expected: dict[str, object]) -> None:
    facts = read(config(strategy=strategy)).facts
    assert {name: facts.value(name) for name in expected} == expected


def test_flags_go_over_the_file() -> None:
    command = "python main.py fit --config c.yaml --trainer.devices 4 --data.init_args.batch_size=3\n"
    readings, _ = recognise_files([parse_shell("a.sh", command), parse_yaml("c.yaml", config())])
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    assert (job.value("gpus_per_node"), job.value("micro_batch_size"), job.value("nodes")) == (4, 3, 2)


def test_a_model_of_another_kind_is_left_alone(recognised: Callable[..., str | None]) -> None:
    text = config().replace("model_name: org/m", "backbone: resnet50").replace(", max_length: 2048", "")
    assert recognised(text) is None
