"""XTuner: configs that are data, and its command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import Reading
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml

CONFIG = """
model:
  type: xtuner.model.SupervisedFinetune
  llm:
    type: transformers.AutoModelForCausalLM.from_pretrained
    pretrained_model_name_or_path: org/m
    torch_dtype: float16
    quantization_config: {load_in_4bit: true, bnb_4bit_use_double_quant: true}
  lora: {type: peft.LoraConfig, r: 64, lora_alpha: 16}
train_dataloader:
  batch_size: 1
  dataset: {max_length: 2048, pack_to_max_length: true}
optim_wrapper:
  optimizer: {type: torch.optim.AdamW, lr: 0.0002}
  accumulative_counts: 16
train_cfg: {max_epochs: 3}
"""


def test_a_config(read: Callable[..., Reading]) -> None:
    reading = read(CONFIG)
    expected = {
        "model_id": "org/m", "weight_dtype": "fp16", "quantization": "nf4-double", "method": "qlora", "lora_rank": 64,
        "lora_targets": ["all-linear"], "micro_batch_size": 1, "sequence_length": 2048, "packing": True, "epochs": 3.0,
        "gradient_accumulation_steps": 16, "learning_rate": 0.0002, "optimizer": "adamw_torch",
        "gradient_checkpointing": "full",
    }  # fmt: skip
    assert reading.dialect == "xtuner"
    assert {name: reading.facts.value(name) for name in expected} == expected


def test_the_command_brings_processes_and_a_preset() -> None:
    command = "NPROC_PER_NODE=4 srun xtuner train c.yaml --deepspeed deepspeed_zero3_offload\n"
    readings, _ = recognise_files([parse_shell("a.sh", command), parse_yaml("c.yaml", CONFIG)])
    (job,) = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    expected = {
        "gpus_per_node": 4,
        "zero_stage": 3,
        "offload_parameters": "cpu",
        "model_id": "org/m",
        "method": "qlora",
    }
    assert {name: job.value(name) for name in expected} == expected


def test_a_config_in_python_is_named_and_not_read() -> None:
    readings, _ = recognise_files(
        [parse_shell("a.sh", "xtuner train internlm2_7b_qlora_e3 --deepspeed deepspeed_zero2\n")]
    )
    facts = next(r for r in readings if r.dialect == "xtuner").facts
    assert (facts.value("zero_stage"), facts.value("model_id"), facts.stated("method")) == (2, None, False)


def test_a_vision_config_of_the_same_engine_is_left_alone(recognised: Callable[..., str | None]) -> None:
    text = CONFIG.replace("xtuner.model.SupervisedFinetune", "ImageClassifier").replace("llm:", "backbone:")
    assert recognised(text) is None
