"""NeMo's four layouts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cfglint.dialects.recognise import recognise_files
from cfglint.jobs.facts import UNKNOWN, Reading
from cfglint.jobs.linker import HardwareOptions, Surroundings, link
from cfglint.source.shell import parse_shell
from cfglint.source.yaml import parse_yaml

Read = Callable[..., Reading]
Named = Callable[..., str | None]

AUTOMODEL = """
step_scheduler:
  global_batch_size: 64
  local_batch_size: 8
  num_epochs: 2
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: org/m
  torch_dtype: bf16
peft:
  _target_: nemo_automodel.components._peft.lora.PeftConfig
  target_modules: "*_proj"
  dim: 16
distributed: {strategy: fsdp2, tp_size: 2, pp_size: 1, activation_checkpointing: true}
packed_sequence: {packed_sequence_size: 2048}
loss_fn: {_target_: nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy}
optimizer: {_target_: torch.optim.AdamW, lr: 1e-5, foreach: false}
"""


def test_automodel(read: Read) -> None:
    reading = read(AUTOMODEL)
    assert (reading.dialect, reading.role, reading.framework) == ("nemo", "run", "nemo-automodel")
    expected = {
        "global_batch_size": (64, 2), "micro_batch_size": (8, 3), "epochs": (2.0, 4), "model_id": ("org/m", 7),
        "weight_dtype": ("bf16", 8), "lora_targets": (["all-linear"], 11), "lora_rank": (16, 12), "method": ("lora", 9),
        "fsdp": ("full_shard", 13), "fsdp_version": (2, 13), "tensor_parallel_size": (2, 13), "packing": (True, 14),
        "gradient_checkpointing": ("full", 13), "sequence_length": (2048, 14), "loss_kernel": ("fused_linear", 15),
        "optimizer": ("adamw_loop", 16), "learning_rate": (1e-5, 16),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert reading.facts.value("lora_alpha") == 32.0
    assert reading.facts.value("compute_dtype") == "bf16"


def test_the_loss_may_leave_logits_as_they_are(read: Read) -> None:
    assert not read(AUTOMODEL).facts.stated("upcast_logits")
    masked = AUTOMODEL.replace("linear_ce.FusedLinearCrossEntropy", "masked_ce.MaskedCrossEntropy, fp32_upcast: false")
    assert read(masked).facts.value("upcast_logits") is False


def test_what_is_frozen_of_images(read: Read) -> None:
    """Without ``freeze_config`` nothing is; with one the vision tower is, unless it says otherwise."""
    assert not read(AUTOMODEL).facts.stated("trains_vision")
    frozen = AUTOMODEL + "freeze_config: {freeze_language_model: false}\n"
    assert read(frozen).facts.value("trains_vision") is False
    trained = AUTOMODEL + "freeze_config: {freeze_vision_tower: false}\n"
    assert read(trained).facts.value("trains_vision") is True


def test_a_pipeline_runs_smaller_micro_batches(read: Read) -> None:
    staged = AUTOMODEL.replace("pp_size: 1", "pp_size: 4, pipeline: {pp_microbatch_size: 2}")
    assert read(staged).facts.value("micro_batch_size") == 2


def test_targets_without_a_common_name_are_unknown(read: Read) -> None:
    facts = read(AUTOMODEL.replace('"*_proj"', "[q_proj, experts]")).facts
    assert [f.value for f in facts.statements("lora_targets")] == [UNKNOWN]


def test_distillation_names_its_teacher(read: Read) -> None:
    reading = read(AUTOMODEL + "teacher_model: {pretrained_model_name_or_path: org/big}\nkd_ratio: 0.5\n")
    assert (reading.facts.value("method"), reading.context["teacher"]) == ("distill+lora", "org/big")


RL = """
grpo: {max_num_steps: 100}
policy:
  model_name: org/m
  train_global_batch_size: 512
  train_micro_batch_size: 4
  max_total_sequence_length: 4096
  precision: bfloat16
  dtensor_cfg: {enabled: true, tensor_parallel_size: 2, activation_checkpointing: true, cpu_offload: false}
  megatron_cfg:
    enabled: false
    tensor_model_parallel_size: 8
    optimizer: {optimizer: adam, lr: 3e-6, bf16: true, use_distributed_optimizer: true}
  sequence_packing: {enabled: true}
  optimizer: {name: torch.optim.AdamW, kwargs: {lr: 5e-6, fused: true}}
