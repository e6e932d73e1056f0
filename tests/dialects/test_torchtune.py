"""torchtune's YAML and ``tune run``."""

from collections.abc import Callable

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, Reading
from cfglint.source.shell import parse_shell

Read = Callable[..., Reading]

LORA = """
out: /tmp/out
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: ${length}
length: 4096
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: True
model:
  _component_: torchtune.models.llama3_1.{builder}
  lora_attn_modules: ['q_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 16
  lora_alpha: 32
  {extra}
batch_size: 2
epochs: 3
max_steps_per_epoch: 50
gradient_accumulation_steps: 8
optimizer:
  _component_: torch.optim.AdamW
  fused: True
  lr: 3e-4
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
enable_activation_checkpointing: True
dtype: bf16
"""


def config(builder: str = "lora_llama3_1_8b", extra: str = "lora_dropout: 0.0") -> str:
    return LORA.replace("{builder}", builder).replace("{extra}", extra)


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(config())
    assert (reading.dialect, reading.role, reading.framework) == ("torchtune", "run", "torchtune")
    expected = {
        "model_id": ("meta-llama/Llama-3.1-8B", 10), "sequence_length": (4096, 4), "packing": (True, 8),
        "method": ("lora", 10), "lora_rank": (16, 13), "lora_alpha": (32.0, 14), "micro_batch_size": (2, 16),
        "lora_targets": (["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], 11), "epochs": (3.0, 17),
        "gradient_accumulation_steps": (8, 19), "optimizer": ("adamw_torch_fused", 21), "learning_rate": (3e-4, 23),
        "loss_kernel": ("chunked", 25), "gradient_checkpointing": ("full", 26), "weight_dtype": ("bf16", 27),
        "compute_dtype": ("none", 27),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert reading.facts.value("max_steps") == 150


@pytest.mark.parametrize(
    ("builder", "extra", "method", "quantization"),
    [
        ("lora_llama3_1_8b", "use_dora: True", "dora", None),
        ("qlora_llama3_1_8b", "x: 1", "qlora", "nf4-double"),
        ("lora_llama3_1_8b", "quantize_base: True", "qlora", "nf4-double"),
        ("llama3_1_8b", "x: 1", "full", None),
    ],
)
def test_the_builder_names_the_method(read: Read, builder: str, extra: str, method: str, quantization: str) -> None:
    facts = read(config(builder, extra)).facts
    assert (facts.value("method"), facts.value("quantization")) == (method, quantization)
    assert facts.value("model_id") == "meta-llama/Llama-3.1-8B"


def test_sharding_is_a_default_that_files_for_one_device_lack(read: Read) -> None:
    fact = read(config()).facts.fact("fsdp")
    assert fact is not None
    assert fact.value == "full_shard"
    assert isinstance(fact.origin, DefaultOrigin)
    assert read(config(), "8B_lora_single_device.yaml").facts.fact("fsdp") is None
    paged = config().replace("torch.optim.AdamW", "bitsandbytes.optim.PagedAdamW8bit")
    assert read(paged).facts.fact("fsdp") is None
    assert read(paged).facts.value("optimizer") == "paged_adamw_8bit"


def test_dimensions_given_in_the_file_make_a_model(read: Read) -> None:
    dimensions = "num_layers: 4\n  num_heads: 8\n  num_kv_heads: 4\n  embed_dim: 512\n  vocab_size: 32000"
    reading = read(config("llama3_1", dimensions))
    model = reading.context["model_config"]
    assert (model["hidden_size"], model["num_hidden_layers"], model["num_key_value_heads"]) == (512, 4, 4)
    assert model["intermediate_size"] == 1536


def test_embedding_and_head_as_units_of_their_own(read: Read) -> None:
    for layers, apart in (("['tok_embeddings', 'output']", True), ("['tok_embeddings']", False)):
        facts = read(config("llama3_1_8b") + f"custom_sharded_layers: {layers}\n").facts
        assert facts.value("fsdp_wraps_ends") is apart


def test_every_second_layer_checkpointed(read: Read) -> None:
    facts = read(config() + "ac_mode: selective\nac_option: 2\n").facts
    assert (facts.value("gradient_checkpointing"), facts.value("checkpoint_every")) == ("selective", 2)


def test_an_unknown_builder_is_named_as_it_is(read: Read) -> None:
    assert read(config("other_9b")).facts.value("model_id") == "torchtune.models.llama3_1.other_9b"


def test_a_generation_config_starts_no_training(read: Read) -> None:
    reading = read("model:\n  _component_: torchtune.models.llama2.llama2_7b\nprompt: Hi\nmax_new_tokens: 20\n")
    assert (reading.dialect, reading.role) == ("torchtune", "part")


def test_tune_run_brings_devices_the_file_and_overrides() -> None:
    line = "tune run --nnodes 2 --nproc_per_node 8 lora_finetune_distributed --config my.yaml batch_size=8 dtype=$D\n"
    readings, _ = recognise_files([parse_shell("run.sh", line)])
    launch, arguments = (next(r for r in readings if r.role == role) for role in ("launch", "arguments"))
    assert (launch.facts.value("gpus_per_node"), launch.facts.value("nodes")) == (8, 2)
    assert [(r.role, r.target) for r in launch.references] == [("config", "my.yaml")]
    assert arguments.context["launched_by"] is launch
    assert arguments.facts.value("micro_batch_size") == 8
    assert [f.value for f in arguments.facts.statements("weight_dtype")] == [UNKNOWN]
    assert all(
        not isinstance(f.origin, DefaultOrigin) for n in arguments.facts.names() for f in arguments.facts.statements(n)
    )
    single, _ = recognise_files([parse_shell("run.sh", "tune run full_finetune_single_device --config a.yaml\n")])
    assert (single[0].facts.value("fsdp"), single[0].facts.value("gpus_per_node")) == ("none", 1)


def test_a_config_of_torchtune_s_own_is_known_by_its_name() -> None:
    from pathlib import Path

    from cfglint.jobs.linker import HardwareOptions, Surroundings, link
    from cfglint.source.shell import parse_shell

    command = "tune run --nproc_per_node 4 lora_finetune_distributed --config llama3_1/8B_lora batch_size=4\n"
    readings, _ = recognise_files([parse_shell("a.sh", command + command.replace("llama3_1/8B_lora", "ours/8B_lora"))])
    first, second = link(readings, HardwareOptions(), Surroundings(root=Path("."))).training
    assert (first.value("model_id"), first.value("method"), first.value("micro_batch_size")) == (
        "meta-llama/Llama-3.1-8B",
        "lora",
        4,
    )
    assert first.readings[0].context["held_elsewhere"][0] == "config"
    assert second.value("model_id") is None
