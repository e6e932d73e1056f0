"""litgpt's files and commands."""

from collections.abc import Callable

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]

LORA = """
checkpoint_dir: checkpoints/org/m
out_dir: out
precision: bf16-true
quantize:
devices: 1
num_nodes: 1
lora_r: 16
lora_alpha: 32
lora_query: true
lora_key: false
lora_value: true
lora_mlp: true
train:
  global_batch_size: 32
  micro_batch_size: 4
  lr_warmup_steps: 10
  epochs: 2
  max_seq_length: 512
eval: {interval: 100}
logger_name: csv
optimizer:
  class_path: torch.optim.AdamW
  init_args: {lr: 2e-4, weight_decay: 0.1}
"""


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(LORA)
    expected = {
        "model_id": ("org/m", 1), "weight_dtype": ("bf16", 3), "compute_dtype": ("none", 3), "gpus_per_node": (1, 5),
        "method": ("lora", 7), "lora_rank": (16, 7), "lora_alpha": (32.0, 8), "global_batch_size": (32, 14),
        "lora_targets": (["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"], 9), "micro_batch_size": (4, 15),
        "warmup_steps": (10, 16), "epochs": (2.0, 17), "sequence_length": (512, 18), "optimizer": ("adamw_torch", 22),
        "learning_rate": (2e-4, 23), "weight_decay": (0.1, 23),
    }  # fmt: skip
    assert (reading.dialect, reading.role, reading.framework) == ("litgpt", "run", "litgpt")
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert reading.facts.value("gradient_accumulation_steps") == 8
    assert reading.facts.value("gradient_checkpointing") == "none"


@pytest.mark.parametrize(
    ("devices", "accumulation", "checkpointing", "version"),
    [("4", 2, "full", 2), ("1", 8, "none", None), ("auto", None, UNKNOWN, None)],
)
def test_devices_decide_the_strategy(
    read: Read, devices: str, accumulation: int | None, checkpointing: object, version: int | None
) -> None:
    facts = read(LORA.replace("devices: 1", f"devices: {devices}")).facts
    assert facts.value("gradient_accumulation_steps") == accumulation
    assert [f.value for f in facts.statements("gradient_checkpointing")] == [checkpointing]
    assert facts.value("fsdp_version") == version


def test_quantization_and_mixed_precision(read: Read) -> None:
    facts = read(LORA.replace("quantize:", "quantize: bnb.nf4-dq")).facts
    assert (facts.value("method"), facts.value("quantization")) == ("qlora", "nf4-double")
    facts = read(LORA.replace("bf16-true", "16-mixed")).facts
    assert (facts.value("weight_dtype"), facts.value("compute_dtype")) == ("fp32", "fp16")


def test_pretraining_names_a_model_of_litgpt(read: Read) -> None:
    text = LORA[LORA.index("train:") :].replace("train:", "model_name: pythia-14m\nout_dir: o\ndevices: 2\ntrain:")
    facts = read(text).facts
    assert (facts.value("method"), facts.value("model_id")) == ("pretrain", "EleutherAI/pythia-14m")
    assert (facts.value("fsdp"), facts.value("packing"), facts.value("compile")) == ("hybrid_shard", True, True)


def test_commands() -> None:
    text = (
        "litgpt finetune_lora org/m --train.micro_batch_size 2 --devices 1 --quantize bnb.nf4 --precision bf16-true\n"
        "litgpt finetune full --config full.yaml --train.epochs 3\nlitgpt download org/m\n"
    )
    readings = [r for r in recognise_files([parse_shell("run.sh", text)])[0] if r.dialect == "litgpt"]
    lora, full, download = readings
    assert (lora.facts.value("model_id"), lora.facts.value("micro_batch_size")) == ("org/m", 2)
    assert (lora.facts.value("method"), lora.role) == ("qlora", "run")
    assert (full.role, full.facts.value("epochs"), full.facts.fact("method")) == ("arguments", 3.0, None)
    assert download.role == "part"