cluster: {gpus_per_node: 8, num_nodes: 2}
"""


def test_nemo_rl_reads_the_backend_that_is_on(read: Read) -> None:
    facts = read(RL).facts
    expected = {
        "method": "grpo", "model_id": "org/m", "micro_batch_size": 4, "global_batch_size": 512, "sequence_length": 4096,
        "weight_dtype": "fp32", "compute_dtype": "bf16", "tensor_parallel_size": 2, "gradient_checkpointing": "full",
        "packing": True, "optimizer": "adamw_torch_fused", "learning_rate": 5e-6, "fsdp": "full_shard", "gpus_per_node": 8,
        "nodes": 2, "max_steps": 100, "framework": "nemo-rl",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    switched = RL.replace("dtensor_cfg: {enabled: true", "dtensor_cfg: {enabled: false").replace(
        "megatron_cfg:\n    enabled: false", "megatron_cfg:\n    enabled: true"
    )
    facts = read(switched).facts
    assert (facts.value("framework"), facts.value("tensor_parallel_size"), facts.value("zero_stage")) == ("nemo", 8, 1)
    assert (facts.value("weight_dtype"), facts.value("master_weights")) == ("bf16", True)
    assert facts.fact("fsdp") is None


def test_a_child_of_another_file_says_nothing_for_it(read: Read) -> None:
    reading = read("defaults: ../base.yaml\npolicy: {train_micro_batch_size: 2}\ncluster: {gpus_per_node: 4}\n")
    assert [(r.role, r.target, r.base) for r in reading.references] == [("defaults", "../base.yaml", "file")]
    assert set(reading.facts.names()) == {"framework", "micro_batch_size", "gpus_per_node"}


NEMO1 = """
trainer: {devices: 8, num_nodes: 2, precision: bf16, max_steps: 100, accelerator: gpu}
exp_manager: {name: gpt}
model:
  micro_batch_size: 2
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 1
  encoder_seq_length: 4096
  megatron_amp_O2: True
  num_layers: 4
  hidden_size: 512
  num_attention_heads: 8
  ffn_hidden_size: 1376
  num_query_groups: 4
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  vocab_size: 32000
  activations_checkpoint_granularity: selective
  optim: {name: distributed_fused_adam, lr: 1e-4}
"""


def test_nemo_1_makes_a_model_of_its_dimensions(read: Read) -> None:
    reading = read(NEMO1)
    facts = reading.facts
    expected = {
        "framework": "nemo", "gpus_per_node": 8, "nodes": 2, "tensor_parallel_size": 4, "micro_batch_size": 2,
        "global_batch_size": 128, "sequence_length": 4096, "weight_dtype": "bf16", "master_weights": True,
        "gradient_checkpointing": "selective", "zero_stage": 1, "method": "pretrain", "optimizer": "adamw_torch_fused",
    }  # fmt: skip
    assert {name: facts.value(name) for name in expected} == expected
    model = reading.context["model_config"]
    assert (model["model_type"], model["intermediate_size"], model["tie_word_embeddings"]) == ("llama", 1376, False)
    assert model["vocab_size"] == 32256  # a multiple of 128 × 4


def test_without_o2_weights_stay_fp32(read: Read) -> None:
    facts = read(NEMO1.replace("megatron_amp_O2: True", "megatron_amp_O2: False")).facts
    assert (facts.value("weight_dtype"), facts.value("compute_dtype")) == ("fp32", "bf16")


def test_bridge_overrides(read: Read) -> None:
    reading = read(
        "model: {seq_length: 4096, tensor_model_parallel_size: 2}\n"
        "train: {train_iters: 10, micro_batch_size: 1, global_batch_size: 8}\n"
        "optimizer: {lr: 1e-4}\nscheduler: {lr_warmup_iters: 3}\ncheckpoint: {save: x}\nrng: {seed: 1}\n"
        "peft: {dim: 8, alpha: 16, target_modules: [linear_qkv, linear_fc2]}\n"
    )
    facts = reading.facts
    assert (facts.value("sequence_length"), facts.value("tensor_parallel_size"), facts.value("method")) == (
        4096,
        2,
        "lora",
    )
    assert facts.value("lora_targets") == ["q_proj", "k_proj", "v_proj", "down_proj"]


@pytest.mark.parametrize(
    "text",
    [
        "defaults:\n  - model: x\n  - _self_\npolicy: {a: 1}\n",
        "trainer: {devices: 1}\nmodel: {name: x}\n",
        "policy: {model: x}\nlogger: {level: info}\n",
        "train: {batch_size: 4}\nmodel: {name: resnet}\noptimizer: {lr: 1}\ncheckpoint: {}\nrng: {}\n",
    ],
)
def test_files_of_other_tools_are_left_alone(recognised: Named, text: str) -> None:
    assert recognised(text) != "nemo"


def test_a_child_is_read_over_its_parents() -> None:
    files = {
        "configs/base.yaml": RL,
        "configs/recipes/mid.yaml": "defaults: ../base.yaml\npolicy: {train_micro_batch_size: 2, optimizer: null}\n",
        "configs/recipes/child.yaml": (
            "defaults: ./mid.yaml\npolicy:\n  max_total_sequence_length: ${policy.train_micro_batch_size}\n"
            "  dtensor_cfg: {_override_: true, enabled: true, tensor_parallel_size: 4}\ncluster: {num_nodes: 1}\n"
        ),
    }
    readings, _ = recognise_files([parse_yaml(path, text.lstrip("\n")) for path, text in files.items()])
    jobs = {job.name: job for job in link(readings, HardwareOptions(), Surroundings()).training}
    child = jobs["configs/recipes/child.yaml"]
    expected = {
        "micro_batch_size": (2, "configs/recipes/mid.yaml:2"), "sequence_length": (2, "configs/recipes/child.yaml:3"),
        "tensor_parallel_size": (4, "configs/recipes/child.yaml:4"), "nodes": (1, "configs/recipes/child.yaml:5"),
        "gpus_per_node": (8, "configs/base.yaml:15"), "model_id": ("org/m", "configs/base.yaml:3"),
        "weight_dtype": ("fp32", "configs/base.yaml:7"), "method": ("grpo", "configs/base.yaml:1"),
    }  # fmt: skip
    for name, (value, place) in expected.items():
        fact = child.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, place), name
    assert child.fact("optimizer") is None, "null in the file between takes it away"
    assert child.fact("gradient_checkpointing") is None, "_override_ replaces the section whole"
    assert jobs["configs/base.yaml"].value("micro_batch_size") == 4


def test_a_child_whose_parent_is_not_at_hand_stays_as_it_is(tmp_path: Path) -> None:
    text = "defaults: [gone.yaml]\npolicy: {train_micro_batch_size: 2}\n"
    readings, _ = recognise_files([parse_yaml("a.yaml", text), parse_yaml("b.yaml", "defaults: b.yaml\npolicy: {}\n")])
    first, second = link(readings, HardwareOptions(), Surroundings(root=tmp_path)).training
    assert (first.value("micro_batch_size"), first.fact("tensor_parallel_size")) == (2, None)
    assert second.dialects == ["nemo"]


def test_commands_of_nemo_rl_and_automodel() -> None:
    text = (
        "uv run examples/run_grpo.py --config configs/a.yaml policy.train_micro_batch_size=2 cluster.num_nodes=4\n"
        "automodel b.yaml --nproc-per-node 8 --step_scheduler.local_batch_size 4\n"
        "python run_grpo.py --lr 3\n"
    )
    readings, _ = recognise_files([parse_shell("run.sh", text)])
    found = [(r.dialect, r.role, [q.target for q in r.references]) for r in readings]
    assert found == [
        ("launch", "launch", ["configs/a.yaml"]), ("nemo", "arguments", []),
        ("launch", "launch", ["b.yaml"]), ("nemo", "arguments", []),
    ]  # fmt: skip
    rl, automodel = readings[1], readings[3]
    assert (rl.facts.value("micro_batch_size"), rl.facts.value("nodes")) == (2, 4)
    assert (automodel.facts.value("micro_batch_size"), automodel.facts.value("gpus_per_node")) == (4, 8)
    assert rl.context["launched_by"] is readings[0]


def test_nemo_1_s_command_over_its_config_and_that_over_its_defaults() -> None:
    from pathlib import Path

    from cfglint.jobs.linker import HardwareOptions, Surroundings, link
    from cfglint.source.shell import parse_shell
    from cfglint.source.yaml import parse_yaml

    config = """
defaults:
  - optional optim@model.optim: adam
trainer: {devices: 1, num_nodes: 2, precision: bf16, max_steps: 100}
exp_manager: {name: x}
model:
  micro_batch_size: 4
  global_batch_size: 32
  tensor_model_parallel_size: 1
  encoder_seq_length: 2048
  megatron_amp_O2: true
"""
    parsed = {
        path: parse_yaml(path, text)
        for path, text in {
            "nlp/conf/gpt.yaml": config, "nlp/conf/optim/adam.yaml": "name: distributed_fused_adam\nlr: 2e-4\n",
        }.items()
    }  # fmt: skip
    command = (
        "python nlp/megatron_gpt_pretraining.py --config-path=conf --config-name=gpt trainer.devices=8 "
        "model.micro_batch_size=2 ++model.sequence_parallel=True\n"
    )
    readings, _ = recognise_files([*parsed.values(), parse_shell("a.sh", command)])
    around = Surroundings(root=Path("."), document=lambda path: parsed[path].documents[0] if path in parsed else None)
    (job,) = link(readings, HardwareOptions(), around).training
    expected = {
        "gpus_per_node": 8, "nodes": 2, "micro_batch_size": 2, "global_batch_size": 32, "sequence_parallel": True,
        "weight_dtype": "bf16", "zero_stage": 1, "learning_rate": 2e-4, "sequence_length": 2048,
    }  # fmt: skip
    assert {name: job.value(name) for name in expected} == expected
